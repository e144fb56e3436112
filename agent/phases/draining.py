"""Draining: nothing of the job is left running, and its last checkpoint is in the store."""

from __future__ import annotations

import logging
import shutil
import signal
import threading

from agent import drain
from agent.agent import Agent
from agent.drain import DrainPlan
from agent.orders import Halt, HaltOrder
from agent.protocol import ExitReason
from agent.result import Result
from agent.stages import Exit, Stage
from agent.states import State

_SHUTDOWN_SECONDS = 2.0
_LEFTOVER_SECONDS = 5.0  # what processes get that outlive the job's shell
_FULL_BELOW = 16 << 20  # bytes free: a job that fails with less has most likely failed for that

log = logging.getLogger(__name__)


def phase(agent: Agent) -> State:
    """SIGTERM, grace, SIGKILL; then the last upload, in the time that is left."""
    begun = agent.clock.monotonic()
    by_itself = _ended_by_itself(agent)
    if agent.stage is not None and not _abandoned(agent):
        _end_processes(agent, agent.stage, begun, by_itself=by_itself)
    if _abandoned(agent):
        _kill(agent)
        return State.END
    ended = _last_word(agent)
    if agent.uploader is not None:
        seconds = _plan(agent, begun).upload_until - agent.clock.monotonic()
        agent.uploader.finish(max(0.0, seconds), lambda: _abandoned(agent))
    if _abandoned(agent):
        return State.END
    agent.result = _result(agent, ended, by_itself=by_itself)
    return State.EXITED


def _ended_by_itself(agent: Agent) -> bool:
    """A job that fails while it is told to end has not failed. When the whole machine goes down its SIGTERM
    reaches the job as soon as it reaches us, so the order for it may come a moment later.
    """
    ended = agent.stage.poll() if agent.stage is not None else Exit(None, None)
    if ended is None or ended.succeeded:
        return ended is not None
    if ended.signal == signal.SIGTERM or ended.exit_code == 128 + signal.SIGTERM:
        agent.clock.wait(agent.orders.halted, _SHUTDOWN_SECONDS)
    return agent.orders.halt is None


def _abandoned(agent: Agent) -> bool:
    order = agent.orders.halt
    return order is not None and order.halt is Halt.ABANDON


def _plan(agent: Agent, begun: float) -> DrainPlan:
    """With the orders as they are by now: a deadline may have come, or come nearer."""
    order = agent.orders.halt
    if order is None:
        order = HaltOrder(Halt.STOP, ExitReason.EXITED, "", grace=_LEFTOVER_SECONDS)
    return drain.plan(order, begun, agent.grace(), uploads=agent.uploader is not None)


def _end_processes(agent: Agent, stage: Stage, begun: float, *, by_itself: bool) -> None:
    stage.terminate()
    while stage.living() and not _abandoned(agent):
        plan = _plan(agent, begun)
        kill_at = min(plan.kill_at, begun + _LEFTOVER_SECONDS) if by_itself else plan.kill_at
        left = kill_at - agent.clock.monotonic()
        if left <= 0:
            log.warning("the job did not end in its grace; killed")
            break
        agent.pause(min(0.25, left))
    _kill(agent)


def _kill(agent: Agent) -> None:
    if agent.uploader is not None and _abandoned(agent):
        agent.uploader.cancel()
    if agent.container is not None:
        agent.container.remove("run")
    if agent.stage is not None:
        agent.stage.kill()
    for folder in agent.paths.stages.iterdir() if agent.paths.stages.is_dir() else ():
        if other := Stage.adopt(folder):
            other.kill()  # what the setup left running


def _last_word(agent: Agent) -> Exit:
    """How the job ended; its supervisor writes it a moment after the kill."""
    if agent.stage is None:
        return Exit(None, None)
    never = threading.Event()
    for _ in range(500):
        if ended := agent.stage.poll():
            return ended
        never.wait(0.01)
    return Exit(None, None)


def _result(agent: Agent, ended: Exit, *, by_itself: bool) -> Result:
    order = agent.orders.halt
    detail, reason = f"the job ended: {ended}", ExitReason.EXITED
    if order is not None and not by_itself:
        reason, detail = order.reason, f"{order.detail}; the job ended: {ended}"
    elif not ended.succeeded:
        free = shutil.disk_usage(agent.paths.state).free
        if free < _FULL_BELOW or ended.disk_full:
            reason = ExitReason.DISK_FULL
            detail = f"{detail}; the disk is full: {free} bytes are free"
    newest = agent.uploader.newest if agent.uploader is not None else None
    return Result(reason, ended.exit_code, ended.signal, newest or agent.identity.restored, detail)
