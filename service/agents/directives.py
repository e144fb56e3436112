"""What an agent is told in answer to what it says: one pure table of cases, the first that holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from service.attempts.model import Attempt
from service.attempts.outcome import REPLACED
from service.instances.model import AgentState, Instance
from service.states import AttemptState


class Directive(StrEnum):
    """The wire's spelling."""

    WAIT = "wait"
    START = "start"
    CONTINUE = "continue"
    DRAIN = "drain"
    STOP = "stop"
    END = "end"


@dataclass(frozen=True, slots=True)
class Answer:
    """The reply to a heartbeat or a notice; durations in seconds."""

    directive: Directive
    epoch: int
    heartbeat_seconds: float
    node_ips: list[str] | None = None
    master_port: int | None = None
    grace_seconds: float | None = None
    reason: str | None = None

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def answer(
    attempt: Attempt,
    instance: Instance,
    nodes: Sequence[Instance],
    *,
    grace_seconds: float,
    heartbeat_seconds: float,
    now: datetime,
) -> Answer:
    """The directive for one node. `nodes` in rank order."""

    def told(directive: Directive, **more: Any) -> Answer:
        return Answer(directive, attempt.epoch, heartbeat_seconds, **more)

    if attempt.state is AttemptState.ENDED:
        return told(Directive.END, reason=attempt.reason)
    if attempt.state is AttemptState.DRAINING:
        left = (attempt.drain_deadline - now).total_seconds() if attempt.drain_deadline else grace_seconds
        directive = Directive.DRAIN if attempt.drain_reason in REPLACED else Directive.STOP
        grace = max(0.0, min(grace_seconds, left))
        return told(directive, grace_seconds=grace, reason=attempt.drain_reason)
    if attempt.may_start_at is None:
        return told(Directive.WAIT)
    if instance.agent_state in (AgentState.RUNNING, AgentState.DRAINING, AgentState.EXITED):
        return told(Directive.CONTINUE)
    ips = [node.private_ip or "127.0.0.1" for node in nodes]
    return told(Directive.START, node_ips=ips, master_port=attempt.master_port)
