"""One phase per state: it does what the state is for, and says which state comes next."""

from __future__ import annotations

import logging
from collections.abc import Callable

from agent.agent import Agent
from agent.phases import boot, draining, exited, hello, preparing, ready, running
from agent.states import State, check

PHASES: dict[State, Callable[[Agent], State]] = {
    State.BOOT: boot.phase,
    State.HELLO: hello.phase,
    State.PREPARING: preparing.phase,
    State.READY: ready.phase,
    State.RUNNING: running.phase,
    State.DRAINING: draining.phase,
    State.EXITED: exited.phase,
}

log = logging.getLogger(__name__)


def live(agent: Agent) -> None:
    """From boot to end."""
    state = State.BOOT
    while state is not State.END:
        following = check(state, PHASES[state](agent))
        log.info("%s -> %s", state, following)
        state = following
        if agent.saved is not None and state is not State.END:
            agent.courier.enter(state)
    agent.close()
