"""Exited: the rest of the log, then the exit, until the service has taken both."""

from __future__ import annotations

import logging

from agent import deadman
from agent import result as results
from agent.agent import Agent
from agent.backoff import Backoff
from agent.checkpoints.objects import StoreError
from agent.client import OverError, ServiceError, UnavailableError
from agent.phases.ready import checkpoint_store
from agent.protocol import Assignment, Reply
from agent.result import Result
from agent.states import State

_FLUSH_SECONDS = 30.0
_LOGS_ONLY_SECONDS = 300.0  # how long the exit waits for a log that alone is refused
_BESIDE_AFTER_SECONDS = 60.0
_HURRY_SECONDS = 5.0

log = logging.getLogger(__name__)


def phase(agent: Agent) -> State:
    """Returns when the service has said that this instance is done, or nobody will ever say so."""
    result = agent.result
    if result is None:
        return State.END
    try:
        results.save(agent.paths, result)
    except OSError as error:  # a full disk: only a restart before the delivery would miss it
        log.warning("the result could not be kept: %s", error)
    if agent.shipper is None:
        agent.reopen_spool()
        agent.spool.note(result.detail)
    agent.courier.holds = True
    if _deliver(agent, result):
        agent.courier.holds = False
        while not agent.orders.end and not _silent(agent):
            agent.pause(1.0)
    return State.END


def _deliver(agent: Agent, result: Result) -> bool:
    """True once it is acknowledged; False if that is not to be."""
    begun = agent.clock.monotonic()
    backoff = Backoff(agent.world.chance, ceiling=30.0)
    noted = False
    while agent.clock.monotonic() - begun < deadman.UNDELIVERED_SECONDS:
        waited = agent.clock.monotonic() - begun
        if _log_is_out(agent) or waited >= _LOGS_ONLY_SECONDS or _hurry(agent):
            try:
                agent.courier.flush()  # the last checkpoint is reported before the end
                answer = agent.client.post(
                    "/agent/v1/exit", {"epoch": agent.identity.epoch, **result.message()}
                )
            except OverError as over:
                agent.courier.over(over)
                return False
            except UnavailableError as error:
                log.info("exit: %s", error)
            except ServiceError as error:
                log.warning("exit: %s", error)
            else:
                agent.courier.apply(Reply.parse(answer.body))
                return True
        if not noted and waited >= _BESIDE_AFTER_SECONDS:
            noted = _write_beside(agent, result)
        agent.pause(backoff.failed())
    log.warning("the exit could not be delivered for an hour")
    return False


def _log_is_out(agent: Agent) -> bool:
    if agent.shipper is None:
        return True
    left = _left(agent)
    return agent.shipper.flush(_FLUSH_SECONDS if left is None else max(0.5, min(_FLUSH_SECONDS, left / 2)))


def _left(agent: Agent) -> float | None:
    """Seconds until the instance is taken away, where that is known and still to come."""
    order = agent.orders.halt
    if order is None or order.deadline is None:
        return None
    left = order.deadline - agent.clock.monotonic()
    return left if left > 0 else None


def _hurry(agent: Agent) -> bool:
    left = _left(agent)
    return left is not None and left < _HURRY_SECONDS


def _silent(agent: Agent) -> bool:
    return deadman.silent_too_long(agent.clock.monotonic(), agent.client.last_contact, job_runs=False)


def _write_beside(agent: Agent, result: Result) -> bool:
    """Where the next attempt, or a person, will find it."""
    if agent.assignment is None and (raw := agent.kept_assignment()):
        agent.assignment = Assignment.parse(raw)
    if agent.assignment is None:
        return True
    identity = agent.identity
    try:
        if store := checkpoint_store(agent):
            name = f"exit-{identity.epoch}-rank-{identity.rank}.json"
            store.write_beside(name, {"epoch": identity.epoch, **result.message()})
    except StoreError as error:
        log.warning("the exit could not be written beside the checkpoint: %s", error)
        return False
    return True
