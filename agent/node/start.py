"""`agent.pyz node URL CODE`: enrol if need be, then serve until stopped."""

from __future__ import annotations

import logging
import random
import signal
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from agent import __version__, machine
from agent.backoff import Backoff
from agent.client import ServiceClient, ServiceError, UnavailableError
from agent.machine import Gpus
from agent.node.memory import NodePaths, Registration, load_registration, save_registration
from agent.node.node import Node
from agent.node.work import Work
from agent.paths import Paths
from agent.protocol import VERSION
from clock import Clock, ScaledClock

USAGE = "usage: agent.pyz node [URL CODE [--ca FILE]]"
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_ENROL_TRIES = 20

log = logging.getLogger(__name__)


def run(arguments: list[str], environment: Mapping[str, str]) -> int:
    """0: told to stop, or the node was removed. 1: it cannot enrol. 2: a wrong call."""
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    try:
        url, code, ca = _read(arguments)
    except (ValueError, OSError) as error:
        sys.stderr.write(f"{error}\n{USAGE}\n")
        return 2
    clock, chance = ScaledClock.from_environment(environment), random.Random()  # noqa: S311 - jitter
    paths = NodePaths(Paths.from_environment(environment).root)
    stopping = threading.Event()
    _stop_on_signal(stopping)
    registration = load_registration(paths)
    if code is not None and url is not None:
        registration = _enrol(url, code, ca, clock, chance, stopping) or registration
        if registration is not None:
            save_registration(paths, registration)
    if registration is None:
        log.error("this machine has not enrolled; `corral nodes add` prints the command")
        return 1
    client = ServiceClient(registration.service_url, clock, ca=registration.ca)
    client.session = registration.session
    work = Work(paths.attempt, environment)
    return Node(paths, registration, client, clock, chance, work, stopping).live()


def _read(arguments: list[str]) -> tuple[str | None, str | None, str | None]:
    """URL, code and the PEM of a private authority."""
    words, ca = list(arguments), None
    if "--ca" in words:
        place = words.index("--ca")
        if place + 1 >= len(words):
            raise ValueError("--ca: expected a file")
        ca = Path(words[place + 1]).read_text(encoding="utf-8")
        del words[place : place + 2]
    if not words:
        return None, None, ca
    if len(words) != 2 or not words[0].startswith(("https://", "http://")):
        raise ValueError("expected the service's address and a code")
    return words[0].rstrip("/"), words[1], ca


def _enrol(
    url: str, code: str, ca: str | None, clock: Clock, chance: random.Random, stopping: threading.Event
) -> Registration | None:
    """Exchange the code for a session; None if the service refuses it, or does not answer."""
    client, backoff = ServiceClient(url, clock, ca=ca), Backoff(chance)
    said = {
        "protocol": VERSION,
        "agent_version": __version__,
        "code": code,
        **machine.facts(url, Gpus().inventory()),
    }
    try:
        for _ in range(_ENROL_TRIES):
            try:
                answer = client.post("/agent/v1/node/enrol", said).body
                return Registration(url, str(answer["session"]), str(answer["node"]), ca)
            except UnavailableError as error:
                log.info("enrol: %s", error)
                if clock.wait(stopping, backoff.failed(error.retry_after)):
                    return None
    except ServiceError as error:
        log.error("the service refused the code: %s", error)
    finally:
        client.close()
    return None


def _stop_on_signal(stopping: threading.Event) -> None:
    """A thread waits for the signal, since a handler could meet a lock that the main thread holds."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)

    def wait() -> None:
        signal.sigwait(_SIGNALS)
        stopping.set()

    threading.Thread(target=wait, name="signals", daemon=True).start()
