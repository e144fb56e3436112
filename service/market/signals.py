"""What vendors say of their spot capacity: kept as rows, and at hand for whoever decides."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from sqlalchemy import delete
from sqlmodel import Session, col, select

from providers.signals import SignalListing, SpotSignal
from providers.vocabulary import Offer
from service.context import Context
from service.market.model import Poll, SignalRow

WHOLE_REGION = "*"
Place = tuple[str, str, str, str, str]
"""Provider, account, region, zone (or `*`), instance type."""
Signals = Mapping[Place, tuple[SpotSignal, ...]]


def store(session: Session, ctx: Context, poll: Poll, listing: SignalListing) -> None:
    """Keep what was said of a place; what was said before is dropped, unless part of it was not read."""
    if not listing.incomplete:
        session.connection().execute(
            delete(SignalRow).where(
                col(SignalRow.provider) == poll.provider,
                col(SignalRow.account) == poll.account,
                col(SignalRow.region) == poll.region,
            )
        )
    for signal in listing.signals:
        session.merge(
            SignalRow(
                provider=poll.provider,
                account=poll.account,
                region=poll.region,
                zone=signal.zone or WHOLE_REGION,
                instance_type=signal.instance_type,
                source=signal.source,
                obtainability=_share(signal.obtainability),
                eviction_rate=_share(signal.eviction_rate),
                read_at=signal.read_at,
            )
        )


def read_signals(session: Session) -> Signals:
    """All that is known, by place."""
    found: dict[Place, list[SpotSignal]] = defaultdict(list)
    for row in session.exec(select(SignalRow)).all():
        place = (row.provider, row.account, row.region, row.zone, row.instance_type)
        zone = None if row.zone == WHOLE_REGION else row.zone
        found[place].append(
            SpotSignal(
                row.instance_type,
                row.region,
                zone,
                row.source,
                row.read_at,
                row.obtainability,
                row.eviction_rate,
            )
        )
    return {place: tuple(said) for place, said in found.items()}


def of_offer(signals: Signals, offer: Offer) -> tuple[SpotSignal, ...]:
    """What is said of an offer's type in its zone, then of the type in its region."""
    key = offer.key
    place = (key.provider, key.account, key.region)
    return tuple(
        signal
        for zone in (key.zone, WHOLE_REGION)
        for signal in signals.get((*place, zone, key.instance_type), ())
    )


def _share(value: float | None) -> float | None:
    """A share lies between 0 and 1; anything else is unknown."""
    return value if value is not None and 0 <= value <= 1 else None
