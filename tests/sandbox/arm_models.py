"""The SDK's generated models as a specification: what an answer or a request says that they do not know."""

from __future__ import annotations

import inspect
import sys
import typing
from collections.abc import Iterator, Mapping
from datetime import date, datetime, time, timedelta
from functools import cache
from types import UnionType
from typing import Any

_PLAIN: dict[Any, tuple[type, ...]] = {
    str: (str,),
    bool: (bool,),
    int: (int,),
    float: (int, float),
    datetime: (str,),
    date: (str,),
    time: (str,),
    timedelta: (str,),
    bytes: (str,),
}


def strange(model: type, value: Any, path: str = "body") -> list[str]:
    """Fields of `value` that the model does not have, and values of another type, by path."""
    return list(_against(model, value, path))


def _against(expected: Any, value: Any, path: str) -> Iterator[str]:
    if value is None or expected is Any or expected is object:
        return
    origin = typing.get_origin(expected)
    if origin in (typing.Union, UnionType):
        choices = [choice for choice in typing.get_args(expected) if choice is not type(None)]
        found = [list(_against(choice, value, path)) for choice in choices]
        yield from min(found, key=len, default=[])
    elif origin is list:
        if not isinstance(value, list):
            yield f"{path}: a list is expected"
            return
        for index, item in enumerate(value):
            yield from _against(typing.get_args(expected)[0], item, f"{path}[{index}]")
    elif origin is dict:
        if not isinstance(value, Mapping):
            yield f"{path}: an object is expected"
            return
        for key, item in value.items():
            yield from _against(typing.get_args(expected)[1], item, f"{path}.{key}")
    elif _is_model(expected):
        yield from _model(expected, value, path)
    elif expected in _PLAIN:
        if not isinstance(value, _PLAIN[expected]) or (expected is not bool and isinstance(value, bool)):
            yield f"{path}: {value!r} is no {expected.__name__}"
    elif isinstance(expected, type) and issubclass(expected, str) and not isinstance(value, str):
        yield f"{path}: {value!r} is no text"


def _is_model(expected: Any) -> bool:
    bases = expected.__mro__ if isinstance(expected, type) else ()
    return any(base.__module__.endswith(".model_base") for base in bases)


def _model(model: type, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, Mapping):
        yield f"{path}: an object is expected"
        return
    model = _meant(model, value)
    fields = _fields(model)
    for key, item in value.items():
        if key not in fields:
            yield f"{path}.{key}: unknown field of {model.__name__}"
        else:
            yield from _against(fields[key], item, f"{path}.{key}")


def _meant(model: type, value: Mapping[str, Any]) -> type:
    """The subclass that a value says it is of, by its discriminator."""
    model({})
    kinds: Mapping[str, type] = vars(model).get("__mapping__", {})
    fields = model._attr_to_rest_field.values()  # type: ignore[attr-defined]
    name = next((field._rest_name for field in fields if field._is_discriminator), None)
    return kinds.get(value.get(name), model) if name and kinds else model  # type: ignore[arg-type]


@cache
def _fields(model: type) -> dict[str, Any]:
    """Wire name -> type, inherited ones included."""
    model({})  # the first instance makes the SDK read its own annotations
    known: dict[str, Any] = {}
    names = {
        attribute: field._rest_name
        for attribute, field in model._attr_to_rest_field.items()  # type: ignore[attr-defined]
    }
    for one in reversed(model.__mro__):
        module = sys.modules[one.__module__]
        package = module.__name__.rpartition("._models")[0]
        local = {"_models": sys.modules.get(package, module)}
        for attribute, annotation in inspect.get_annotations(one).items():
            if attribute in names:
                scope = {**vars(typing), **vars(module), **local}
                known[names[attribute]] = _evaluate(annotation, scope)
    return known


def _evaluate(annotation: Any, scope: dict[str, Any]) -> Any:
    """An annotation with the forward references within it resolved."""
    holder = type("Holder", (), {"__annotations__": {"value": annotation}})
    return typing.get_type_hints(holder, globalns=scope)["value"]
