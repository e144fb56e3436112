"""Hello: the claim code buys a session, once per boot."""

from __future__ import annotations

import logging
from typing import Any

from agent import __version__, deadman, machine
from agent import identity as identities
from agent import result as results
from agent.agent import Agent
from agent.backoff import Backoff
from agent.client import ServiceError, UnavailableError
from agent.identity import Identity
from agent.protocol import VERSION, ExitReason
from agent.result import Result
from agent.states import State

log = logging.getLogger(__name__)


def phase(agent: Agent) -> State:
    """Get a session. After a reboot: report what was lost."""
    before = identities.load(agent.paths, agent.world.configuration.attempt)
    facts = machine.facts(agent.world.configuration.service_url, agent.gpus.inventory())
    answer = _say(agent, facts)
    if answer is None:
        return State.END
    identity = _identity(agent, answer, facts["boot_id"])
    identities.save(agent.paths, identity)
    agent.result = results.load(agent.paths)
    if agent.result is None and before is not None and before.ran:
        agent.result = Result(ExitReason.LOST_BY_REBOOT, detail="the machine was rebooted while the job ran")
    following = State.PREPARING if agent.result is None else State.EXITED
    agent.connect(identity, following)
    return following


def _say(agent: Agent, facts: dict[str, Any]) -> dict[str, Any] | None:
    """The answer to hello; None if the service does not want us, or does not answer."""
    body = {
        "protocol": VERSION,
        "claim_code": agent.world.configuration.claim_code,
        "instance_id": agent.instance_id,
        "agent_version": __version__,
        **facts,
    }
    backoff = Backoff(agent.world.chance, ceiling=10.0)
    started = agent.clock.monotonic()
    while not agent.orders.halted.is_set():
        try:
            return agent.client.post("/agent/v1/hello", body).body
        except UnavailableError as error:
            log.info("hello: %s", error)
            if deadman.silent_too_long(agent.clock.monotonic(), started, job_runs=False):
                log.warning("hello: nobody answered for half an hour")
                return None
            agent.clock.wait(agent.orders.halted, backoff.failed(error.retry_after))
        except ServiceError as error:
            log.warning("hello was refused: %s", error)
            return None
    return None


def _identity(agent: Agent, answer: dict[str, Any], boot_id: str) -> Identity:
    return Identity(
        attempt=agent.world.configuration.attempt,
        instance_id=agent.instance_id,
        boot_id=boot_id,
        session=answer["session"],
        epoch=int(answer["epoch"]),
        rank=int(answer["rank"]),
        num_nodes=int(answer["num_nodes"]),
        heartbeat_seconds=float(answer["heartbeat_seconds"]),
        max_age_seconds=float(answer["max_age_seconds"]),
        born=agent.clock.monotonic(),
    )
