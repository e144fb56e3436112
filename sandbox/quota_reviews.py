"""Requests for more quota: filed, looked at and decided as the scenario says; then the limit itself moves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Verdict = Literal["approved", "partly_granted", "denied"]
ReviewState = Literal["filed", "in_review", "approved", "partly_granted", "denied"]

Seconds = Annotated[float, Field(ge=0, le=100_000_000)]


class ReviewRule(BaseModel):
    """How requests for a quota fare; a later rule wins over an earlier one, `*` and `?` allowed. Names are
    those of QuotaRule.

    taken_up, decided: seconds from the filing until somebody looks at it and until the verdict. takes_effect:
    seconds from the verdict until the limit moves. share: of the difference between the limit and what was
    asked for, what a `partly_granted` one gives. told: False where the vendor closes it without a word about
    the outcome (EC2's CASE_CLOSED); a face whose vendor always tells does so all the same.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    provider: Literal["aws", "gcp", "azure"]
    region: str = "*"
    name: str = "*"
    verdict: Verdict = "approved"
    taken_up: Seconds = 60.0
    decided: Seconds = 3600.0
    takes_effect: Seconds = 0.0
    share: float = Field(default=0.5, gt=0, lt=1)
    told: bool = True

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.decided < self.taken_up:
            raise ValueError(f"decided {self.decided:g} is before taken_up {self.taken_up:g}")
        return self

    def covers(self, provider: str, region: str, name: str) -> bool:
        """Whether it is about this quota."""
        fits = fnmatchcase(region, self.region) and fnmatchcase(name, self.name)
        return provider == self.provider and fits

    def granted(self, limit: float, wanted: float) -> float:
        """The limit that the verdict ends in. Vendors grant whole units."""
        if self.verdict == "denied":
            return limit
        if self.verdict == "approved" or wanted <= limit:
            return wanted
        return limit + float(int((wanted - limit) * self.share))


@dataclass(slots=True)
class QuotaRequest:
    """A request as it stands. `before` was the limit when it was filed, `granted` is the limit that it ends
    in, None until it is decided. `told`: whether the vendor says how it ended. `extra` is for the face.
    """

    provider: str
    id: str
    region: str
    name: str
    wanted: float
    before: float
    filed_at: datetime
    changed_at: datetime
    told: bool
    state: ReviewState = "filed"
    granted: float | None = None
    extra: dict[str, Any] = field(default_factory=dict, compare=False)

    @property
    def open(self) -> bool:
        """Whether there is no verdict yet."""
        return self.state in ("filed", "in_review")


class QuotaReviews:
    """All requests, in the order they were filed. Not locked: the world is.

    now, after: the world's time, and how something is planned in it. raise_limit: called with a request once
    what it was granted takes effect.
    """

    def __init__(
        self,
        rules: Sequence[ReviewRule],
        now: Callable[[], datetime],
        after: Callable[[float, Callable[[], None]], None],
        raise_limit: Callable[[QuotaRequest], None],
    ) -> None:
        self._rules = list(rules)
        self._now, self._after, self._raise_limit = now, after, raise_limit
        self._filed: dict[tuple[str, str], QuotaRequest] = {}

    def put(self, rule: ReviewRule) -> None:
        """Requests that are filed from now on fare so."""
        self._rules.append(rule)

    def file(
        self, provider: str, request_id: str, region: str, name: str, wanted: float, limit: float
    ) -> QuotaRequest:
        """A new request, or a new one in place of the one of that id. limit: as it is now."""
        rule = self._rule(provider, region, name)
        now = self._now()
        request = QuotaRequest(provider, request_id, region, name, wanted, limit, now, now, rule.told)
        self._filed[provider, request_id] = request
        self._after(rule.taken_up, lambda: self._take_up(request))
        self._after(rule.decided, lambda: self._decide(request, rule))
        return request

    def of(self, provider: str) -> list[QuotaRequest]:
        """A cloud's requests, decided ones included."""
        return [request for request in self._filed.values() if request.provider == provider]

    def _rule(self, provider: str, region: str, name: str) -> ReviewRule:
        fitting = (rule for rule in reversed(self._rules) if rule.covers(provider, region, name))
        return next(fitting, ReviewRule.model_validate({"provider": provider}))

    def _take_up(self, request: QuotaRequest) -> None:
        if self._current(request) and request.open:
            request.state, request.changed_at = "in_review", self._now()

    def _decide(self, request: QuotaRequest, rule: ReviewRule) -> None:
        if not self._current(request):
            return
        request.state, request.changed_at = rule.verdict, self._now()
        request.granted = rule.granted(request.before, request.wanted)
        if request.granted != request.before:
            self._after(rule.takes_effect, lambda: self._raise_limit(request))

    def _current(self, request: QuotaRequest) -> bool:
        return self._filed.get((request.provider, request.id)) is request
