"""From GPUs or instances to the limits that must be raised for them. Pure.

A launch draws on every quota that covers its offer: on GCE on the card's regional quota and on the one over
all regions, on Azure on the family's and on the regional cores, on EC2 on vCPUs of a family, spot apart. One
that is raised alone helps nobody.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from providers.quotas import Quota, needed
from providers.vocabulary import InstanceType, Offer


class Verdict(StrEnum):
    """What a limit means for a wish."""

    ENOUGH = "enough"
    RAISE = "raise"
    UNKNOWN = "unknown"
    FIXED = "fixed"


@dataclass(frozen=True, slots=True)
class Gate:
    """One quota that a wish draws on. `needed` and `limit` in the quota's unit: what the wish draws, and
    what the limit has to be for it; `limit` None where the present one is unknown.
    """

    quota: Quota
    needed: float
    limit: float | None
    verdict: Verdict


def gates(
    quotas: Iterable[Quota], offer: Offer, nodes: int, in_flight: Callable[[Quota], float]
) -> list[Gate]:
    """Every quota that `nodes` more instances of the offer's type draw on, by key.

    The new limit holds them beside what is in use and under way. Where the usage is unknown all of the
    present limit counts as used: unknown is never zero. So no limit that is asked for is below the present.
    """
    found = [
        _gate(quota, needed(quota.unit, offer.type, nodes), in_flight(quota))
        for quota in quotas
        if quota.covers(offer)
    ]
    return sorted(found, key=lambda gate: (gate.quota.key, gate.quota.region or ""))


def to_raise(found: Sequence[Gate]) -> list[Gate]:
    """Those whose limit has to grow."""
    return [gate for gate in found if gate.verdict is Verdict.RAISE]


def best_type(types: Iterable[InstanceType], gpus: int) -> InstanceType | None:
    """The type that `gpus` are asked for with where none is named: the largest that is no larger than they
    are, else the smallest; among equals the one with the fewest vCPUs, which some quotas count.
    """
    with_gpus = [type_ for type_ in types if type_.accelerator is not None]
    fitting = [type_ for type_ in with_gpus if _gpus(type_) <= gpus]
    if fitting:
        return min(fitting, key=lambda type_: (-_gpus(type_), type_.vcpus, type_.name))
    return min(with_gpus, key=lambda type_: (_gpus(type_), type_.vcpus, type_.name), default=None)


def instances_for(type_: InstanceType, gpus: int) -> int:
    """How many instances of a type have so many GPUs."""
    return math.ceil(gpus / max(1, _gpus(type_)))


def in_gpus(quota: Quota, amount: float, type_: InstanceType) -> int:
    """How many GPUs of a type's instances an amount of a quota allows."""
    one = needed(quota.unit, type_, 1)
    return 0 if one <= 0 else int(amount // one) * _gpus(type_)


def _gate(quota: Quota, wanted: float, in_flight: float) -> Gate:
    if quota.limit is None:
        return Gate(quota, wanted, None, Verdict.UNKNOWN)
    used = quota.limit if quota.usage is None else quota.usage + in_flight
    limit = float(math.ceil(used + wanted))
    if limit <= quota.limit:
        return Gate(quota, wanted, quota.limit, Verdict.ENOUGH)
    return Gate(quota, wanted, limit, Verdict.FIXED if quota.adjustable is False else Verdict.RAISE)


def _gpus(type_: InstanceType) -> int:
    return type_.accelerator.count if type_.accelerator else 0
