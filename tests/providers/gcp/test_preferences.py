"""What a QuotaPreference says, and what is sent to ask for more."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from providers.gcp.preferences import Target, body, dimensions_of, shown
from providers.quota_requests import CloudQuotaRequest, QuotaIncrease, ReviewState

REGION = "us-central1"
H200 = "GPUS-PER-GPU-FAMILY-per-project-region"
NOW = datetime(2026, 11, 3, 9, tzinfo=UTC)


def preference(granted: int | None = None, /, **facts: Any) -> dict[str, Any]:
    config: dict[str, Any] = {"preferredValue": "64", **facts.pop("config", {})}
    if granted is not None:
        config["grantedValue"] = str(granted)
    return {
        "name": "projects/1/locations/global/quotaPreferences/by-hand",
        "service": "compute.googleapis.com",
        "quotaId": H200,
        "dimensions": {"region": REGION, "gpu_family": "NVIDIA_H200"},
        "quotaConfig": config,
        "createTime": "2026-11-01T10:00:00Z",
        "updateTime": "2026-11-02T10:00:00Z",
        **facts,
    }


def read(granted: int | None = None, /, **facts: Any) -> CloudQuotaRequest:
    found = shown(preference(granted, **facts), REGION)
    assert found is not None
    return found


OWN = {"annotations": {"corral-asked": "64", "corral-before": "16", "corral-filed": "2026-11-02T08:00:00Z"}}
OLD = {"annotations": {"corral-asked": "32", "corral-before": "16", "corral-filed": "2026-10-02T08:00:00Z"}}


@pytest.mark.parametrize(
    ("granted", "facts", "state"),
    [
        (None, {"reconciling": True}, ReviewState.IN_REVIEW),
        (16, {"reconciling": True, "config": OWN}, ReviewState.IN_REVIEW),
        (64, {}, ReviewState.APPROVED),
        (96, {}, ReviewState.APPROVED),
        (-1, {}, ReviewState.APPROVED),
        (32, {"config": OWN}, ReviewState.PARTLY_GRANTED),
        (16, {"config": OWN}, ReviewState.DENIED),
        # Filed or changed by hand: what the limit was before is not known.
        (16, {}, ReviewState.CLOSED),
        (16, {"config": OLD}, ReviewState.CLOSED),
        (16, {"config": {"stateDetail": "The request was denied."}}, ReviewState.DENIED),
        (None, {}, ReviewState.CLOSED),
        (16, {"quotaConfig": {}}, ReviewState.UNKNOWN),
    ],
)
def test_what_became_of_a_request(granted: int | None, facts: dict[str, Any], state: ReviewState) -> None:
    assert read(granted, **facts).state is state


def test_a_decided_request_tells_what_was_granted_and_an_open_one_does_not() -> None:
    assert (read(32).requested, read(32).granted) == (64, 32)
    assert read(16, reconciling=True).granted is None
    assert read(None).granted is None


def test_requests_for_the_same_limit_are_told_apart_by_what_they_ask_for() -> None:
    assert read().provider_id == "by-hand@64"
    assert read(config={"preferredValue": "96"}).provider_id == "by-hand@96"


def test_when_it_was_filed() -> None:
    assert read(64, config=OWN).filed_at == datetime(2026, 11, 2, 8, tzinfo=UTC)
    assert read(64, config=OLD).filed_at == datetime(2026, 11, 1, 10, tzinfo=UTC)
    assert read(reconciling=True).filed_at == datetime(2026, 11, 2, 10, tzinfo=UTC)
    assert read(updateTime="yesterday").changed_at is None


def test_the_key_is_that_of_the_limit() -> None:
    assert (read().key, read().region) == ("GPUS_PER_GPU_FAMILY/NVIDIA_H200", REGION)
    spot = read(quotaId="PREEMPTIBLE-NVIDIA-L4-GPUS-per-project-region", dimensions={"region": REGION})
    assert (spot.key, spot.region) == ("PREEMPTIBLE_NVIDIA_L4_GPUS", REGION)
    everywhere = read(quotaId="GPUS-ALL-REGIONS-per-project", dimensions={})
    assert (everywhere.key, everywhere.region) == ("GPUS_ALL_REGIONS", None)
    assert read(dimensions={"gpu_family": "NVIDIA_H200"}).region == REGION  # for every region


@pytest.mark.parametrize(
    "facts",
    [
        {"service": "run.googleapis.com"},
        {"quotaId": "SNAPSHOTS-per-project"},
        {"dimensions": {"region": "us-east4", "gpu_family": "NVIDIA_H200"}},
    ],
)
def test_other_requests_are_passed_over(facts: dict[str, Any]) -> None:
    assert shown(preference(**facts), REGION) is None


def test_what_is_sent_comes_back_as_what_was_asked() -> None:
    increase = QuotaIncrease(
        "GPUS_PER_GPU_FAMILY/NVIDIA_H200", REGION, 64, "To train.", contact="ops@example.com"
    )
    target = Target(H200, dimensions_of(increase.key, increase.region))
    sent = body(target, increase, 16, NOW)
    assert target.is_of(sent)
    assert (sent["contactEmail"], sent["justification"]) == ("ops@example.com", "To train.")
    assert sent["quotaConfig"]["preferredValue"] == "64"
    request = shown({**sent, "name": f"x/{target.preference_id}", "reconciling": True}, REGION)
    assert request is not None
    assert (request.key, request.region, request.requested, request.filed_at) == (
        increase.key,
        REGION,
        64,
        NOW,
    )


def test_a_limit_has_one_preference_and_another_limit_another() -> None:
    ids = {
        Target(quota_id, dimensions_of(key, region)).preference_id
        for quota_id, key, region in (
            (H200, "GPUS_PER_GPU_FAMILY/NVIDIA_H200", REGION),
            (H200, "GPUS_PER_GPU_FAMILY/NVIDIA_H200", "us-east4"),
            (H200, "GPUS_PER_GPU_FAMILY/NVIDIA_B200", REGION),
            ("GPUS-ALL-REGIONS-per-project", "GPUS_ALL_REGIONS", None),
        )
    }
    assert len(ids) == 4
    assert (
        Target(H200, {"a": "1", "b": "2"}).preference_id == Target(H200, {"b": "2", "a": "1"}).preference_id
    )
