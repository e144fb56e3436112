"""The quotas that keep a job from running: one place per account, the cheapest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from policies.model import Candidate, Reason
from providers.vocabulary import Offer
from service.quotas.headroom import Headroom, Shortage


@dataclass(frozen=True, slots=True)
class Short:
    """An offer that a job could run on, were the limit higher."""

    offer: Offer
    shortage: Shortage


def shortages(found: Sequence[Candidate], room: Headroom, nodes: int) -> list[Short]:
    """Of each account and capacity type the cheapest offer that nothing but a known quota keeps the job from.

    An offer without a known price is none: no policy would take it.
    """
    best: dict[tuple[str, str, str], Short] = {}
    blocked = [one for one in found if one.reason is Reason.BLOCKED and one.offer.price is not None]
    for candidate in sorted(blocked, key=lambda one: (one.offer.price or 0.0, str(one.offer.key))):
        key = candidate.offer.key
        place = (key.provider, key.account, key.capacity_type)
        if place in best or key.reservation is not None:
            continue
        short = room.shortage(candidate.offer, nodes)
        if short is not None:
            best[place] = Short(candidate.offer, short)
    return list(best.values())


def cheapest_of_accounts(found: Sequence[Short]) -> list[Short]:
    """One of each account: what is asked for first."""
    best: dict[tuple[str, str], Short] = {}
    for short in found:
        best.setdefault((short.offer.key.provider, short.offer.key.account), short)
    return list(best.values())
