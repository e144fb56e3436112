"""What Google says of spot capacity: how likely an instance of a type is obtained in a zone now.

Source: Compute Engine API v1, advice.capacity: `obtainability` from 0 to 1 of one recommendation, so each
type is asked about in each zone by itself. How often instances are taken back is told as a share of those
that stopped in a day (advice.capacityHistory), which is no rate per hour; it is not read.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from providers.config import AccountConfig
from providers.errors import ErrorKind, ProviderError
from providers.gcp.calls import Calls
from providers.gcp.clients import Clients
from providers.gcp.errors import Where
from providers.gcp.machine_types import Shape, capacity_types
from providers.gcp.offers import Offers
from providers.signals import SignalListing, SpotSignal
from providers.vocabulary import CapacityType, InstanceType

SOURCE = "capacity-advice"

_FRESH = timedelta(minutes=30)
_UNSUPPORTED = timedelta(hours=24)  # a type that the vendor gives no advice on
_REFUSED = timedelta(minutes=15)
_NO_ADVICE = (ErrorKind.INVALID_REQUEST, ErrorKind.UNSUPPORTED, ErrorKind.NOT_FOUND)


@dataclass(frozen=True, slots=True)
class _Known:
    """The last answer about a type in a zone, None where there is no advice. until: monotonic seconds."""

    signal: SpotSignal | None
    until: float


class Signals:
    """The signals of one account, each kept for half an hour."""

    def __init__(self, clients: Clients, calls: Calls, offers: Offers, config: AccountConfig) -> None:
        self._clients = clients
        self._calls = calls
        self._offers = offers
        self._config = config
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], _Known] = {}
        self._refused_until = float("-inf")

    def of_region(self, region: str) -> SignalListing:
        """What cannot be asked about keeps its last answer. ProviderError if the offers are not known."""
        types = self._offers.types(region)
        wanted = [(zone, size) for zone, sizes in types.by_zone.items() for size in _spot(sizes.values())]
        missing = [*types.missing, *self._refresh(region, wanted)]
        found = (self._known.get((zone, size.name)) for zone, size in wanted)
        signals = tuple(known.signal for known in found if known is not None and known.signal is not None)
        return SignalListing(signals, tuple(sorted(set(missing))))

    def _refresh(self, region: str, wanted: list[tuple[str, InstanceType]]) -> list[str]:
        """Ask about what is not known or too old; the zones that could not be asked about in full."""
        clock = self._calls.clock
        with self._lock:
            now = clock.monotonic()
            stale = [(zone, size) for zone, size in wanted if self._until(zone, size) <= now]
            if stale and now < self._refused_until:
                return sorted({zone for zone, _ in stale})
            for index, (zone, size) in enumerate(stale):
                try:
                    self._ask(region, zone, size)
                except ProviderError as error:
                    if error.kind in (ErrorKind.AUTH, ErrorKind.ACCOUNT_BLOCKED, ErrorKind.THROTTLED):
                        self._refused_until = clock.monotonic() + _REFUSED.total_seconds()
                    return sorted({zone for zone, _ in stale[index:]})
        return []

    def _until(self, zone: str, size: InstanceType) -> float:
        known = self._known.get((zone, size.name))
        return known.until if known is not None else float("-inf")

    def _ask(self, region: str, zone: str, size: InstanceType) -> None:
        clock = self._calls.clock
        where = Where(self._config.name, region, zone, size.name, capacity_type=CapacityType.SPOT)
        request = _request(str(self._config.project), region, zone, size.name)
        try:
            answer: Any = self._calls.read(self._clients.advice.capacity, request, where)
        except ProviderError as error:
            if error.kind not in _NO_ADVICE:
                raise
            until = clock.monotonic() + _UNSUPPORTED.total_seconds()
            self._known[zone, size.name] = _Known(None, until)
            return
        scores = [entry.scores.obtainability for entry in answer.recommendations if "scores" in entry]
        signal = None
        if scores and 0 <= scores[0] <= 1:
            signal = SpotSignal(size.name, region, zone, SOURCE, clock.now(), obtainability=scores[0])
        self._known[zone, size.name] = _Known(signal, clock.monotonic() + _FRESH.total_seconds())


def _spot(sizes: Any) -> Iterator[InstanceType]:
    """The types that a signal matters for."""
    for size in sizes:
        if size.accelerator is not None and CapacityType.SPOT in capacity_types(size.name):
            yield size


def _request(project: str, region: str, zone: str, name: str) -> Any:
    """Advice on one spot instance of a type in a zone."""
    from google.cloud.compute_v1 import types

    shape = Shape.parse(name)
    selection: dict[str, Any] = {"machine_types": [shape.machine_type]}
    if shape.accelerator:
        selection["guest_accelerators"] = [
            {"accelerator_type": shape.accelerator, "accelerator_count": shape.count}
        ]
    resource = {
        "size": 1,
        "instance_properties": {"scheduling": {"provisioning_model": "SPOT"}},
        "instance_flexibility_policy": {"instance_selections": {"asked": selection}},
        "distribution_policy": {"target_shape": "ANY_SINGLE_ZONE", "zones": [{"zone": f"zones/{zone}"}]},
    }
    return types.CapacityAdviceRpcRequest(
        project=project, region=region, capacity_advice_request_resource=types.CapacityAdviceRequest(resource)
    )
