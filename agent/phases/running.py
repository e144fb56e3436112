"""Running: watch the job until it ends or has to."""

from __future__ import annotations

import logging

from agent.agent import Agent, HaltedError
from agent.checkpoints.objects import StoreError
from agent.failure import JobError
from agent.orders import Halt, HaltOrder
from agent.phases.preparing import fetch_assignment, make_container
from agent.phases.ready import checkpoint_store, make_uploader
from agent.protocol import ExitReason, ProtocolError
from agent.stages import Stage
from agent.states import State

log = logging.getLogger(__name__)


def phase(agent: Agent) -> State:
    """Returns when the job has ended, or when it is to end."""
    agent.courier.holds = True
    if agent.stage is None:
        _go_on(agent)
    while agent.orders.halt is None and agent.stage is not None and agent.stage.poll() is None:
        _limit(agent)
        agent.pause()
    return State.DRAINING


def _limit(agent: Agent) -> None:
    longest = agent.job.max_duration_seconds
    if longest is not None and agent.clock.monotonic() - agent.identity.ran_at >= longest:
        detail = f"the job has run for its maximum duration of {longest:.0f} s"
        agent.orders.give_halt(HaltOrder(Halt.STOP, ExitReason.MAX_DURATION, detail))


def _go_on(agent: Agent) -> None:
    """Look after the job that an earlier start of the agent, in this boot, has started."""
    agent.stage = Stage.adopt(agent.paths.stages / "run")
    try:
        agent.take_assignment(agent.kept_assignment() or fetch_assignment(agent), keep=False)
        agent.container = make_container(agent)
        wanted = agent.job.checkpoint
        store = checkpoint_store(agent)
    except (HaltedError, JobError, ProtocolError, StoreError) as error:
        log.warning("the job is looked after without its checkpoints: %s", error)
        if agent.shipper is None:
            agent.reopen_spool()
        return
    if wanted is not None and store is not None:
        agent.uploader = make_uploader(agent, store, wanted)
        agent.uploader.start()
