"""How long requests take, from a history with ties, gaps, open requests and clocks that jumped."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from service.quota_desk.model import Origin, QuotaRequest
from service.quota_desk.waits import Quantiles, grouped, quantiles, samples, similar, size_of, waits
from service.states import QuotaRequestState

NOW = datetime(2026, 3, 1, tzinfo=UTC)
DAY = 86400.0


def made(
    days: float | None,
    effect: float | None = None,
    state: QuotaRequestState = QuotaRequestState.APPROVED,
    **fields: Any,
) -> QuotaRequest:
    """A request that was filed on 1 February and decided, and in effect, so many days later."""
    filed = datetime(2026, 2, 1, tzinfo=UTC)
    values: dict[str, Any] = {
        "id": "qr-1",
        "ask_id": "ask-1",
        "provider": "aws",
        "account": "main",
        "place_region": "us-east-1",
        "region": "us-east-1",
        "quota_id": "q",
        "key": "k",
        "name": "n",
        "state": state,
        "origin": Origin.PERSON,
        "created_at": filed,
        "filed_at": filed,
        "decided_at": None if days is None else filed + timedelta(days=days),
        "effective_at": None if effect is None else filed + timedelta(days=effect),
        "limit_before": 0.0,
        "requested": 192.0,
        "granted": 192.0,
        "gpu": "H100",
        "gpus": 8,
    }
    return QuotaRequest(**values | fields)


def figures(*rows: QuotaRequest) -> Any:
    return waits(samples(rows, NOW))


def test_median_and_ninetieth_percentile_with_ties() -> None:
    found = figures(made(1), made(2), made(2), made(2), made(10))
    assert (found.decision.p50, found.decision.n) == (2 * DAY, 5)
    assert found.decision.p90 == pytest.approx(6.8 * DAY)


def test_an_even_number_has_its_median_in_the_middle() -> None:
    found = quantiles([4.0, 1.0])
    assert (found.p50, found.n) == (2.5, 2)
    assert found.p90 == pytest.approx(3.7)
    assert quantiles([7.0]) == Quantiles(7.0, 7.0, 1)
    assert quantiles([]) == Quantiles(None, None, 0)


def test_an_open_request_is_no_wait_of_zero() -> None:
    waiting = made(None, state=QuotaRequestState.IN_REVIEW, granted=None)
    found = figures(made(4), waiting)
    assert found.decision == Quantiles(4 * DAY, 4 * DAY, 1)
    assert (found.open, found.longest_open, found.share, found.share_n) == (1, 28 * DAY, 1.0, 1)


def test_gaps_count_nowhere_where_the_time_is_missing() -> None:
    found = figures(made(3, 5), made(3, None), made(None, 5), made(3, 4, filed_at=None))
    assert (found.decision.n, found.effect.n) == (2, 2)
    assert found.open == 0, "decided without a time is not open"


def test_a_clock_that_was_set_back_makes_no_negative_wait() -> None:
    found = figures(made(-1, -1), made(6, 7))
    assert found.decision == Quantiles(6 * DAY, 6 * DAY, 1)
    assert found.effect == Quantiles(7 * DAY, 7 * DAY, 1)
    waiting = made(None, state=QuotaRequestState.FILED, filed_at=NOW + timedelta(days=1))
    assert figures(waiting).longest_open is None
    assert figures(waiting).open == 1


def test_what_was_decided_before_we_looked_tells_the_decision_and_not_the_effect() -> None:
    found = figures(made(2, 20, found_decided=True))
    assert (found.decision.n, found.effect.n) == (1, 0)


def test_the_share_granted_is_of_what_was_asked_for_beyond_the_limit() -> None:
    half = made(1, state=QuotaRequestState.PARTLY_GRANTED, limit_before=96, granted=144)
    none = made(1, state=QuotaRequestState.DENIED, granted=None)
    unknown = made(1, state=QuotaRequestState.PARTLY_GRANTED, granted=None)
    found = figures(made(1), half, none, unknown)
    assert (found.share, found.share_n) == (0.5, 3)


def test_what_no_cloud_ever_had_tells_nothing() -> None:
    states = (QuotaRequestState.PROPOSED, QuotaRequestState.DRAFT, QuotaRequestState.WITHDRAWN)
    assert samples([made(1, state=state) for state in states], NOW) == []


def test_groups_are_by_cloud_card_region_and_size() -> None:
    rows = [made(1), made(3), made(5, gpus=16), made(7, region="eu-west-1"), made(9, gpu="L4")]
    found = {group: one.decision.n for group, one in grouped(samples(rows, NOW)).items()}
    assert found == {
        ("aws", "H100", "us-east-1", "1-8"): 2,
        ("aws", "H100", "us-east-1", "9-64"): 1,
        ("aws", "H100", "eu-west-1", "1-8"): 1,
        ("aws", "L4", "us-east-1", "1-8"): 1,
    }
    assert [size_of(gpus) for gpus in (1, 8, 9, 64, 65, 513, 0, None)] == [
        "1-8",
        "1-8",
        "9-64",
        "9-64",
        "65-512",
        "513+",
        None,
        None,
    ]


def test_similar_is_the_narrowest_group_that_knows_a_decision() -> None:
    rows = [made(2), made(4, region="eu-west-1"), made(None, region="ap-1", state=QuotaRequestState.FILED)]
    found = samples(rows, NOW)
    here = similar(found, ("aws", "H100", "us-east-1", "1-8"))
    assert here is not None
    assert (here[0], here[1].decision.p50) == (("aws", "H100", "us-east-1", "1-8"), 2 * DAY)
    wider = similar(found, ("aws", "H100", "ap-1", "1-8"))
    assert wider is not None
    assert (wider[0], wider[1].decision.n) == (("aws", "H100", None, None), 2)
    assert similar(found, ("gcp", "H100", "us-central1", "1-8")) is None
