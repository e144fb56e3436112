"""Offers by what they can serve, cheapest first, kept in order while prices change.

Whether an offer fits a job is a matter of its instance type, of which there are hundreds; prices are a matter
of tens of thousands of offers, and few of them change between two looks. So each need that was asked about
has a shelf, and a changed offer is taken off and put back where it fits.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from policies.fit import fits
from policies.model import Needs, Reason, key_order
from providers.vocabulary import CapacityType, InstanceType, Offer, OfferKey

MOST_SHELVES = 256
UNPRICED = float("inf")

Entry = tuple[float, tuple[str, ...], Offer]
"""USD per instance-hour (infinite where unknown, 0 for reserved capacity), a tie-breaker, the offer."""


@dataclass(frozen=True, slots=True)
class Shelf:
    """What fits one need, by capacity type, cheapest first; and how many offers do not, by reason."""

    entries: Mapping[CapacityType, list[Entry]]
    unfit: Counter[str]

    def __iter__(self) -> Iterator[Offer]:
        return (offer for entries in self.entries.values() for _, _, offer in entries)

    def __len__(self) -> int:
        return sum(len(entries) for entries in self.entries.values())


class Shelves:
    """All offers, and a shelf for each need asked about lately. Not safe to change from two threads."""

    def __init__(self, offers: Iterable[Offer] = ()) -> None:
        self._offers: dict[OfferKey, Offer] = {}
        self._by_type: dict[InstanceType, dict[OfferKey, Offer]] = {}
        self._shelves: dict[Needs, Shelf] = {}
        for offer in offers:
            self.put(offer)

    def __len__(self) -> int:
        return len(self._offers)

    @property
    def offers(self) -> Sequence[Offer]:
        """All of them."""
        return tuple(self._offers.values())

    def get(self, key: OfferKey) -> Offer | None:
        """An offer as it is now."""
        return self._offers.get(key)

    def put(self, offer: Offer) -> None:
        """Take in an offer, or what has changed of one."""
        before = self._offers.get(offer.key)
        if before == offer:
            return
        if before is not None:
            self.drop(before.key)
        self._offers[offer.key] = offer
        self._by_type.setdefault(offer.type, {})[offer.key] = offer
        for needs, shelf in self._shelves.items():
            refusal = fits(needs, offer.type)
            if refusal is None:
                insort(shelf.entries[offer.key.capacity_type], _entry(offer))
            else:
                shelf.unfit[str(refusal[0])] += 1

    def drop(self, key: OfferKey) -> None:
        """Forget an offer."""
        offer = self._offers.pop(key, None)
        if offer is None:
            return
        same = self._by_type[offer.type]
        del same[key]
        if not same:
            del self._by_type[offer.type]
        for needs, shelf in self._shelves.items():
            refusal = fits(needs, offer.type)
            if refusal is None:
                entries = shelf.entries[key.capacity_type]
                del entries[bisect_left(entries, _entry(offer))]
            else:
                shelf.unfit[str(refusal[0])] -= 1

    def fitting(self, needs: Needs) -> Shelf:
        """The shelf of a need; made on first use."""
        shelf = self._shelves.get(needs)
        if shelf is None:
            if len(self._shelves) >= MOST_SHELVES:
                del self._shelves[next(iter(self._shelves))]
            shelf = self._shelves[needs] = self._stock(needs)
        return shelf

    def unfit(self, needs: Needs) -> Iterator[tuple[Offer, tuple[Reason, str]]]:
        """The offers that do not fit, each with the reason; those that come nearest first."""
        order = list(Reason)
        refused = [
            (refusal, offers)
            for type_, offers in self._by_type.items()
            if (refusal := fits(needs, type_)) is not None
        ]
        refused.sort(key=lambda pair: -order.index(pair[0][0]))
        for refusal, offers in refused:
            yield from ((offer, refusal) for offer in offers.values())

    def _stock(self, needs: Needs) -> Shelf:
        entries: dict[CapacityType, list[Entry]] = {capacity_type: [] for capacity_type in CapacityType}
        unfit: Counter[str] = Counter()
        for type_, offers in self._by_type.items():
            refusal = fits(needs, type_)
            if refusal is not None:
                unfit[str(refusal[0])] += len(offers)
                continue
            for offer in offers.values():
                entries[offer.key.capacity_type].append(_entry(offer))
        for each in entries.values():
            each.sort()
        return Shelf(entries, unfit)


def _entry(offer: Offer) -> Entry:
    if offer.key.capacity_type is CapacityType.RESERVED:  # paid for whether it is used or not
        return (0.0, key_order(offer.key), offer)
    return (UNPRICED if offer.price is None else offer.price, key_order(offer.key), offer)
