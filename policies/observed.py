"""A market with its shelves and its memory at hand: what the policies of the service decide on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Protocol, cast

from policies.estimates import Estimate, pooled
from policies.model import Block, Evidence, Market, Needs, ObservedMarket
from policies.shelves import Shelf, Shelves
from providers.vocabulary import Offer, OfferKey


class IndexedMarket(ObservedMarket, Protocol):
    """An observed market that need not be walked from end to end."""

    @property
    def prior(self) -> Estimate:
        """What to expect of an offer that was never tried."""

    def fitting(self, needs: Needs) -> Shelf:
        """What fits a need, cheapest first."""

    def get(self, key: OfferKey) -> Offer | None:
        """An offer as it is now; None if it is no longer for sale."""


class OnShelves:
    """Any market, indexed for one question or a few."""

    def __init__(self, market: Market) -> None:
        self._market = market
        self._shelves = Shelves(market.offers)
        self.evidence: Mapping[OfferKey, Evidence] = getattr(market, "evidence", {})
        self.prior = pooled(self.evidence.values())

    @property
    def offers(self) -> Iterable[Offer]:
        """All of them."""
        return self._market.offers

    @property
    def observations(self) -> Mapping[str, float]:
        """As the market has them."""
        return self._market.observations

    def fitting(self, needs: Needs) -> Shelf:
        """What fits a need, cheapest first."""
        return self._shelves.fitting(needs)

    def get(self, key: OfferKey) -> Offer | None:
        """An offer as it is now."""
        return self._shelves.get(key)

    def block_of(self, offer: Offer, now: datetime, image: str | None = None, nodes: int = 1) -> Block | None:
        """As the market says."""
        return self._market.block_of(offer, now, image, nodes)


def indexed(market: Market) -> IndexedMarket:
    """The market itself if it has shelves, else with shelves put up."""
    return cast(IndexedMarket, market) if hasattr(market, "fitting") else OnShelves(market)
