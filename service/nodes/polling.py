"""What a node's agent is told when it asks: take this use, give it back, or wait."""

from __future__ import annotations

from functools import partial
from typing import Any

from sqlalchemy import update
from sqlmodel import Session, col

from service.agents.claim import claim_code
from service.context import STANDING, Context
from service.db import after_commit
from service.events.record import record
from service.instances.model import Instance
from service.nodes.enrolment import Machine, note_machine
from service.nodes.model import Node
from service.nodes.pools import refresh
from service.nodes.provider import free
from service.states import InstanceState

POLL_SECONDS = 5.0
BUSY_POLL_SECONDS = 10.0


def poll(
    session: Session, ctx: Context, node: Node, machine: Machine, *, running: str | None, done: str | None
) -> dict[str, Any]:
    """`running`: the use that the node works on; `done`: the last one of which nothing is left on it.

    A use is given out until the node says that it runs or is done, so that a lost answer loses no job.
    """
    now = ctx.now()
    rebooted = node.boot_id not in (None, machine.boot_id)
    note_machine(node, machine, now)
    node.enrol_hash = node.enrol_until = None
    if rebooted:
        message = f"node {node.name} was rebooted"
        record(session, "node_rebooted", "node", node.id, message, at=now, job_id=node.job_id)
    if node.use_id is not None and done == node.use_id:
        _look_now(session, ctx, node)
        free(node)
    reply = _told(ctx, node, running) | {"poll_seconds": _poll_seconds(ctx, busy=running is not None)}
    session.add(node)
    session.flush()
    refresh(session, ctx)
    return reply


def _look_now(session: Session, ctx: Context, node: Node) -> None:
    """Have the instance that stands for the use looked at: it is over."""
    session.connection().execute(
        update(Instance)
        .where(
            col(Instance.provider) == STANDING,
            col(Instance.provider_id) == node.use_id,
            col(Instance.state) != InstanceState.TERMINATED,
        )
        .values(wake_at=ctx.now())
    )
    for loop in ("watcher", "reaper", "scheduler"):
        after_commit(session, partial(ctx.wake, loop))


def _told(ctx: Context, node: Node, running: str | None) -> dict[str, Any]:
    if running is not None and running != node.use_id:  # of before it was taken away from the node
        return {"use": None, "end": True}
    if node.use_id is None or node.attempt_id is None:
        return {"use": None, "end": False}
    node.given_at = node.given_at or ctx.now()
    use = {"id": node.use_id, "claim_code": claim_code(ctx.deployment_key, node.attempt_id)}
    return {"use": use, "end": node.release_at is not None}


def _poll_seconds(ctx: Context, *, busy: bool) -> float:
    """Often enough that one lost call is not taken for silence."""
    usual = BUSY_POLL_SECONDS if busy else POLL_SECONDS
    return min(usual, ctx.settings.times.silent_after / 3)
