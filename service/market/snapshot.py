"""The market as one process sees it at one moment: what policies decide on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from sqlmodel import Session, col, select

from policies.estimates import pooled
from policies.model import Block, Evidence, Needs
from policies.shelves import Shelf, Shelves
from providers.errors import ErrorKind
from providers.signals import SpotSignal
from providers.vocabulary import CapacityType, Offer, OfferKey, Scope
from service.attempts.model import Attempt
from service.market.blocks import scope_of, speaks_of_image
from service.market.book import OfferBook
from service.market.built_in import UNREAD, UNREAD_MESSAGE
from service.market.history import with_held
from service.market.model import BlockRow
from service.market.offers import read_offers
from service.market.scopes import ScopeIndex
from service.market.signals import Signals, of_offer, read_signals
from service.quotas.headroom import Headroom, headroom
from service.reservations.slots import Slots, slots
from service.states import AttemptState

TRIAL = "trial"
QUOTA = "quota"
UNVERIFIED = "as last read; not tried"
RESERVATION = "reservation"
PROOF_LASTS = timedelta(minutes=15)


class MarketSnapshot:
    """Offers, blocks, what is being found out, and what was seen. A `policies.observed.IndexedMarket`.

    Where nothing is known of an offer one launch at a time finds out; each that got capacity in the last 15
    minutes lets two more be under way, so that a crowd of jobs neither storms an empty zone nor queues long
    at a full one.
    """

    def __init__(
        self,
        shelves: Shelves,
        blocks: Iterable[BlockRow],
        unproved: Mapping[OfferKey, int],
        proved: Mapping[OfferKey, int],
        live_trials: frozenset[str] = frozenset(),
        headroom: Headroom | None = None,
        slots: Slots | None = None,
        signals: Signals | None = None,
        evidence: Mapping[OfferKey, Evidence] | None = None,
    ) -> None:
        self.observations: Mapping[str, float] = {}
        self.signals: Signals = signals or {}
        self._slots = slots
        self.evidence: Mapping[OfferKey, Evidence] = evidence or {}
        self.prior = pooled(self.evidence.values())
        self._shelves = shelves
        self._unproved = Counter(unproved)
        self._proved = proved
        self._headroom = headroom
        self._blocks: ScopeIndex[_Filed] = ScopeIndex()
        for row in blocks:
            self._blocks.add(*_filed(row, row.trial_attempt in live_trials))

    @property
    def offers(self) -> Sequence[Offer]:
        """Everything that is for sale to us."""
        return self._shelves.offers

    @property
    def shelves(self) -> Shelves:
        """The offers by what they fit."""
        return self._shelves

    def fitting(self, needs: Needs) -> Shelf:
        """What fits a need, cheapest first."""
        return self._shelves.fitting(needs)

    def get(self, key: OfferKey) -> Offer | None:
        """An offer as it is now."""
        return self._shelves.get(key)

    def block_of(self, offer: Offer, now: datetime, image: str | None = None, nodes: int = 1) -> Block | None:
        """What keeps an offer from being tried now: a quota that is too small, else the block that lasts
        longest.
        """
        if offer.built_in:
            return Block(_exactly(offer), UNREAD, now, None, "", UNREAD_MESSAGE)
        if offer.key.reservation is not None and self._slots is not None:
            full = self._slots.shortage(offer, nodes)
            if full is not None:
                return Block(_exactly(offer), RESERVATION, now, None, "", full)
        short = self._headroom.shortage(offer, nodes) if self._headroom else None
        if short is not None:
            code = "quota_zero" if short.quota.limit == 0 else "quota_too_small"
            message = f"{short} ({UNVERIFIED})"
            return Block(Scope(region=short.quota.region), QUOTA, short.quota.read_at, None, code, message)
        found: Block | None = None
        for active, trial in self._blocks.covering(offer):
            block = active if active.until is None or active.until > now else trial
            if block is None or not speaks_of_image(block.scope, image):
                continue
            if found is None or _ends(block) > _ends(found):
                found = block
        if found is None and self._unproved and not self._is_counted(offer) and self._is_crowded(offer.key):
            message = "other jobs are trying; this one follows as soon as one got through"
            found = Block(
                Scope(zone=offer.key.zone, instance_type=offer.key.instance_type),
                TRIAL,
                now,
                None,
                "",
                message,
            )
        return found

    def is_shut(self, offer: Offer, now: datetime, image: str | None = None) -> bool:
        """Whether a reservation could not be used even if it were free: it ends soon, or its cloud has
        refused it lately for another reason than that it was full.
        """
        if self._slots is not None and self._slots.leaves_soon(offer.key):
            return True
        return any(
            (active.until is None or active.until > now)
            and active.kind != ErrorKind.CAPACITY
            and speaks_of_image(active.scope, image)
            for active, _ in self._blocks.covering(offer)
        )

    def signals_of(self, offer: Offer) -> tuple[SpotSignal, ...]:
        """What the vendor says of an offer's spot capacity, the zone's own word first; empty for others."""
        if offer.key.capacity_type is not CapacityType.SPOT:
            return ()
        return of_offer(self.signals, offer)

    def _is_counted(self, offer: Offer) -> bool:
        """True where it is known how many can be started: nobody has to find out."""
        return self._slots is not None and self._slots.free(offer.key) is not None

    def _is_crowded(self, key: OfferKey) -> bool:
        return self._unproved[key] >= self.window(key)

    def free_slots(self, key: OfferKey) -> int | None:
        """How many instances could be started in a reservation now; None is unknown."""
        return None if self._slots is None else self._slots.free(key)

    def window(self, key: OfferKey) -> int:
        """How many launches may be under way on an offer before one has proved that it can be had."""
        return max(1, 2 * self._proved.get(key, 0))

    def note_planned(self, offer: Offer, nodes: int) -> None:
        """One more launch is under way; for the rest of this look at the market."""
        self._unproved[offer.key] += 1
        if self._headroom is not None:
            self._headroom.note_planned(offer, nodes)
        if self._slots is not None:
            self._slots.note_planned(offer.key, nodes)


def snapshot(
    session: Session, now: datetime, offers: Iterable[Offer] | None = None, *, signals: bool = True
) -> MarketSnapshot:
    """What keeps some offers, or every one that is known, from being tried. Without what was seen of them;
    without `signals` it serves to look at what keeps an offer from being tried, not to choose one.
    """
    listed = offers if offers is not None else read_offers(session)
    return _snapshot(session, now, Shelves(listed), {}, signals=signals)


def market_of(session: Session, book: OfferBook, now: datetime) -> MarketSnapshot:
    """The whole market, with what was seen of it. Hold the book's lock while it is used."""
    book.refresh(session, now)
    return _snapshot(session, now, book.shelves, with_held(session, book.evidence, now), signals=True)


def _snapshot(
    session: Session,
    now: datetime,
    shelves: Shelves,
    evidence: Mapping[OfferKey, Evidence],
    *,
    signals: bool,
) -> MarketSnapshot:
    blocks = session.exec(select(BlockRow)).all()
    trials = [row.trial_attempt for row in blocks if row.trial_attempt]
    live = (
        session.exec(
            select(Attempt.id).where(
                col(Attempt.id).in_(trials),
                col(Attempt.state) != AttemptState.ENDED,
                col(Attempt.proved_at).is_(None),  # a trial is over once it has got through
            )
        ).all()
        if trials
        else []
    )
    return MarketSnapshot(
        shelves,
        blocks,
        unproved(session),
        proved(session, now),
        frozenset(live),
        headroom(session, now),
        slots(session, now),
        read_signals(session) if signals else None,
        evidence,
    )


def unproved(session: Session) -> dict[OfferKey, int]:
    """Launches under way that have not been seen to get capacity, per offer."""
    rows = session.exec(
        select(Attempt).where(col(Attempt.state) != AttemptState.ENDED, col(Attempt.proved_at).is_(None))
    ).all()
    return Counter(row.offer_key for row in rows)


def proved(session: Session, now: datetime) -> dict[OfferKey, int]:
    """Launches that got capacity lately, per offer."""
    rows = session.exec(select(Attempt).where(col(Attempt.proved_at) > now - PROOF_LASTS)).all()
    return Counter(row.offer_key for row in rows)


_Filed = tuple[Block, Block | None]
"""A block while it lasts, and afterwards while its trial does."""


def _filed(row: BlockRow, on_trial: bool) -> tuple[Scope, _Filed]:
    scope = scope_of(row)
    active = Block(scope, row.kind, row.since, row.until, row.code, row.message)
    message = f"after {row.kind}, another job is trying"
    trial = Block(scope, TRIAL, row.since, None, row.code, message) if on_trial else None
    return scope, (active, trial)


def _ends(block: Block) -> float:
    return float("inf") if block.until is None else block.until.timestamp()


def _exactly(offer: Offer) -> Scope:
    key = offer.key
    return Scope(zone=key.zone, instance_type=key.instance_type, reservation=key.reservation)
