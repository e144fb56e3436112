"""The three metadata dialects, poll by poll."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest

from agent.metadata import Connection, MetadataError, Notice, Watcher
from agent.metadata.azure import AzureWatcher
from agent.metadata.ec2 import Ec2Watcher
from agent.metadata.gce import GceWatcher
from agent.notices import BLIND_AFTER, NoticeWatch
from agent.orders import Halt, Orders
from tests.agent.clouds import EC2_ID, VM_NAME, Metadata
from tests.clocks import FakeClock

AT = datetime(2026, 3, 1, 12, 2, tzinfo=UTC)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(datetime(2026, 3, 1, 12, 0, tzinfo=UTC))


Make = Callable[[str], Watcher]


@pytest.fixture
def make(metadata: Metadata, clock: FakeClock) -> Iterator[Make]:
    connection = Connection(metadata.url)

    def make(provider: str) -> Watcher:
        if provider == "aws":
            return Ec2Watcher(connection, clock)
        return GceWatcher(connection, clock) if provider == "gcp" else AzureWatcher(connection)

    yield make
    connection.close()


@pytest.mark.parametrize(("provider", "name"), [("aws", EC2_ID), ("gcp", VM_NAME), ("azure", VM_NAME)])
def test_instance_is_known_by_the_clouds_own_name_for_it(
    make: Make, metadata: Metadata, clock: FakeClock, provider: str, name: str
) -> None:
    assert make(provider).instance_id() == name


@pytest.mark.parametrize("provider", ["aws", "gcp", "azure"])
def test_notice_comes_out_once(make: Make, metadata: Metadata, clock: FakeClock, provider: str) -> None:
    watcher = make(provider)
    assert watcher.poll() is None
    metadata.interrupt(AT)
    metadata.preempted = True
    metadata.schedule("Preempt", AT)
    notice = watcher.poll()
    assert notice is not None
    assert (notice.kind, notice.urgent) == ("preemption", True)
    assert notice.deadline == (AT if provider != "gcp" else clock.now() + timedelta(seconds=30))
    assert watcher.poll() is None


@pytest.mark.parametrize("provider", ["aws", "gcp", "azure"])
@pytest.mark.parametrize("fault", [0, 429, 503])
def test_PRE_04_fault_is_an_error_of_one_poll_and_the_notice_is_seen_in_the_next(
    make: Make, metadata: Metadata, clock: FakeClock, provider: str, fault: int
) -> None:
    watcher = make(provider)
    watcher.poll()
    metadata.faults.extend([fault, fault])
    with pytest.raises(MetadataError):
        watcher.poll()
    metadata.faults.clear()
    metadata.interrupt(AT)
    metadata.preempted = True
    metadata.schedule("Preempt", AT)
    assert watcher.poll() is not None


def test_PRE_03_token_that_ran_out_is_renewed_within_the_same_poll(
    make: Make, metadata: Metadata, clock: FakeClock
) -> None:
    metadata.token_good = 3
    watcher = make("aws")
    for _ in range(6):
        assert watcher.poll() is None
    assert metadata.tokens == 4
    metadata.interrupt(AT)
    assert watcher.poll() is not None


def test_PRE_03_token_is_renewed_before_its_time_is_over(
    make: Make, metadata: Metadata, clock: FakeClock
) -> None:
    watcher = make("aws")
    watcher.poll()
    clock.advance(21600 * 0.95)
    watcher.poll()
    assert metadata.tokens == 2
    assert metadata.requests.count("PUT /latest/api/token") == 2


def test_ec2_action_without_a_readable_time_still_counts(
    make: Make, metadata: Metadata, clock: FakeClock
) -> None:
    metadata.interruption = {"action": "hibernate"}
    notice = make("aws").poll()
    assert notice == Notice("preemption", None, "spot/instance-action hibernate", urgent=True)


def test_ec2_recommendation_is_a_hint(make: Make, metadata: Metadata, clock: FakeClock) -> None:
    metadata.rebalance = {"noticeTime": "2026-03-01T12:00:00Z"}
    watcher = make("aws")
    notice = watcher.poll()
    assert notice is not None
    assert (notice.kind, notice.urgent, notice.deadline) == ("maintenance", False, None)
    metadata.interrupt(AT)
    later = watcher.poll()
    assert later is not None
    assert later.kind == "preemption"


def test_PRE_02_gce_waits_for_the_change_from_the_value_it_has_read(
    make: Make, metadata: Metadata, clock: FakeClock
) -> None:
    watcher = make("gcp")
    watcher.poll()
    metadata.preempted = True  # between two polls
    assert watcher.poll() is not None


def test_gce_already_preempted_at_the_first_poll_is_seen(
    make: Make, metadata: Metadata, clock: FakeClock
) -> None:
    metadata.preempted = True
    assert make("gcp").poll() is not None


def test_gce_server_without_etags_is_simply_asked_again(
    make: Make, metadata: Metadata, clock: FakeClock
) -> None:
    metadata.etags = False
    watcher = make("gcp")
    assert watcher.poll() is None
    metadata.preempted = True
    assert watcher.poll() is not None


def test_azure_events_of_others_and_freezes_are_no_notice(
    make: Make, metadata: Metadata, clock: FakeClock
) -> None:
    watcher = make("azure")
    metadata.schedule("Preempt", AT, name="somebody-else")
    metadata.schedule("Freeze", AT)
    assert watcher.poll() is None


@pytest.mark.parametrize("kind", ["Terminate", "Redeploy", "Reboot"])
def test_azure_event_that_ends_the_job_here_is_maintenance_with_its_date(
    make: Make, metadata: Metadata, clock: FakeClock, kind: str
) -> None:
    metadata.schedule(kind, AT)
    assert make("azure").poll() == Notice("maintenance", AT, f"scheduledevents {kind}", urgent=False)


def test_azure_preemption_goes_before_maintenance(make: Make, metadata: Metadata, clock: FakeClock) -> None:
    watcher = make("azure")
    metadata.schedule("Reboot", AT)
    metadata.schedule("Preempt", AT)
    kinds = [notice.kind for _ in range(3) if (notice := watcher.poll())]
    assert kinds == ["preemption", "maintenance"]


def test_azure_maintenance_that_has_started_is_told_again_as_urgent(
    make: Make, metadata: Metadata, clock: FakeClock
) -> None:
    watcher = make("azure")
    metadata.schedule("Reboot", AT)
    first = watcher.poll()
    metadata.events[0] |= {"EventStatus": "Started", "NotBefore": ""}
    second = watcher.poll()
    assert first is not None
    assert second is not None
    assert (first.urgent, second.urgent) == (False, True)
    assert second.deadline is None


class Scripted:
    """A watcher that says what it is told."""

    interval = 1.0

    def __init__(self, *says: Notice | Exception | None) -> None:
        self.says = list(says)

    def instance_id(self) -> str:
        return "i"

    def poll(self) -> Notice | None:
        word = self.says.pop(0) if self.says else None
        if isinstance(word, Exception):
            raise word
        return word


def watch(clock: FakeClock, *says: Notice | Exception | None) -> tuple[NoticeWatch, Orders, list[str]]:
    orders, told = Orders(), []
    watching = NoticeWatch(
        Scripted(*says),
        clock,
        random.Random(1),
        orders,
        tell=lambda notice, deadline: told.append(f"{notice.kind} {deadline}"),
        grace=lambda: 30.0,
    )
    return watching, orders, told


def test_three_failed_polls_in_a_row_are_blindness_and_one_good_one_ends_it(clock: FakeClock) -> None:
    watching, _, _ = watch(clock, *[ValueError("nonsense")] * BLIND_AFTER)
    seen = []
    for _ in range(BLIND_AFTER + 1):
        watching.look()
        seen.append(watching.blind)
    assert seen == [False, False, True, False]


def test_job_is_told_before_the_service_is(clock: FakeClock) -> None:
    watching, orders, told = watch(clock, Notice("preemption", AT, "s", urgent=True))
    watching._tell = lambda notice, deadline: told.append(str(orders.halt is not None))
    watching.look()
    assert told == ["True"]
    assert orders.halt is not None
    assert orders.halt.deadline == 120.0


def test_deadline_that_has_passed_means_now(clock: FakeClock) -> None:
    past = clock.now() - timedelta(seconds=10)
    watching, orders, _ = watch(clock, Notice("preemption", past, "s", urgent=True))
    watching.look()
    assert orders.halt is not None
    assert (orders.halt.halt, orders.halt.deadline, orders.halt.imminent) == (Halt.DRAIN, None, True)


def test_announced_maintenance_drains_when_the_time_left_is_what_the_job_needs(clock: FakeClock) -> None:
    notice = Notice("maintenance", clock.now() + timedelta(seconds=900), "s", urgent=False)
    watching, orders, told = watch(clock, notice)
    watching.look()
    assert told == ["maintenance 2026-03-01 12:15:00+00:00"]
    assert orders.halt is None
    clock.advance(900 - 151)
    watching.look()
    assert orders.halt is None
    clock.advance(2)
    watching.look()
    assert orders.halt is not None
    assert len(told) == 1
