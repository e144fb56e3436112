"""What the agent decides, without any process: sharing out time, ending itself, its states, its waits."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from agent import configuration, deadman, drain
from agent.backoff import Backoff
from agent.configuration import ConfigurationError
from agent.orders import Halt, HaltOrder, Orders, StartOrder
from agent.paths import Paths
from agent.phases import PHASES
from agent.protocol import Assignment, Directive, ExitReason, ProtocolError, Reply
from agent.states import TRANSITIONS, IllegalTransitionError, State, check
from tests.agent.service import make_assignment


def order(**changes: object) -> HaltOrder:
    given: dict[str, object] = {"halt": Halt.DRAIN, "reason": ExitReason.PREEMPTED, "detail": "d"}
    return HaltOrder(**{**given, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("left", "grace", "uploads", "kill_after"),
    [
        (120, 25, True, 25),  # EC2: the job gets all it asked for
        (120, 3600, True, 88),  # but never the upload's 30 s and the report's 2 s
        (30, 25, True, 18),  # Compute Engine and Azure: a third for the upload, 2 s for the report
        (30, 25, False, 25),  # nothing to upload
        (4, 25, True, 4 - 4 / 3 - 0.4),
        (0, 25, True, 0),
        (-10, 25, True, 0),
    ],
)
def test_drain_shares_out_what_is_left(left: float, grace: float, uploads: bool, kill_after: float) -> None:
    plan = drain.plan(order(deadline=1000.0 + left), 1000.0, grace, uploads=uploads)
    assert plan.kill_at == pytest.approx(1000.0 + kill_after)
    assert plan.kill_at <= max(plan.upload_until, 1000.0)


def test_drain_without_a_deadline_gives_the_grace() -> None:
    assert drain.plan(order(), 0.0, 40.0, uploads=True).kill_at == 40.0
    assert drain.plan(order(grace=7.0), 0.0, 40.0, uploads=True).kill_at == 7.0
    assert drain.plan(order(imminent=True), 0.0, 40.0, uploads=True).kill_at == drain.IMMINENT_SECONDS
    assert drain.plan(order(imminent=True, grace=3.0), 0.0, 40.0, uploads=True).kill_at == 3.0


def test_deadman_spares_a_running_job() -> None:
    assert not deadman.silent_too_long(1799.0, 0.0, job_runs=False)
    assert deadman.silent_too_long(1800.0, 0.0, job_runs=False)
    assert not deadman.silent_too_long(1e9, 0.0, job_runs=True)
    assert not deadman.too_old(99.0, 0.0, 100.0)
    assert deadman.too_old(100.0, 0.0, 100.0)


def test_harder_order_wins_and_the_earlier_deadline_holds() -> None:
    orders = Orders()
    orders.give_halt(order(deadline=50.0))
    orders.give_halt(order(halt=Halt.STOP, reason=ExitReason.STOPPED, detail="cancelled"))
    orders.give_halt(order(deadline=20.0, detail="again"))
    kept = orders.halt
    assert kept is not None
    assert (kept.halt, kept.reason, kept.detail, kept.deadline) == (
        Halt.STOP,
        ExitReason.STOPPED,
        "cancelled",
        20.0,
    )
    orders.give_halt(order(halt=Halt.ABANDON, detail="stale"))
    assert orders.halt is not None
    assert orders.halt.halt is Halt.ABANDON


def test_repeated_order_is_no_news() -> None:
    orders = Orders()
    orders.give_halt(order())
    orders.give_start(StartOrder(("a",), 1))
    orders.changed.clear()
    orders.give_halt(order())
    orders.give_start(StartOrder(("b",), 2))
    assert not orders.changed.is_set()
    assert orders.start == StartOrder(("a",), 1)


def test_every_state_leads_to_the_end_and_has_its_phase() -> None:
    assert set(TRANSITIONS) == set(State)
    assert set(PHASES) == set(State) - {State.END}
    for state in State:
        reached, queue = {state}, [state]
        while queue:
            fresh = set(TRANSITIONS[queue.pop()]) - reached
            reached |= fresh
            queue += fresh
        assert State.END in reached


def test_step_that_the_table_does_not_know_is_refused() -> None:
    assert check(State.READY, State.RUNNING) is State.RUNNING
    with pytest.raises(IllegalTransitionError, match="ready -> draining"):
        check(State.READY, State.DRAINING)


def test_waits_double_with_jitter_up_to_the_ceiling_and_respect_what_was_asked_for() -> None:
    backoff = Backoff(random.Random(5), first=1.0, ceiling=8.0)
    waits = [backoff.failed() for _ in range(8)]
    for wait, span in zip(waits, [1, 2, 4, 8, 8, 8, 8, 8], strict=True):
        assert span / 2 <= wait <= span
    assert len(set(waits)) == 8
    assert backoff.failed(retry_after=60.0) == 60.0
    backoff.reset()
    assert backoff.failed() <= 1.0


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"service_url": None}, "service_url"),
        ({"service_url": "ftp://x"}, "service_url"),
        ({"claim_code": ""}, "claim_code"),
        ({"provider": "oracle"}, "aws, gcp, azure"),
        ({"protocol": 9}, "protocol 9"),
    ],
)
def test_configuration_says_what_is_wrong_with_it(changes: dict[str, object], complaint: str) -> None:
    given = {"protocol": 1, "service_url": "https://x", "claim_code": "a.b", "provider": "aws", "ca": None}
    assert configuration.parse(given).attempt == "a"
    with pytest.raises(ConfigurationError, match=complaint):
        configuration.parse({**given, **changes})


def test_assignment_that_lacks_something_names_it() -> None:
    whole = {**make_assignment(), "rank": 0}
    assert Assignment.parse(whole).run == "true"
    del whole["log_limit_bytes"]
    with pytest.raises(ProtocolError, match="log_limit_bytes"):
        Assignment.parse(whole)


def test_directive_of_a_later_version_changes_nothing() -> None:
    assert Reply.parse({"directive": "hibernate", "news": 1}).directive is Directive.CONTINUE


@pytest.mark.parametrize("path", ["/../etc", "/a/../../b", "/", ""])
def test_checkpoint_path_cannot_leave_the_root(path: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="without"):
        Paths(tmp_path).checkpoint(path)
