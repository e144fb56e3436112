"""The wire protocols of EC2 and its neighbours, both ways, from the service models that ship with botocore.

A request that names what the model does not know is refused; an answer that does is a mistake of ours and
raises. So neither side of the face can drift from the real API.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any
from xml.sax.saxutils import escape

from botocore.loaders import Loader
from botocore.model import (
    ListShape,
    MapShape,
    OperationModel,
    ServiceModel,
    Shape,
    StringShape,
    StructureShape,
)
from botocore.validate import ParamValidator

from sandbox.faces.ec2.errors import AwsError, xml_head

#: Names of the services in a signature's scope -> names of their models.
SIGNING_NAMES = {
    "ec2": "ec2",
    "sts": "sts",
    "pricing": "pricing",
    "servicequotas": "service-quotas",
    "ssm": "ssm",
}

# What is in a query besides the operation's own parameters.
_ENVELOPE = frozenset({"Action", "Version"})
_TRUTH = {"true": True, "false": False}


@cache
def service(name: str) -> ServiceModel:
    """The model of a service by the name of its model."""
    return ServiceModel(Loader().load_service_model(name, "service-2"), name)


def operation(model: ServiceModel, name: str) -> OperationModel:
    """The operation of that name; AwsError InvalidAction if the service has none."""
    if name not in model.operation_names:
        raise AwsError("InvalidAction", f"The action {name} is not valid for this web service.")
    return model.operation_model(name)


def read_query(model: OperationModel, form: Mapping[str, str]) -> dict[str, Any]:
    """The parameters of an `ec2` or `query` request. AwsError for anything that the model does not allow."""
    rest = {key: value for key, value in form.items() if key not in _ENVELOPE}
    ec2 = model.service_model.resolved_protocol == "ec2"
    shape = model.input_shape
    params = _structure(shape, rest, "", ec2) if isinstance(shape, StructureShape) else {}
    if rest:
        raise AwsError("UnknownParameter", f"The parameter {sorted(rest)[0]} is not recognized")
    return checked(model, params)


def read_json(model: OperationModel, body: bytes) -> dict[str, Any]:
    """The parameters of a `json` request."""
    try:
        params = json.loads(body or b"{}")
    except ValueError as error:
        raise AwsError("SerializationException", f"not JSON: {error}") from error
    if not isinstance(params, dict):
        raise AwsError("SerializationException", "a JSON object is expected")
    return checked(model, params)


def checked(model: OperationModel, params: dict[str, Any]) -> dict[str, Any]:
    """The parameters as they are, once names, types, ranges and enumerations agree with the model."""
    report = ParamValidator().validate(params, model.input_shape) if model.input_shape else None
    if report is not None and report.has_errors():
        text = report.generate_report()
        first = text.splitlines()[0]
        code = "MissingParameter" if first.startswith("Missing required") else "InvalidParameterValue"
        if first.startswith("Unknown parameter"):
            code = "UnknownParameter"
        raise AwsError(code, text)
    _enumerated(model.input_shape, params, "")
    return params


def _enumerated(shape: Shape | None, value: Any, path: str) -> None:
    """botocore's own check leaves enumerations to the service."""
    if isinstance(shape, StructureShape):
        for name, inner in value.items():
            _enumerated(shape.members[name], inner, f"{path}.{name}" if path else name)
    elif isinstance(shape, ListShape):
        for inner in value:
            _enumerated(shape.member, inner, path)
    elif isinstance(shape, StringShape) and shape.enum and value not in shape.enum:
        raise AwsError("InvalidParameterValue", f"Invalid value '{value}' for {path}.")


def _structure(shape: StructureShape, rest: dict[str, str], prefix: str, ec2: bool) -> dict[str, Any]:
    """What of `rest` belongs to a structure; it is taken out there."""
    found: dict[str, Any] = {}
    for name, member in shape.members.items():
        key = prefix + _wire_name(member, name, ec2)
        value = _value(member, rest, key, ec2)
        if value is not None:
            found[name] = value
    return found


def _wire_name(member: Shape, name: str, ec2: bool) -> str:
    """As botocore's serializers name it: `queryName`, else the capitalised location name, else the name."""
    if not ec2:
        return str(member.serialization.get("name", name))
    if "queryName" in member.serialization:
        return str(member.serialization["queryName"])
    located = str(member.serialization.get("name", name))
    return located[0].upper() + located[1:]


def _value(shape: Shape, rest: dict[str, str], key: str, ec2: bool) -> Any:
    if isinstance(shape, StructureShape):
        if not _any_below(rest, key):
            return None
        return _structure(shape, rest, f"{key}.", ec2)
    if isinstance(shape, ListShape):
        return _list(shape, rest, key, ec2)
    text = rest.pop(key, None)
    return None if text is None else _scalar(shape, text, key)


def _list(shape: ListShape, rest: dict[str, str], key: str, ec2: bool) -> list[Any] | None:
    below = f"{key}." if ec2 else f"{key}.member."
    numbers = {name.removeprefix(below).partition(".")[0] for name in rest if name.startswith(below)}
    if not all(number.isdecimal() for number in numbers):
        raise AwsError("UnknownParameter", f"The parameter {below}{min(numbers)} is not recognized")
    found = [_value(shape.member, rest, f"{below}{number}", ec2) for number in sorted(numbers, key=int)]
    return found or None


def _any_below(rest: Mapping[str, str], key: str) -> bool:
    return any(name.startswith(f"{key}.") for name in rest)


def _scalar(shape: Shape, text: str, key: str) -> Any:
    try:
        if shape.type_name in ("integer", "long"):
            return int(text)
        if shape.type_name in ("float", "double"):
            return float(text)
        if shape.type_name == "boolean":
            return _TRUTH[text.lower()]
        if shape.type_name == "timestamp":
            return datetime.fromisoformat(text.replace("Z", "+00:00"))
        if shape.type_name == "blob":
            return base64.b64decode(text, validate=True)
    except (ValueError, KeyError):
        text = f"Value ({text}) for parameter {key} is invalid: expected {shape.type_name}"
        raise AwsError("InvalidParameterValue", text) from None
    return text


def write_query(model: OperationModel, answer: Mapping[str, Any], request_id: str) -> str:
    """An answer as XML. ValueError if it is not of the operation's output shape."""
    shape = model.output_shape
    inner = _members(shape, answer) if isinstance(shape, StructureShape) else ""
    namespace = str(model.service_model.metadata.get("xmlNamespace", ""))
    name = model.wire_name
    if model.service_model.resolved_protocol == "ec2":
        inner = f"<requestId>{request_id}</requestId>{inner}"
    else:
        wrapper = shape.serialization.get("resultWrapper", f"{name}Result") if shape else f"{name}Result"
        inner = (
            f"<{wrapper}>{inner}</{wrapper}>"
            f"<ResponseMetadata><RequestId>{request_id}</RequestId></ResponseMetadata>"
        )
    return f'{xml_head()}<{name}Response xmlns="{namespace}">{inner}</{name}Response>'


def write_json(model: OperationModel, answer: Mapping[str, Any]) -> str:
    """An answer as JSON. ValueError if it is not of the operation's output shape."""
    return json.dumps(_plain(model.output_shape, answer, model.name))


def _members(shape: StructureShape, value: Mapping[str, Any]) -> str:
    _known(shape, value)
    return "".join(
        _element(shape.members[name], str(shape.members[name].serialization.get("name", name)), inner)
        for name, inner in value.items()
        if inner is not None
    )


def _element(shape: Shape, name: str, value: Any) -> str:
    if isinstance(shape, StructureShape):
        return f"<{name}>{_members(shape, value)}</{name}>"
    if isinstance(shape, ListShape):
        item = str(shape.member.serialization.get("name", "member"))
        return f"<{name}>{''.join(_element(shape.member, item, inner) for inner in value)}</{name}>"
    return f"<{name}>{escape(_text(shape, value, name))}</{name}>"


_PYTHON: dict[str, type | tuple[type, ...]] = {
    "integer": int,
    "long": int,
    "float": (int, float),
    "double": (int, float),
    "boolean": bool,
    "string": str,
    "timestamp": datetime,
    "blob": bytes,
}


def _text(shape: Shape, value: Any, name: str) -> str:
    _typed(shape, value, name)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03d}Z"
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)


def _plain(shape: Shape | None, value: Any, name: str) -> Any:
    if isinstance(shape, StructureShape):
        _known(shape, value)
        return {
            key: _plain(shape.members[key], inner, key) for key, inner in value.items() if inner is not None
        }
    if isinstance(shape, ListShape):
        return [_plain(shape.member, inner, name) for inner in value]
    if isinstance(shape, MapShape):
        return {key: _plain(shape.value, inner, name) for key, inner in value.items()}
    if shape is not None:
        _typed(shape, value, name)
    return value.timestamp() if isinstance(value, datetime) else value


def _known(shape: StructureShape, value: Mapping[str, Any]) -> None:
    unknown = sorted(set(value) - set(shape.members))
    if unknown:
        raise ValueError(f"{shape.name} has no member {unknown[0]}")


def _typed(shape: Shape, value: Any, name: str) -> None:
    if not isinstance(value, _PYTHON[shape.type_name]):
        raise ValueError(f"{name} is {shape.type_name}, not {type(value).__name__}")
