"""What the settings allow a kind of job: capacity types, waiting for spot, and moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from policies.model import Job, Reason, RunClass, SpotUse
from providers.vocabulary import CapacityType


class Policy(StrEnum):
    """How a job without a deadline is placed. One with a deadline goes by the policy `deadline`, among what
    its own policy's rule allows.
    """

    CHEAPEST = "cheapest"
    CORE = "core"
    EXPLORATION = "exploration"
    PREPROCESSING = "preprocessing"


@dataclass(frozen=True, slots=True)
class Rule:
    """The parameters of a policy.

    `spot_wait`: how long to insist on spot where the job says nothing. `moves`: whether a running job that
    resumes from a checkpoint may be moved to save money; not within `min_dwell` of its start, for less than
    the share `min_saving` of what is left to pay, before it was worth it for `hold`, or more often than
    `max_moves`. `spot_without_checkpoint`: how long a job may be that spot would set back to its beginning.
    """

    policy: Policy = Policy.CHEAPEST
    capacity_types: frozenset[CapacityType] = frozenset({CapacityType.ON_DEMAND, CapacityType.SPOT})
    spot_wait: timedelta = timedelta(0)
    moves: bool = False
    min_dwell: timedelta = timedelta(minutes=30)
    min_saving: float = 0.1
    hold: timedelta = timedelta(minutes=5)
    max_moves: int = 20
    spot_without_checkpoint: timedelta = timedelta(hours=4)


_USUAL = frozenset({CapacityType.ON_DEMAND, CapacityType.SPOT})
DEFAULT_RULES: Mapping[Policy, Rule] = {
    Policy.CHEAPEST: Rule(),
    Policy.CORE: Rule(Policy.CORE, frozenset({CapacityType.RESERVED, CapacityType.ON_DEMAND}), moves=True),
    Policy.EXPLORATION: Rule(Policy.EXPLORATION, _USUAL, moves=True),
    Policy.PREPROCESSING: Rule(Policy.PREPROCESSING, _USUAL),
}
POLICY_OF_CLASS: Mapping[RunClass, Policy] = {
    RunClass.CORE: Policy.CORE,
    RunClass.EXPLORATION: Policy.EXPLORATION,
    RunClass.PREPROCESSING: Policy.PREPROCESSING,
}
"""Where no route matches."""


def refused_capacity(rule: Rule, job: Job) -> dict[CapacityType, tuple[Reason, str]]:
    """The capacity types that the rule, or the job's own lack of a checkpoint, closes to it."""
    closed = {
        capacity_type: (reason, f"the rule of the policy `{rule.policy}` does not allow {capacity_type}")
        for capacity_type, reason in _CLOSED.items()
        if capacity_type not in rule.capacity_types
    }
    risk = spot_risk(rule, job)
    if risk is not None and CapacityType.SPOT not in closed:
        closed[CapacityType.SPOT] = (Reason.SPOT_NOT_ALLOWED, risk)
    return closed


def spot_risk(rule: Rule, job: Job) -> str | None:
    """Why a job that may choose is not put on spot: a preemption would set it back to its beginning."""
    if job.resumes or job.spot is not SpotUse.AUTO or job.work_left is None:
        return None
    if job.deadline is not None:
        return "no checkpoint: a preemption would cost the deadline"
    if job.work_left > rule.spot_without_checkpoint:
        hours = rule.spot_without_checkpoint.total_seconds() / 3600
        return f"no checkpoint, and longer than {hours:g} h: a preemption would lose it all"
    return None


_CLOSED: Mapping[CapacityType, Reason] = {
    CapacityType.RESERVED: Reason.RESERVED_NOT_ALLOWED,
    CapacityType.ON_DEMAND: Reason.ON_DEMAND_NOT_ALLOWED,
    CapacityType.SPOT: Reason.SPOT_NOT_ALLOWED,
}
