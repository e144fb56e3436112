"""What every provider promises of requests for more quota, as tests. A test module binds one by subclassing
`QuotaRequestContract` and giving it a `desk` fixture; `Desk` is all that the suite knows of the vendor.
"""

from __future__ import annotations

from typing import Protocol

import pytest

from providers.errors import ErrorKind, ProviderError
from providers.interface import Provider
from providers.quota_requests import CloudQuotaRequest, QuotaIncrease, ReviewState

OPEN = (ReviewState.FILED, ReviewState.IN_REVIEW)
WAIT = 600.0
"""Seconds from filing to the decision, and again from there to the effect, in these tests."""


class Desk(Protocol):
    """A provider, its cloud, and one quota of it that can be asked for and whose limit is known.

    A vendor that does not tell the outcome shows `closed` instead of approved, partly_granted or denied.
    """

    @property
    def provider(self) -> Provider: ...

    @property
    def region(self) -> str:
        """A region of the provider; `quota_region` is it, or None where the quota holds over the account."""

    @property
    def quota_key(self) -> str: ...

    @property
    def quota_region(self) -> str | None: ...

    def answer(self, share: float, after: float, effect_after: float) -> None:
        """Requests filed from now on are decided `after` seconds later, with that share of what they ask
        for beyond the limit (0 denies), and in effect `effect_after` seconds after the decision.
        """

    def advance(self, seconds: float) -> None:
        """Let the cloud's time pass, what the provider remembers from reads grown old, all that is due in it
        happen."""

    def drop_next_filing_reply(self) -> None:
        """The next filing is carried out and the connection breaks before the answer."""

    def file_by_hand(self, limit: float) -> None:
        """Somebody asks for that limit in the vendor's console."""

    def filings(self) -> int:
        """How many requests for this quota the vendor has on its books, open and over."""


class QuotaRequestContract:
    """Subclasses give the fixture `desk`."""

    def test_a_filed_request_shows_up_with_what_was_asked_for(self, desk: Desk) -> None:
        before = limit_of(desk)
        desk.answer(1, WAIT, 0)
        filed = desk.provider.request_quota(increase(desk, before + 16))
        assert (filed.key, filed.region) == (desk.quota_key, desk.quota_region)
        assert filed.state in OPEN
        assert filed.requested == before + 16
        (shown,) = requests_of(desk)
        assert (shown.provider_id, shown.requested) == (filed.provider_id, before + 16)
        assert shown.state in OPEN
        assert shown.granted is None
        assert shown.filed_at is not None

    def test_filing_again_adopts_the_open_request_whatever_it_asks_for(self, desk: Desk) -> None:
        before = limit_of(desk)
        desk.answer(1, WAIT, 0)
        first = desk.provider.request_quota(increase(desk, before + 16))
        for more in (16, 32):
            again = desk.provider.request_quota(increase(desk, before + more))
            assert (again.provider_id, again.requested) == (first.provider_id, before + 16)
        assert desk.filings() == 1

    def test_what_was_filed_by_hand_is_listed_and_adopted(self, desk: Desk) -> None:
        before = limit_of(desk)
        desk.answer(1, WAIT, 0)
        desk.file_by_hand(before + 24)
        (shown,) = requests_of(desk)
        assert (shown.requested, shown.state in OPEN) == (before + 24, True)
        adopted = desk.provider.request_quota(increase(desk, before + 16))
        assert (adopted.provider_id, adopted.requested) == (shown.provider_id, before + 24)
        assert desk.filings() == 1

    def test_less_than_the_limit_is_never_asked_for(self, desk: Desk) -> None:
        desk.answer(1, 0, 0)
        desk.provider.request_quota(increase(desk, limit_of(desk) + 16))
        desk.advance(WAIT)
        with pytest.raises(ProviderError) as refused:
            desk.provider.request_quota(increase(desk, limit_of(desk) - 1))
        assert refused.value.kind is ErrorKind.INVALID_REQUEST
        assert not refused.value.ambiguous
        assert desk.filings() == 1

    def test_an_approved_request_moves_the_limit_only_once_it_is_in_effect(self, desk: Desk) -> None:
        before = limit_of(desk)
        desk.answer(1, WAIT, WAIT)
        desk.provider.request_quota(increase(desk, before + 16))
        desk.advance(WAIT / 2)
        assert limit_of(desk) == before
        desk.advance(WAIT)
        assert limit_of(desk) == before
        desk.advance(WAIT)
        assert limit_of(desk) == before + 16
        (shown,) = requests_of(desk)
        assert shown.state in (ReviewState.APPROVED, ReviewState.CLOSED)
        assert shown.granted in (None, before + 16)

    def test_a_partial_grant_is_told_from_a_whole_one(self, desk: Desk) -> None:
        before = limit_of(desk)
        desk.answer(0.5, WAIT, 0)
        desk.provider.request_quota(increase(desk, before + 16))
        desk.advance(2 * WAIT)
        (shown,) = requests_of(desk)
        assert shown.state in (ReviewState.PARTLY_GRANTED, ReviewState.CLOSED)
        if shown.state is ReviewState.PARTLY_GRANTED:
            assert shown.granted == before + 8
        assert limit_of(desk) == before + 8

    def test_a_denial_leaves_the_limit_and_does_not_block_a_later_request(self, desk: Desk) -> None:
        before = limit_of(desk)
        desk.answer(0, WAIT, 0)
        first = desk.provider.request_quota(increase(desk, before + 16))
        desk.advance(2 * WAIT)
        (shown,) = requests_of(desk)
        assert shown.state in (ReviewState.DENIED, ReviewState.CLOSED)
        assert shown.granted in (None, before)
        assert limit_of(desk) == before
        desk.answer(1, WAIT, 0)
        second = desk.provider.request_quota(increase(desk, before + 8))
        assert second.state in OPEN
        assert second.requested == before + 8
        open_now = [shown for shown in requests_of(desk) if shown.state in OPEN]
        assert [shown.provider_id for shown in open_now] == [second.provider_id]
        assert first.requested != second.requested

    def test_a_filing_whose_answer_is_lost_is_found_and_not_made_again(self, desk: Desk) -> None:
        before = limit_of(desk)
        desk.answer(1, WAIT, 0)
        desk.drop_next_filing_reply()
        error = outcome_of(desk, before + 16)  # the provider may find what it filed by itself
        assert error is None or error.ambiguous
        (shown,) = requests_of(desk)
        assert shown.requested == before + 16
        again = desk.provider.request_quota(increase(desk, before + 16))
        assert again.provider_id == shown.provider_id
        assert desk.filings() == 1


def increase(desk: Desk, limit: float) -> QuotaIncrease:
    """What the tests ask for."""
    return QuotaIncrease(
        desk.quota_key, desk.quota_region, limit, "To train a model.", contact="ops@example.com"
    )


def outcome_of(desk: Desk, limit: float) -> ProviderError | None:
    """What filing raises; None if it succeeds."""
    try:
        desk.provider.request_quota(increase(desk, limit))
    except ProviderError as error:
        return error
    return None


def limit_of(desk: Desk) -> float:
    """The limit as the provider reads it now."""
    found = [
        quota
        for quota in desk.provider.quotas(desk.region).quotas
        if (quota.key, quota.region) == (desk.quota_key, desk.quota_region)
    ]
    (quota,) = found
    assert quota.limit is not None
    return quota.limit


def requests_of(desk: Desk) -> list[CloudQuotaRequest]:
    """The requests for the desk's quota that the provider lists."""
    listing = desk.provider.quota_requests(desk.region)
    assert not listing.incomplete
    return [
        request
        for request in listing.requests
        if (request.key, request.region) == (desk.quota_key, desk.quota_region)
    ]
