"""What `instances.insert` and `instances.bulkInsert` ask for, checked as the API checks it."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.catalogue import Catalogue
from sandbox.faces.gce import cabling, reserved, resources
from sandbox.faces.gce.answers import ApiError, Call, invalid

_LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
_VALUE_LIMIT = 262_144
_DEFAULT_DISK_GB = 10
_BOUND = "RESERVATION_BOUND"
_MODELS = {"STANDARD": "on_demand", "SPOT": "spot", _BOUND: "on_demand"}
_ACTIONS = ("STOP", "DELETE")


@dataclass(frozen=True, slots=True)
class Wish:
    """Instances of one kind in one zone, and what the world keeps of them."""

    names: tuple[str, ...]
    instance_type: str
    capacity_type: str
    labels: dict[str, str]
    user_data: str
    public_ip: bool
    max_run_seconds: float | None
    delete_on_eviction: bool
    keep_disk: bool
    reservation: str | None
    matching: bool
    extra: dict[str, Any]


def request_id(call: Call) -> str | None:
    """The call's requestId; 400 if it is no UUID."""
    text = call.query.get("requestId")
    if text is None:
        return None
    try:
        value = uuid.UUID(text)
    except ValueError:
        raise invalid("requestId", text, "It must be a valid UUID.") from None
    if value.int == 0:
        raise invalid("requestId", text, "The zero UUID is not supported.")
    return text


def read(reader: Callable[[Call, Catalogue], Wish], call: Call, table: Catalogue) -> Wish:
    """What `reader` makes of the body; 400 where the body is not of the API's shape at all."""
    try:
        return reader(call, table)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ApiError(400, "invalid", f"The request body is malformed: {error}") from error


def single(call: Call, table: Catalogue) -> Wish:
    """The one instance of an insert."""
    name = str(call.body.get("name", ""))
    if not resources.valid_name(name):
        raise invalid("resource.name", name, "Must be a match of regex '[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?'")
    prefix = f"zones/{call.path['zone']}/machineTypes/"
    url = str(call.body.get("machineType", ""))
    if prefix not in url:
        raise invalid("resource.machineType", url, "The URL is malformed.")
    return _wish(call, table, call.body, (name,), url.rpartition("/")[2], bare=False)


def gang(call: Call, table: Catalogue) -> Wish:
    """The instances of a bulk insert. Only exact names are taken; `minCount` must be `count`."""
    names = tuple(sorted(call.body.get("perInstanceProperties", {})))  # the order of a map says nothing
    count = int(call.body.get("count", 0))
    least = int(call.body.get("minCount", count))
    if count < 1 or len(names) != count:
        raise invalid("resource.count", count, f"{len(names)} names are given in perInstanceProperties.")
    if least != count:
        raise invalid("resource.minCount", least, "Less than the count is not supported here.")
    for name in names:
        if not resources.valid_name(name):
            raise invalid("resource.perInstanceProperties", name, "Must be a valid instance name.")
    properties = call.body.get("instanceProperties", {})
    machine_type = str(properties.get("machineType", ""))
    if "/" in machine_type:
        raise ApiError(500, "internalError", "Internal error: the machine type must be a bare name.")
    return _wish(call, table, properties, names, machine_type, bare=True)


def _wish(
    call: Call,
    table: Catalogue,
    body: Mapping[str, Any],
    names: tuple[str, ...],
    machine_type: str,
    *,
    bare: bool,
) -> Wish:
    scheduling = dict(body.get("scheduling", {}))
    cards = list(body.get("guestAccelerators", ()))
    instance_type = _instance_type(call, table, machine_type, cards)
    capacity_type = _capacity_type(scheduling)
    _check_scheduling(table, instance_type, capacity_type, scheduling)
    labels = _labels(body.get("labels", {}))
    metadata = _metadata(body.get("metadata", {}))
    disk = _disk(call, body, bare=bare)
    interfaces = cabling.read(call, body, instance_type)
    reservation = reserved.named(call, body)
    bound = scheduling.get("provisioningModel") == _BOUND
    if bound and reservation is None:
        raise invalid("resource.scheduling.provisioningModel", _BOUND, "It needs a specific reservation.")
    run = scheduling.get("maxRunDuration")
    return Wish(
        names=names,
        instance_type=instance_type,
        capacity_type=capacity_type,
        labels=labels,
        user_data=metadata.get("user-data", ""),
        public_ip=interfaces[0].public,
        max_run_seconds=float(run.get("seconds", 0)) if run else None,
        delete_on_eviction=scheduling.get("instanceTerminationAction", "STOP") == "DELETE",
        keep_disk=not disk["auto_delete"],
        reservation=reservation,
        matching=reserved.matches_any(body),
        extra={
            "project": call.project,
            "metadata": metadata,
            "scheduling": {"onHostMaintenance": "MIGRATE", "automaticRestart": True, **scheduling},
            "network_tags": list(body.get("tags", {}).get("items", ())),
            "service_accounts": list(body.get("serviceAccounts", ())),
            "guest_accelerators": _shown_cards(call, table, instance_type),
            "subnet": interfaces[0].subnet,
            "more_interfaces": interfaces[1:],
            "resource_policies": _policies(call, body, bare=bare),
            "disk": disk,
            "reservation_affinity": body.get("reservationAffinity", {}),
        },
    )


def _instance_type(call: Call, table: Catalogue, name: str, cards: list[Mapping[str, Any]]) -> str:
    """The catalogue's name of a machine type with what is attached to it."""
    zone = call.path["zone"]
    known = {size.partition("+")[0] for size in table.types if table.sold(zone, size)}
    if name not in known:
        why = f"Machine type with name '{name}' does not exist in zone '{zone}'."
        raise invalid("resource.machineType", f"zones/{zone}/machineTypes/{name}", why)
    own = table.types.get(name)
    if not cards or (own is not None and own.gpu is not None):
        if own is None:
            raise invalid("resource.machineType", name, "It is not sold without an accelerator here.")
        return name
    kind = str(cards[0].get("acceleratorType", "")).rpartition("/")[2]
    full = f"{name}+{kind}x{int(cards[0].get('acceleratorCount', 0))}"
    if not table.sold(zone, full):
        url = f"projects/{call.project}/zones/{zone}/acceleratorTypes/{kind}"
        raise ApiError(404, "notFound", f"The resource '{url}' was not found")
    return full


def _shown_cards(call: Call, table: Catalogue, instance_type: str) -> list[dict[str, Any]]:
    gpu = table.types[instance_type].gpu
    if gpu is None:
        return []
    url = call.link("zones", call.path["zone"], "acceleratorTypes", gpu.name)
    return [{"acceleratorType": url, "acceleratorCount": gpu.count}]


def _capacity_type(scheduling: Mapping[str, Any]) -> str:
    model = scheduling.get("provisioningModel", "STANDARD")
    if scheduling.get("preemptible") and model == "STANDARD":
        return "spot"
    if model not in _MODELS:
        raise invalid("resource.scheduling.provisioningModel", model, "Not supported here.")
    return _MODELS[model]


def _check_scheduling(
    table: Catalogue, instance_type: str, capacity_type: str, scheduling: Mapping[str, Any]
) -> None:
    """The rules that make an insert fail on the real API too."""
    terminates = scheduling.get("onHostMaintenance", "MIGRATE") == "TERMINATE"
    if table.types[instance_type].gpu is not None and not terminates:
        text = "Instances with guest accelerators do not support live migration."
        raise invalid("resource.scheduling.onHostMaintenance", "MIGRATE", text)
    action = scheduling.get("instanceTerminationAction")
    if action is not None and action not in _ACTIONS:
        raise invalid("resource.scheduling.instanceTerminationAction", action)
    if capacity_type == "spot" and scheduling.get("automaticRestart", False):
        text = "Spot instances can not be restarted automatically."
        raise invalid("resource.scheduling.automaticRestart", "true", text)
    bound = scheduling.get("provisioningModel") == _BOUND
    limited = "maxRunDuration" in scheduling or bound
    if capacity_type == "on_demand" and action is not None and not limited:
        text = "It needs a Spot instance, a maximum run duration or a reservation that it is bound to."
        raise invalid("resource.scheduling.instanceTerminationAction", action, text)


def _labels(labels: Mapping[str, Any]) -> dict[str, str]:
    for key, value in labels.items():
        if not _LABEL_KEY.fullmatch(key) or not _LABEL_VALUE.fullmatch(str(value)):
            raise invalid("resource.labels", f"{key}={value}", "Label keys and values take [a-z0-9_-] only.")
    if len(labels) > 64:
        raise invalid("resource.labels", len(labels), "At most 64 labels.")
    return {key: str(value) for key, value in labels.items()}


def _metadata(metadata: Mapping[str, Any]) -> dict[str, str]:
    items = {str(item["key"]): str(item.get("value", "")) for item in metadata.get("items", ())}
    for key, value in items.items():
        if len(value.encode()) > _VALUE_LIMIT:
            raise invalid(f"resource.metadata.items[{key}]", f"{len(value)} characters", "It is too large.")
    return items


def _disk(call: Call, body: Mapping[str, Any], *, bare: bool) -> dict[str, Any]:
    disks = body.get("disks", ())
    if len(disks) != 1 or not disks[0].get("boot"):
        raise invalid("resource.disks", len(disks), "Exactly one boot disk is supported here.")
    parameters = disks[0].get("initializeParams", {})
    source = str(parameters.get("sourceImage", ""))
    if not resources.image_of_reference(source):
        why = "The referenced image resource cannot be found."
        raise invalid("resource.disks[0].initializeParams.sourceImage", source, why)
    kind = str(parameters.get("diskType", ""))
    if kind and bare is ("/" in kind):
        raise invalid("resource.disks[0].initializeParams.diskType", kind, "The name is malformed.")
    _labels(parameters.get("labels", {}))
    return {
        "auto_delete": bool(disks[0].get("autoDelete", False)),
        "size_gb": int(parameters.get("diskSizeGb", _DEFAULT_DISK_GB)),
        "type": kind.rpartition("/")[2],
        "labels": dict(parameters.get("labels", {})),
        "image": source,
    }


def _policies(call: Call, body: Mapping[str, Any], *, bare: bool) -> list[str]:
    """The names of the placement policies: URLs in an insert, bare names in a bulk insert."""
    given = [str(text) for text in body.get("resourcePolicies", ())]
    prefix = f"/regions/{call.path['zone'].rpartition('-')[0]}/resourcePolicies/"
    for text in given:
        if bare is ("/" in text) or (not bare and prefix not in f"/{text}"):
            raise invalid("resource.resourcePolicies[0]", text, "The URL is malformed.")
    if len(given) > 1:
        raise invalid("resource.resourcePolicies", len(given), "At most one placement policy.")
    return [text.rpartition("/")[2] for text in given]
