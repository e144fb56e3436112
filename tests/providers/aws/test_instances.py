"""Describing and ending instances: batches, ids that are not known, throttling, spot requests."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from providers.aws.adapter import AwsProvider
from providers.aws.instances import for_known
from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import CapacityType, EndReason, InstanceRef, InstanceState
from tests.clocks import FakeClock
from tests.providers.aws.conftest import REGION
from tests.providers.aws.stub import LOST, Answer, StubServer, error, ok


def ref(name: str, capacity_type: CapacityType = CapacityType.ON_DEMAND, region: str = REGION) -> InstanceRef:
    return InstanceRef(region, "use1-az4", f"i-{name}", capacity_type=capacity_type)


def described(*names: str, state: str = "running", more: str = "") -> Answer:
    items = "".join(
        f"<item><instanceId>i-{name}</instanceId><instanceState><name>{state}</name></instanceState>"
        f"<instanceType>p5.48xlarge</instanceType><placement><availabilityZoneId>use1-az4</availabilityZoneId>"
        f"</placement>{more}</item>"
        for name in names
    )
    return ok(
        "DescribeInstances",
        f"<reservationSet><item><instancesSet>{items}</instancesSet></item></reservationSet>",
    )


def reason(code: str, message: str = "") -> str:
    return f"<stateReason><code>{code}</code><message>{message}</message></stateReason>"


MISSING = error("InvalidInstanceID.NotFound", "The instance ID 'i-x' does not exist")


def test_INV_05_a_missing_instance_is_absent_and_the_rest_of_its_batch_is_still_described(
    stub: StubServer, provider: AwsProvider
) -> None:
    stub.script("DescribeInstances", MISSING, described("a"), MISSING)
    states = [i.state for i in provider.describe([ref("a"), ref("x")])]
    assert states == [InstanceState.RUNNING, InstanceState.ABSENT]
    assert len(stub.sent("DescribeInstances")) == 3


def test_a_region_that_cannot_be_asked_makes_its_instances_unknown_and_no_others(
    stub: StubServer, provider: AwsProvider
) -> None:
    stub.script("DescribeInstances", described("a"), error("UnauthorizedOperation", "no", 403))
    here, there = provider.describe([ref("a"), ref("b", region="eu-west-1")])
    assert here.state is InstanceState.RUNNING
    assert there.state is InstanceState.UNKNOWN
    assert "UnauthorizedOperation" in there.detail


def test_a_read_is_repeated_after_throttling_with_growing_pauses_and_then_given_up(
    stub: StubServer, provider: AwsProvider, clock: FakeClock
) -> None:
    stub.script("DescribeInstances", error("RequestLimitExceeded", "", 503), LOST, described("a"))
    assert provider.describe([ref("a")])[0].state is InstanceState.RUNNING
    assert len(stub.sent("DescribeInstances")) == 3

    stub.reset()
    stub.script("DescribeInstances", error("RequestLimitExceeded", "", 503))
    before = clock.monotonic()
    assert provider.describe([ref("a")])[0].state is InstanceState.UNKNOWN
    assert len(stub.sent("DescribeInstances")) == 5
    assert 0 < clock.monotonic() - before < 15


def test_a_read_that_was_refused_for_good_is_not_repeated(stub: StubServer, provider: AwsProvider) -> None:
    stub.script("DescribeInstances", error("UnauthorizedOperation", "no", 403))
    with pytest.raises(ProviderError) as caught:
        provider.list_instances(REGION, "d")
    assert caught.value.kind is ErrorKind.AUTH
    assert len(stub.sent("DescribeInstances")) == 1


ENDS = [
    ("Server.SpotInstanceTermination", "Server.SpotInstanceTermination: Spot", EndReason.PREEMPTED, None),
    ("Server.SpotInstanceShutdown", "", EndReason.PREEMPTED, None),
    ("Client.UserInitiatedShutdown", "Client.UserInitiatedShutdown: User", EndReason.USER, None),
    ("Client.InstanceInitiatedShutdown", "", EndReason.USER, None),
    ("Server.ScheduledStop", "", EndReason.HOST_FAILURE, None),
    (
        "Server.InternalError",
        "Server.InternalError: Internal error on launch",
        EndReason.HOST_FAILURE,
        ErrorKind.TRANSIENT,
    ),
    ("Server.InternalError", "Server.InternalError", EndReason.HOST_FAILURE, None),
    ("Server.InsufficientInstanceCapacity", "", EndReason.CAPACITY, ErrorKind.CAPACITY),
    ("Server.InternalError", "Client.VolumeLimitExceeded: too many", EndReason.UNKNOWN, ErrorKind.QUOTA),
    (
        "Client.InternalError",
        "Client.InternalError: on launch",
        EndReason.UNKNOWN,
        ErrorKind.AUTH,
    ),
    ("Client.InvalidSnapshot.NotFound", "", EndReason.UNKNOWN, ErrorKind.IMAGE_MISSING),
    ("Server.SomethingNew", "", EndReason.UNKNOWN, None),
    ("", "", EndReason.UNKNOWN, None),
]


@pytest.mark.parametrize(("code", "message", "why", "kind"), ENDS)
def test_the_reason_of_an_end_is_told_even_when_it_hides_in_the_message(
    stub: StubServer, provider: AwsProvider, code: str, message: str, why: EndReason, kind: ErrorKind | None
) -> None:
    stub.script("DescribeInstances", described("a", state="terminated", more=reason(code, message)))
    seen = provider.describe([ref("a")])[0]
    assert seen.state is InstanceState.TERMINATED
    assert seen.end_reason is why
    assert (seen.error.kind if isinstance(seen.error, ProviderError) else None) is kind


def test_a_running_instance_has_no_end_reason_whatever_its_state_reason_says(
    stub: StubServer, provider: AwsProvider
) -> None:
    stub.script("DescribeInstances", described("a", more=reason("Server.SpotInstanceTermination")))
    assert provider.describe([ref("a")])[0].end_reason is None


def test_ending_spot_instances_cancels_their_requests(stub: StubServer, provider: AwsProvider) -> None:
    stub.script("TerminateInstances", ok("TerminateInstances", "<instancesSet/>"))
    more = "<spotInstanceRequestId>sir-1</spotInstanceRequestId>"
    stub.script("DescribeInstances", described("a", state="shutting-down", more=more))
    stub.script("CancelSpotInstanceRequests", ok("CancelSpotInstanceRequests"))
    provider.terminate([ref("a", CapacityType.SPOT), ref("b")])
    assert stub.sent("TerminateInstances")[0]["InstanceId.2"] == "i-b"
    assert [r["SpotInstanceRequestId.1"] for r in stub.sent("CancelSpotInstanceRequests")] == ["sir-1"]


def test_a_spot_request_that_is_gone_already_is_no_failure(stub: StubServer, provider: AwsProvider) -> None:
    stub.script("TerminateInstances", ok("TerminateInstances"))
    more = "<spotInstanceRequestId>sir-1</spotInstanceRequestId>"
    stub.script("DescribeInstances", described("a", more=more))
    stub.script("CancelSpotInstanceRequests", error("InvalidSpotInstanceRequestID.NotFound", "sir-1"))
    provider.terminate([ref("a", CapacityType.SPOT)])


def test_an_unknown_id_does_not_keep_the_others_from_ending(stub: StubServer, provider: AwsProvider) -> None:
    stub.script("TerminateInstances", MISSING, ok("TerminateInstances"), MISSING)
    provider.terminate([ref("a"), ref("x")])
    assert [r["InstanceId.1"] for r in stub.sent("TerminateInstances")][1:] == ["i-a", "i-x"]


def test_terminate_is_repeated_after_a_lost_reply(stub: StubServer, provider: AwsProvider) -> None:
    stub.script("TerminateInstances", LOST, ok("TerminateInstances"))
    provider.terminate([ref("a")])
    assert len(stub.sent("TerminateInstances")) == 2


def test_a_permission_that_ended_with_the_instance_is_no_failure(
    stub: StubServer, provider: AwsProvider
) -> None:
    stub.script("TerminateInstances", error("UnauthorizedOperation", "tag condition", 403))
    stub.script("DescribeInstances", described("a", state="terminated"))
    provider.terminate([ref("a")])
    stub.script("DescribeInstances", described("a", state="running"))
    with pytest.raises(ProviderError, match="UnauthorizedOperation"):
        provider.terminate([ref("a")])


def test_one_bad_id_among_many_costs_few_calls() -> None:
    calls: list[int] = []

    def call(batch: Sequence[str]) -> None:
        calls.append(len(batch))
        if "i-77" in batch:
            raise ProviderError(ErrorKind.NOT_FOUND, "no", code="InvalidInstanceID.NotFound")

    for_known([f"i-{n}" for n in range(250)], call, size=100)
    assert max(calls) == 100
    assert len(calls) <= 3 + 2 * 7
