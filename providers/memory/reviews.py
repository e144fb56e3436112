"""Requests for more of a quota in the cloud in memory, and how they are answered.

Like the vendors in what matters to a caller: one open request a quota, a decision that comes later, and a
limit that moves later still.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from providers.errors import ErrorKind, ProviderError
from providers.memory.limits import Limit
from providers.quota_requests import CloudQuotaRequest, QuotaIncrease, ReviewState

SHOWN_FOR = timedelta(days=30)
UNTIL_LOOKED_AT = timedelta(minutes=1)

_OPEN = frozenset({ReviewState.FILED, ReviewState.IN_REVIEW})


@dataclass(frozen=True, slots=True)
class Answer:
    """How requests are answered. Times in seconds: `after` from filing to the decision, `effect_after` from
    there until the limit moves. share: of what is asked for beyond the limit; 0 denies. silent: the
    request is closed without a word about the outcome (as EC2's CASE_CLOSED).
    """

    after: float = 3600
    share: float = 1.0
    effect_after: float = 0
    silent: bool = False
    detail: str = ""


@dataclass(slots=True)
class Review:
    """One request on the vendor's books."""

    provider_id: str
    limit: Limit
    increase: QuotaIncrease
    filed_at: datetime
    decided_at: datetime
    effective_at: datetime
    granted: float
    answer: Answer
    applied: bool = False

    def state(self, now: datetime) -> ReviewState:
        if now < self.decided_at:
            looked_at = now >= self.filed_at + UNTIL_LOOKED_AT
            return ReviewState.IN_REVIEW if looked_at else ReviewState.FILED
        if self.answer.silent:
            return ReviewState.CLOSED
        if self.answer.share <= 0:
            return ReviewState.DENIED
        whole = self.granted >= self.increase.limit
        return ReviewState.APPROVED if whole else ReviewState.PARTLY_GRANTED

    def shown(self, now: datetime) -> CloudQuotaRequest:
        """The request as the vendor shows it now."""
        state = self.state(now)
        told = state in (ReviewState.APPROVED, ReviewState.PARTLY_GRANTED)
        return CloudQuotaRequest(
            provider_id=self.provider_id,
            key=self.limit.key,
            region=self.limit.region,
            state=state,
            requested=self.increase.limit,
            granted=self.granted if told else None,
            filed_at=self.filed_at,
            changed_at=self.filed_at if state in _OPEN else self.decided_at,
            detail="" if state in _OPEN else self.answer.detail,
        )


class Reviews:
    """The vendor's desk. `filed` is every request that was ever put on the books, oldest first."""

    def __init__(self, find: Callable[[str, str | None], Limit | None]) -> None:
        self.filed: list[Review] = []
        self._find = find
        self._answers: dict[str | None, Answer] = {None: Answer()}

    def answer(self, answer: Answer, key: str | None = None) -> None:
        """How requests that are filed from now on are answered: for one quota, or (None) for the others."""
        self._answers[key] = answer

    def file(self, increase: QuotaIncrease, now: datetime) -> Review:
        """Put a request on the books, or find the open one. ProviderError (invalid_request) for a quota that
        there is not, and for one that is as high already.
        """
        limit = self._find(increase.key, increase.region)
        if limit is None or limit.limit is None or not limit.adjustable:
            raise ProviderError(ErrorKind.INVALID_REQUEST, f"{increase.key}: no quota that can be raised")
        if increase.limit <= limit.limit:
            raise ProviderError(
                ErrorKind.INVALID_REQUEST,
                f"{increase.key}: {increase.limit:g} is no more than {limit.limit:g}",
            )
        for review in self.filed:
            if review.limit is limit and review.state(now) in _OPEN:
                return review
        answer = self._answers.get(increase.key, self._answers[None])
        decided_at = now + timedelta(seconds=answer.after)
        review = Review(
            provider_id=f"q-{len(self.filed) + 1:05d}",
            limit=limit,
            increase=increase,
            filed_at=now,
            decided_at=decided_at,
            effective_at=decided_at + timedelta(seconds=answer.effect_after),
            granted=limit.limit + max(0.0, answer.share) * (increase.limit - limit.limit),
            answer=answer,
        )
        self.filed.append(review)
        return review

    def listed(self, region: str, now: datetime) -> list[CloudQuotaRequest]:
        """Those of a region and of the whole account that are open, or were decided lately."""
        return [
            review.shown(now)
            for review in self.filed
            if review.limit.region in (region, None) and now < review.decided_at + SHOWN_FOR
        ]

    def apply(self, now: datetime) -> None:
        """Raise the limits whose time has come."""
        for review in self.filed:
            if not review.applied and now >= review.effective_at:
                review.applied = True
                if review.limit.limit is not None:
                    review.limit.limit = max(review.limit.limit, review.granted)
