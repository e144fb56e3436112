"""Boot: find out who this is, and whether an earlier start has left something to go on with."""

from __future__ import annotations

import logging

from agent import deadman, processes
from agent import identity as identities
from agent import result as results
from agent.agent import Agent
from agent.backoff import Backoff
from agent.metadata import MetadataError
from agent.states import State

log = logging.getLogger(__name__)


def phase(agent: Agent) -> State:
    """Same boot: go on where the agent stopped. Another boot, or none before: say hello."""
    saved = identities.load(agent.paths, agent.world.configuration.attempt)
    if saved is not None and saved.boot_id == processes.boot_id():
        agent.result = results.load(agent.paths)
        following = State.RUNNING if saved.ran else State.PREPARING
        if agent.result is not None:
            following = State.EXITED
        agent.connect(saved, following)
        return following
    agent.saved = None
    name = saved.instance_id if saved is not None else _ask_for_name(agent)
    if not name:
        return State.END
    agent.instance_id = name
    return State.HELLO


def _ask_for_name(agent: Agent) -> str:
    """The metadata service may be late, and says now and then that it has no time."""
    backoff = Backoff(agent.world.chance, ceiling=10.0)
    until = agent.clock.monotonic() + deadman.SILENCE_SECONDS
    while not agent.orders.halted.is_set() and agent.clock.monotonic() < until:
        try:
            if name := agent.world.watcher.instance_id():
                return name
        except MetadataError as error:
            log.info("who am I? %s", error)
        agent.clock.wait(agent.orders.halted, backoff.failed())
    return ""
