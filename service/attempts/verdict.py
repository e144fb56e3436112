"""What an attempt's facts call for: one pure decision, the first rule that holds.

Unreachable is no verdict: an instance that its cloud still calls running is left alone until `lost_after`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from providers.vocabulary import EndReason
from providers.vocabulary import InstanceState as CloudState
from service.attempts.model import Attempt
from service.attempts.outcome import EXITS, Ended
from service.instances.model import AgentState, Instance
from service.settings import Times
from service.states import AttemptState, InstanceState

MAINTENANCE_MARGIN = timedelta(minutes=2)
"""How long before an announced maintenance a job has left, its grace apart; the agent keeps to the same."""

REPORT_SLACK = timedelta(seconds=10)
"""How long after a drain's deadline a last report may still be on its way."""

HELLO_SLACK = timedelta(seconds=120)
"""How long agents may take to find us again after we were away."""

STARTED = (AgentState.RUNNING, AgentState.DRAINING, AgentState.EXITED)


@dataclass(frozen=True, slots=True)
class End:
    """The attempt is over."""

    ended: Ended
    message: str
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class Drain:
    """The job is to be told, to checkpoint and to stop by `deadline`."""

    ended: Ended
    message: str
    deadline: datetime


@dataclass(frozen=True, slots=True)
class Start:
    """All nodes are ready and nobody else writes: the job may start."""


@dataclass(frozen=True, slots=True)
class Run:
    """All nodes have started the job."""


@dataclass(frozen=True, slots=True)
class Keep:
    """Nothing to do before `until`; None: before something happens."""

    until: datetime | None


Verdict = End | Drain | Start | Run | Keep


@dataclass(frozen=True, slots=True)
class Facts:
    """All that the decision rests on. `predecessor_until`: until when an earlier
    attempt may still write; None if none may. `listening_since`: since when we could
    have heard an agent; what we missed before is not its silence. `leave_at`: when its
    reservation must be left, of which the cloud ends the instances at `taken_at`.
    `replaced`: what is to take the job over at less cost is ready."""

    attempt: Attempt
    instances: Sequence[Instance]
    cancelled: bool
    predecessor_until: datetime | None
    grace: timedelta
    times: Times
    listening_since: datetime | None = None
    leave_at: datetime | None = None
    taken_at: datetime | None = None
    replaced: bool = False

    def heard(self, instance: Instance) -> datetime | None:
        """Since when an instance's agent has been silent; None if it never spoke."""
        seen = instance.agent_seen_at
        return seen if seen is None or self.listening_since is None else max(seen, self.listening_since)


def decide(facts: Facts, now: datetime) -> Verdict:
    """The step that an attempt in `booting`, `running` or `draining` takes now."""
    finished = _finished(facts)
    if finished is not None:
        return finished
    if facts.attempt.state is AttemptState.DRAINING:
        return _draining(facts, now)
    gone = _gone(facts, now)
    if gone is not None:
        return gone
    told = _told_to_stop(facts, now)
    if told is not None:
        return told
    return _booting(facts, now) if facts.attempt.state is AttemptState.BOOTING else _running(facts)


def _finished(facts: Facts) -> End | None:
    """Every node ended well; or one did not, which ends them all."""
    exits = [instance for instance in facts.instances if instance.exit_at is not None]
    well = [instance for instance in exits if instance.exit_reason == "exited" and instance.exit_code == 0]
    if well and facts.attempt.may_start_at is None:
        return End(
            Ended.BOOT_FAILED, f"rank {well[0].node} speaks of the end of a job that was never started"
        )
    if len(well) == len(facts.instances):
        return End(Ended.SUCCEEDED, "every node ended with exit code 0", 0)
    bad = [instance for instance in exits if instance not in well and not _was_told(facts, instance)]
    if not bad:
        return None
    first = min(bad, key=lambda instance: (instance.exit_at, instance.node))
    if first.exit_reason == "exited" and facts.attempt.state is AttemptState.DRAINING:
        return None  # it was told to stop: how it stopped is no failure of its own
    reason = first.exit_reason or ""
    ended = _WITHOUT_BEING_TOLD.get(reason) or EXITS.get(reason, Ended.FAILED)
    how = (
        f"exit code {first.exit_code}" if first.exit_code is not None else first.exit_reason or "no exit code"
    )
    detail = f": {first.exit_detail}" if first.exit_detail else ""
    return End(ended, f"rank {first.node} ended with {how}{detail}", first.exit_code)


_TOLD = frozenset({"preempted", "stopped"})
_WITHOUT_BEING_TOLD = {"stopped": Ended.LOST}


def _was_told(facts: Facts, instance: Instance) -> bool:
    """True if it stopped because it was to: by us, or by a notice, which then drains the others too."""
    draining = facts.attempt.state is AttemptState.DRAINING
    noticed = instance.notice_at is not None or instance.exit_reason == "preempted"
    return instance.exit_reason in _TOLD and (draining or facts.cancelled or noticed)


def _is_noticed(instance: Instance, facts: Facts, now: datetime) -> bool:
    """True if its node must be left now: at once on a preemption, ahead of its time on maintenance."""
    leave_at = _leave_at(instance, facts)
    return instance.exit_reason == "preempted" or (leave_at is not None and now >= leave_at)


def _leave_at(instance: Instance, facts: Facts) -> datetime | None:
    """When a notice has the job leave a node; None without one. Before maintenance there is time enough for
    the job's grace and MAINTENANCE_MARGIN, so it runs on until then.
    """
    if instance.notice_at is None:
        return None
    if instance.notice_kind != "maintenance" or instance.notice_deadline is None:
        return instance.notice_at
    return max(instance.notice_at, instance.notice_deadline - facts.grace - MAINTENANCE_MARGIN)


def _draining(facts: Facts, now: datetime) -> Verdict:
    attempt = facts.attempt
    ended = Ended(attempt.drain_reason or Ended.PREEMPTED)
    if all(_silent(instance) for instance in facts.instances):
        return End(ended, f"{ended}: every node has stopped")
    deadline = (attempt.drain_deadline or now) + REPORT_SLACK
    if now >= deadline:
        return End(ended, f"{ended}: its time is over")
    return Keep(deadline)


def _silent(instance: Instance) -> bool:
    return instance.exit_at is not None or instance.state is InstanceState.TERMINATED


def _gone(facts: Facts, now: datetime) -> End | None:
    """One node that is over, or lost, ends the attempt: a gang is all or nothing."""
    booting = facts.attempt.state is AttemptState.BOOTING and facts.predecessor_until is None
    for instance in facts.instances:
        if instance.state in (InstanceState.TERMINATING, InstanceState.TERMINATED):
            return _over(facts, instance)
        stopping = instance.cloud_state in (CloudState.STOPPED, CloudState.STOPPING)
        if stopping and instance.cloud_end_reason is EndReason.PREEMPTED:
            return _over(facts, instance)
        if instance.cloud_state is CloudState.STOPPED:
            return End(Ended.LOST, f"rank {instance.node}: its instance was stopped")
        seen = facts.heard(instance)
        if not booting and seen is not None and now - seen >= timedelta(seconds=facts.times.lost_after):
            return End(Ended.LOST, f"rank {instance.node}: unreachable for {facts.times.lost_after:.0f} s")
    return None


def _over(facts: Facts, instance: Instance) -> End:
    if facts.attempt.error_kind is not None:
        return End(
            Ended.REFUSED, f"{facts.attempt.error_kind}: {facts.attempt.error_code or 'the cloud gave up'}"
        )
    if instance.cloud_end_reason is EndReason.PREEMPTED:
        return End(Ended.PREEMPTED, f"rank {instance.node}: taken back by {instance.provider}")
    if instance.cloud_end_reason is EndReason.CAPACITY:
        return End(Ended.REFUSED, f"rank {instance.node}: no capacity after all")
    why = instance.cloud_end_reason or "unknown reason"
    return End(Ended.LOST, f"rank {instance.node}: its instance is over ({why})")


def _told_to_stop(facts: Facts, now: datetime) -> Verdict | None:
    attempt = facts.attempt
    if facts.cancelled:
        if attempt.state is AttemptState.BOOTING and attempt.may_start_at is None:
            return End(Ended.CANCELLED, "cancelled before it ran")
        return Drain(Ended.CANCELLED, "cancelled", now + facts.grace)
    noticed = [instance for instance in facts.instances if _is_noticed(instance, facts, now)]
    if noticed:
        deadlines = [instance.notice_deadline for instance in noticed if instance.notice_deadline is not None]
        ranks = ", ".join(str(instance.node) for instance in noticed)
        return Drain(Ended.PREEMPTED, f"notice for rank {ranks}", min(deadlines, default=now + facts.grace))
    if facts.leave_at is not None and now >= facts.leave_at:
        deadline = max(now, min(facts.taken_at or now + facts.grace, now + facts.grace))
        return Drain(Ended.PREEMPTED, "its reservation is about to end", deadline)
    if facts.replaced and attempt.state is AttemptState.RUNNING:
        return Drain(Ended.MOVED, "its replacement elsewhere is ready", now + facts.grace)
    if attempt.run_deadline is not None and now >= attempt.run_deadline:
        return Drain(Ended.MAX_DURATION, "max_duration is reached", now + facts.grace)
    return None


def _booting(facts: Facts, now: datetime) -> Verdict:
    attempt = facts.attempt
    started = attempt.may_start_at is not None
    if started and all(instance.agent_state in STARTED for instance in facts.instances):
        return Run()
    ready = all(instance.agent_state is AgentState.READY for instance in facts.instances)
    if ready and not started:  # in time, however long it must wait for its predecessor
        return Start() if facts.predecessor_until is None else Keep(_next_look(facts))
    deadline = boot_deadline(attempt, facts.listening_since)
    if deadline is not None and now >= deadline:
        late = [str(i.node) for i in facts.instances if i.agent_state is None]
        which = f"rank {', '.join(late)} never spoke" if late else "not every node was ready"
        return End(Ended.BOOT_FAILED, f"{which} within {facts.times.boot:.0f} s")
    return Keep(deadline)


def boot_deadline(attempt: Attempt, listening_since: datetime | None) -> datetime | None:
    """Until when every node must be ready. Who could not reach us is given a little longer."""
    if attempt.boot_deadline is None or listening_since is None:
        return attempt.boot_deadline
    return max(attempt.boot_deadline, listening_since + HELLO_SLACK)


def _next_look(facts: Facts) -> datetime | None:
    """While it waits for its predecessor: when that changes, or an agent has been silent for too long."""
    lost = timedelta(seconds=facts.times.lost_after)
    silent = [seen + lost for instance in facts.instances if (seen := facts.heard(instance)) is not None]
    return min((one for one in (facts.predecessor_until, *silent) if one is not None), default=None)


def _running(facts: Facts) -> Verdict:
    times, limits = facts.times, []
    for instance in facts.instances:
        seen = facts.heard(instance)
        if seen is not None:
            limits.append(seen + timedelta(seconds=times.lost_after))
            if instance.reachable:
                limits.append(seen + timedelta(seconds=times.silent_after))
        leave_at = _leave_at(instance, facts)
        if leave_at is not None:
            limits.append(leave_at)
    limits += [one for one in (facts.attempt.run_deadline, facts.leave_at) if one is not None]
    return Keep(min(limits, default=None))
