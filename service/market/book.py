"""The offers and what was seen of them, as one process has read them: kept, and brought up to date by what
has changed in the database since.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from threading import RLock

from sqlalchemy import func
from sqlmodel import Session, col, select

from policies.model import Evidence
from policies.shelves import Shelves
from providers.vocabulary import OfferKey
from service.market.history import evidence_of, key_of
from service.market.model import EvidenceRow, OfferRow
from service.market.offers import to_offer

WRITING_TAKES = timedelta(seconds=15)
"""How long after the time that it bears a row may appear: others may be seen before it."""


class OfferBook:
    """Whoever reads the shelves holds `lock`: a refresh changes them."""

    def __init__(self) -> None:
        self.lock = RLock()
        self.shelves = Shelves()
        self.evidence: dict[OfferKey, Evidence] = {}
        self._keys: dict[str, OfferKey] = {}
        self._offers_seen: datetime | None = None
        self._evidence_seen: datetime | None = None

    def refresh(self, session: Session, now: datetime) -> None:
        """Take in what was written since the last time. `now` may be earlier than then: a clock was set."""
        with self.lock:
            self._refresh_offers(session, now)
            self._refresh_evidence(session, now)

    def _refresh_offers(self, session: Session, now: datetime) -> None:
        changed = select(OfferRow)
        if self._offers_seen is not None:
            changed = changed.where(col(OfferRow.seen_at) >= min(self._offers_seen, now) - WRITING_TAKES)
        for row in session.exec(changed).all():
            offer = to_offer(row)
            self.shelves.put(offer)
            self._keys[row.id] = offer.key
            if self._offers_seen is None or row.seen_at > self._offers_seen:
                self._offers_seen = row.seen_at
        if session.exec(select(func.count()).select_from(OfferRow)).one() != len(self._keys):
            there = set(session.exec(select(OfferRow.id)).all())
            for row_id in self._keys.keys() - there:
                self.shelves.drop(self._keys.pop(row_id))

    def _refresh_evidence(self, session: Session, now: datetime) -> None:
        changed = select(EvidenceRow)
        if self._evidence_seen is not None:
            changed = changed.where(col(EvidenceRow.seen) >= min(self._evidence_seen, now) - WRITING_TAKES)
        for row in session.exec(changed).all():
            self.evidence[key_of(row)] = evidence_of(row)
            if self._evidence_seen is None or row.seen > self._evidence_seen:
                self._evidence_seen = row.seen
        if session.exec(select(func.count()).select_from(EvidenceRow)).one() != len(self.evidence):
            rows = session.exec(select(EvidenceRow)).all()
            self.evidence = {key_of(row): evidence_of(row) for row in rows}
