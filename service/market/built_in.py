"""What ships with the adapters, shown until a place was read for the first time. Never launched on."""

from __future__ import annotations

from dataclasses import replace

from sqlmodel import Session, col, select

from service.context import Context
from service.market.model import OfferRow, Poll
from service.market.offers import to_values

UNREAD = "unread"
UNREAD_MESSAGE = "the place was not read yet; this is what ships with Corral"


def show_built_in(ctx: Context) -> None:
    """Put the built-in offers of each place on the shelf that nothing was ever read of."""
    places = [
        (provider, account, region)
        for (provider, account), adapter in ctx.providers.items()
        for region in adapter.regions
    ]
    unknown = ctx.database.read(lambda session: [place for place in places if not _is_known(session, *place)])
    found = [
        offer
        for provider, account, region in unknown
        for offer in ctx.providers[provider, account].built_in_offers(region).offers
    ]
    now = ctx.now()

    def write(session: Session) -> None:
        for offer in {offer.key: offer for offer in found}.values():
            if not _is_known(session, offer.key.provider, offer.key.account, offer.key.region):
                marked = replace(offer, built_in=True, price_source="snapshot")
                session.merge(OfferRow(**to_values(marked, now)))

    if found:
        ctx.database.write(write)


def _is_known(session: Session, provider: str, account: str, region: str) -> bool:
    """True once the place was read, or something that was read of it is on the shelf."""
    poll = session.get(Poll, f"offers/{provider}/{account}/{region}")
    if poll is not None and poll.succeeded_at is not None:
        return True
    offered = select(OfferRow.id).where(
        OfferRow.provider == provider,
        OfferRow.account == account,
        OfferRow.region == region,
        col(OfferRow.built_in).is_(False),
    )
    return session.exec(offered.limit(1)).first() is not None
