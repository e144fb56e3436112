"""Who may still write: until when an attempt's job may run on one of its instances. Pure.

An instance that was told to start is taken to write until it says that its job is over, is proved gone, or
has itself been told until when it may: agents kill their job then, whether or not they are heard.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from providers.vocabulary import InstanceState as CloudState
from service.attempts.model import Attempt
from service.instances.model import AgentState, Instance
from service.settings import Times
from service.states import InstanceState

LOOK_AGAIN = timedelta(seconds=60)
"""When to look again for something that has no date; the proof itself wakes whoever waits for it."""


def writes_until(
    earlier: Iterable[tuple[Attempt, Sequence[Instance]]], times: Times, now: datetime
) -> datetime | None:
    """Until when some earlier attempt may still write, or when to look again; None if none may any more."""
    untils = [
        until
        for attempt, instances in earlier
        if attempt.may_start_at is not None
        for instance in instances
        if (until := _until(attempt, instance, times, now)) is not None
    ]
    last = max(untils, default=now)
    return last if last > now else None


def _until(attempt: Attempt, instance: Instance, times: Times, now: datetime) -> datetime | None:
    if instance.exit_at is not None or instance.state is InstanceState.TERMINATED:
        return None
    if instance.cloud_state in (CloudState.TERMINATED, CloudState.STOPPED):
        return None
    if attempt.drain_deadline is not None and _knows(instance):
        return max(attempt.drain_deadline, instance.notice_deadline or attempt.drain_deadline)
    if instance.terminating_at is not None:
        # Its end was asked for and is not proved. The job does not wait for ever for a cloud that does not
        # answer: checkpoints are ordered by epoch, so that whatever the old one still writes is passed over.
        return instance.terminating_at + timedelta(seconds=times.lost_after)
    return now + LOOK_AGAIN


def _knows(instance: Instance) -> bool:
    """True if its agent has seen the notice itself, or said that it drains."""
    return instance.notice_at is not None or instance.agent_state is AgentState.DRAINING
