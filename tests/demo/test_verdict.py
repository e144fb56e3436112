"""The demo's judgement finds what did not come true."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from service.cli.demo.verdict import Outcome, failures, lost_steps, survival_failures


def _attempt(number: int, provider: str, reason: str, **facts: Any) -> dict[str, Any]:
    return {"id": f"att-{number}", "number": number, "provider": provider, "reason": reason, **facts}


def _machine(attempt: int, running_at: str, ended_at: str) -> dict[str, Any]:
    tags = {"corral-attempt": f"att-{attempt}"}
    return {
        "tags": tags,
        "running_at": f"2026-01-01T00:{running_at}Z",
        "ended_at": f"2026-01-01T00:{ended_at}Z",
    }


GOOD = Outcome(
    job={"state": "succeeded", "detail": None},
    attempts=[
        _attempt(1, "aws", "refused", error_kind="capacity"),
        _attempt(2, "aws", "preempted", error_kind=None),
        _attempt(3, "gcp", "succeeded", error_kind=None),
    ],
    logs={
        2: "step 20 loss 0.1\ncheckpoint step-000020\nstopped at step 33\n",
        3: "resumed at step 33\nstep 40 loss 0.1\nfinished step 240 checksum abc\n",
    },
    machines=[_machine(2, "01:00", "05:00"), _machine(3, "03:00", "09:00")],
    ledger={"live": []},
    checksum="abc",
)


def test_a_demo_that_came_true_has_no_failures() -> None:
    assert failures(GOOD) == []


def _with_attempt(number: int, **facts: Any) -> Outcome:
    attempts = [{**one, **facts} if one["number"] == number else one for one in GOOD.attempts]
    return replace(GOOD, attempts=attempts)


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (_with_attempt(1, error_kind="quota"), "not refused for want of stock"),
        (_with_attempt(2, reason="lost"), "no spot instance was taken back"),
        (_with_attempt(3, provider="aws"), "not on another cloud"),
        (replace(GOOD, machines=[_machine(2, "01:00", "02:00"), GOOD.machines[1]]), "only after the old"),
        (replace(GOOD, logs={**GOOD.logs, 3: "finished step 240 checksum abc\n"}), "did not resume"),
        (replace(GOOD, logs={**GOOD.logs, 2: "stopped at step 40\n"}), "7 steps were done twice"),
        (replace(GOOD, checksum="def"), "a run without interruption gives def"),
        (replace(GOOD, job={"state": "failed", "detail": "why"}), "the job is failed: why"),
        (_with_attempt(2, reason="succeeded"), "2 attempts succeeded"),
        (replace(GOOD, machines=[*GOOD.machines, GOOD.machines[1]]), "att-3: 2 instances were made"),
        (
            replace(GOOD, ledger={"live": [{"provider": "azure", "kind": "disk", "id": "d"}]}),
            "left over: azure disk d",
        ),
    ],
)
def test_what_did_not_come_true_is_said(outcome: Outcome, text: str) -> None:
    assert any(text in failure for failure in failures(outcome))


def test_a_service_that_was_killed_is_judged_by_its_end() -> None:
    outcome = replace(_with_attempt(1, error_kind="quota"), machines=[GOOD.machines[1]])
    assert survival_failures(outcome) == []
    assert survival_failures(replace(outcome, checksum="def")) != []


def test_work_lost_is_what_was_done_since_the_checkpoint_that_was_resumed() -> None:
    logs = {1: "step 40 loss 1\ntold to stop at step 47\n", 2: "resumed at step 20\n"}
    assert lost_steps(logs, {"number": 1}, {"number": 2}) == 27
