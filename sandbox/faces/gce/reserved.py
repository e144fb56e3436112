"""Reservations and future reservations, and what an instance's reservation affinity asks for.

The world's plain reservations are Compute Engine's; its blocks are future reservations in calendar mode,
whose automatically created reservation takes instances of the model RESERVATION_BOUND only. What has not
begun shows as a future reservation, what has ended is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sandbox.catalogue import Catalogue, InstanceType
from sandbox.faces.gce import lists, resources
from sandbox.faces.gce.answers import Call, invalid, not_found
from sandbox.ledger import stamp
from sandbox.reservations import Reservation
from sandbox.world import Refusal, World

_KEY = "compute.googleapis.com/reservation-name"
_SSD_GB = "375"
Body = dict[str, Any]


class Reserved:
    """What was paid for ahead. `handlers`: method id -> what answers it."""

    def __init__(self, world: World, table: Catalogue) -> None:
        self._world = world
        self._table = table
        self.handlers: Mapping[str, Callable[[Call], Body]] = {
            "reservations.aggregatedList": self._reservations,
            "reservations.get": self._reservation,
            "futureReservations.aggregatedList": self._future_reservations,
        }

    def _reservations(self, call: Call) -> Body:
        return lists.aggregated(
            call, "reservation", "reservations", self._scopes(call, "active", self._shown)
        )

    def _reservation(self, call: Call) -> Body:
        zone, name = call.path["zone"], call.path["reservation"]
        for found in self._scopes(call, "active", self._shown).get(f"zones/{zone}", ()):
            if found["name"] == name:
                return found
        raise not_found(call, "zones", zone, "reservations", name)

    def _future_reservations(self, call: Call) -> Body:
        scopes = self._scopes(call, "scheduled", self._future)
        for scope, found in self._scopes(call, "active", self._future).items():
            scopes[scope] += [one for one in found if one["reservationMode"] == "CALENDAR"]
        return lists.aggregated(call, "futureReservation", "futureReservations", scopes)

    def _scopes(
        self, call: Call, state: str, show: Callable[[Call, Reservation, int], Body]
    ) -> dict[str, list[Body]]:
        scopes: dict[str, list[Body]] = {f"zones/{zone}": [] for zone in self._table.zones}
        now = self._world.now()
        for found, used in self._world.reservations("gcp"):
            if found.state(now) == state:
                scopes[f"zones/{found.zone}"].append(show(call, found, used))
        return scopes

    def _shown(self, call: Call, found: Reservation, used: int) -> Body:
        shown: Body = {
            "kind": "compute#reservation",
            "id": resources.number(f"reservation/{found.zone}/{found.name}"),
            "creationTimestamp": stamp(found.made_at),
            "name": found.name,
            "zone": call.link("zones", found.zone),
            "selfLink": call.link("zones", found.zone, "reservations", found.name),
            "status": "READY",
            "specificReservationRequired": found.targeted,
            "specificReservation": {
                "count": str(found.count),
                "assuredCount": str(found.count),
                "inUseCount": str(used),
                "instanceProperties": self._properties(found),
            },
            "shareSettings": {"shareType": "LOCAL"},
        }
        if found.ends_at is not None:
            shown["deleteAtTime"] = stamp(found.ends_at)
        if found.kind == "block":
            shown["deploymentType"] = "DENSE"
        return shown

    def _future(self, call: Call, found: Reservation, used: int) -> Body:
        begun = found.state(self._world.now()) == "active"
        window = {"startTime": stamp(found.starts_at)}
        if found.ends_at is not None:
            window["endTime"] = stamp(found.ends_at)
        made = [call.link("zones", found.zone, "reservations", found.name)] if begun else []
        return {
            "kind": "compute#futureReservation",
            "id": resources.number(f"future/{found.zone}/{found.name}"),
            "creationTimestamp": stamp(found.made_at),
            "name": f"{found.name}-future",
            "zone": call.link("zones", found.zone),
            "selfLink": call.link("zones", found.zone, "futureReservations", f"{found.name}-future"),
            "planningStatus": "SUBMITTED",
            "reservationMode": "CALENDAR" if found.kind == "block" else "DEFAULT",
            "reservationName": found.name,
            "specificReservationRequired": found.targeted,
            "timeWindow": window,
            "specificSkuProperties": {
                "instanceProperties": self._properties(found),
                "totalCount": str(found.count),
            },
            "status": {
                "procurementStatus": "FULFILLED" if begun else "APPROVED",
                "autoCreatedReservations": made,
                "fulfilledCount": str(found.count if begun else 0),
            },
        }

    def _properties(self, found: Reservation) -> Body:
        size: InstanceType = self._table.types[found.instance_type]
        name, _, attached = size.name.partition("+")
        shown: Body = {"machineType": name}
        if size.gpu is not None and attached:
            shown["guestAccelerators"] = [
                {"acceleratorType": size.gpu.name, "acceleratorCount": size.gpu.count}
            ]
        if size.disk_gb:
            ssd = {"diskSizeGb": _SSD_GB, "interface": "NVME"}
            shown["localSsds"] = [ssd] * int(size.disk_gb // int(_SSD_GB))
        return shown


def named(call: Call, body: Mapping[str, Any]) -> str | None:
    """The reservation that an affinity names; None if it names none. 400 for one that makes no sense."""
    affinity = body.get("reservationAffinity", {})
    if affinity.get("consumeReservationType") != "SPECIFIC_RESERVATION":
        return None
    values = affinity.get("values", ())
    if affinity.get("key") != _KEY or len(values) != 1:
        raise invalid("resource.reservationAffinity", affinity, f"It takes the key {_KEY} and one value.")
    project, _, name = str(values[0]).rpartition("/reservations/")
    if project not in ("", f"projects/{call.project}"):
        raise invalid("resource.reservationAffinity.values[0]", values[0], "Not shared with this project.")
    return name


def matches_any(body: Mapping[str, Any]) -> bool:
    """Whether open reservations are eaten: the default of the API."""
    kind = body.get("reservationAffinity", {}).get("consumeReservationType", "ANY_RESERVATION")
    return bool(kind == "ANY_RESERVATION")


def check_model(world: World, name: str | None, scheduling: Mapping[str, Any]) -> None:
    """A block takes instances that are bound to it, a plain reservation takes no others than plain ones."""
    bound = scheduling.get("provisioningModel") == "RESERVATION_BOUND"
    for found, _ in world.reservations("gcp"):
        if found.name == name and bound is not (found.kind == "block"):
            facts = {"name": name, "obstacle": "mismatch"}
            raise Refusal("reservation", f"reservation {name} takes other provisioning models", facts)
