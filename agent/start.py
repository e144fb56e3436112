"""Start: put the parts together, live, end the instance."""

from __future__ import annotations

import logging
import os
import random
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from agent import configuration, metadata
from agent.agent import Agent, World
from agent.checkpoints.objects import forget_inherited_credentials
from agent.client import ServiceClient
from agent.metadata.standing import StandingWatcher
from agent.orders import Halt, HaltOrder
from agent.paths import Paths
from agent.phases import live
from agent.protocol import ExitReason
from agent.stages import program
from clock import Clock, ScaledClock

METADATA_ENVIRONMENT = "CORRAL_METADATA_URL"
_SHUTDOWN_SECONDS = 25.0  # Compute Engine cuts the power 30 s after the signal; systemd waits longer
_SIGNALS = (signal.SIGTERM, signal.SIGINT)

log = logging.getLogger(__name__)


def run(environment: Mapping[str, str]) -> int:
    """The whole life of the agent. 0: the instance is to end, and the file that ends it is there."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    paths = Paths.from_environment(environment)
    try:
        clock = ScaledClock.from_environment(environment)
        handed = configuration.wait_for(paths, clock)
    except (configuration.ConfigurationError, ValueError) as error:
        log.error("%s", error)
        return 1
    if forgotten := forget_inherited_credentials(os.environ):
        log.info("credentials in the environment are not used: %s", ", ".join(sorted(forgotten)))
    url = environment.get(METADATA_ENVIRONMENT) or metadata.DEFAULT_URL
    place = Path(program()[0])
    agent = Agent(
        World(
            paths=paths,
            clock=clock,
            chance=random.Random(),  # noqa: S311 - jitter
            configuration=handed,
            watcher=_watcher(handed, url, clock),
            client=ServiceClient(handed.service_url, clock, ca=handed.ca),
            zipapp=place if place.is_file() else None,
        )
    )
    _drain_on_signal(agent)
    live(agent)
    end_instance(paths)
    return 0


def _watcher(handed: configuration.Configuration, url: str, clock: Clock) -> metadata.Watcher:
    if handed.provider == "standing":
        return StandingWatcher(handed.instance_id or "")
    return metadata.watcher_for(handed.provider, url, clock)


def end_instance(paths: Paths) -> None:
    """Ask the machine to power itself off: the image watches for this file."""
    paths.run.mkdir(parents=True, exist_ok=True)
    paths.poweroff.touch()


def _drain_on_signal(agent: Agent) -> None:
    """The machine is being shut down: the last notice there is, and on some clouds the only one. A thread
    waits for the signal, since a handler could meet a lock that the main thread holds.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)

    def wait() -> None:
        number = signal.sigwait(_SIGNALS)
        deadline = agent.clock.monotonic() + _SHUTDOWN_SECONDS
        detail = f"the machine is shutting down ({signal.Signals(number).name})"
        agent.orders.give_halt(HaltOrder(Halt.DRAIN, ExitReason.PREEMPTED, detail, deadline=deadline))

    threading.Thread(target=wait, name="signals", daemon=True).start()
