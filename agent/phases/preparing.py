"""Preparing: a newer agent if there is one, then files, container image and setup."""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

from agent import environment, files, update
from agent.agent import Agent, HaltedError
from agent.client import Answer
from agent.containers import Container, find_runtime
from agent.failure import JobError, disk_full, is_disk_full
from agent.protocol import ExitReason, ProtocolError
from agent.stages import Command, Stage, program
from agent.states import State

log = logging.getLogger(__name__)
_TAIL = 65536


def phase(agent: Agent) -> State:
    """Everything up to the job itself. Nothing of an earlier, unfinished preparation is kept."""
    try:
        _update(agent)
        _end_leftovers(agent)
        agent.take_assignment(fetch_assignment(agent), keep=True)
    except HaltedError:
        return agent.stopped()
    except (ProtocolError, JobError) as error:
        agent.reopen_spool()
        reason = error if isinstance(error, JobError) else JobError(ExitReason.FILES_FAILED, str(error))
        return agent.give_up(reason)
    try:
        _make_checkpoint_directory(agent)
        _make_container(agent)
        files.fetch(agent.job, agent.paths, agent.client, agent.retrying, agent.run_stage)
        if agent.container:
            agent.container.pull(agent.run_stage, lambda: _tail(agent))
        _setup(agent)
    except JobError as failure:
        return agent.give_up(failure)
    except OSError as error:
        if not is_disk_full(error):
            raise
        return agent.give_up(disk_full(agent.paths.state, "there is no room to prepare the job;"))
    except HaltedError:
        return agent.stopped()
    return State.READY


def fetch_assignment(agent: Agent) -> dict[str, Any]:
    """What to run, as the service says it. Raises HaltedError or JobError."""
    answer: Answer | None = None

    def once() -> None:
        nonlocal answer
        answer = agent.client.get("/agent/v1/assignment")

    agent.retrying(once)
    assert answer is not None  # noqa: S101 - retrying has called once
    return answer.body


def job_command(agent: Agent, stage: str, text: str, variables: dict[str, str]) -> Command:
    """A script of the job's, in its container or as a plain process."""
    secrets = list(agent.job.secrets.values())
    if agent.container:
        return agent.container.command(stage, text, variables, secrets)
    everything = {**environment.base(agent.paths, os.environ), **variables}
    argv = [*environment.shell(), "-c", text]
    return Command(argv, everything, agent.paths.work, secrets)


def checkpoint_inside(agent: Agent) -> str | None:
    """The checkpoint directory as the job sees it."""
    wanted = agent.job.checkpoint
    if wanted is None:
        return None
    return wanted.path if agent.container else str(agent.paths.checkpoint(wanted.path))


def make_container(agent: Agent) -> Container | None:
    """How the job's container is spoken to; None for a plain process."""
    if agent.job.container is None:
        return None
    wanted = agent.job.checkpoint
    return Container(
        runtime=find_runtime(),
        image=agent.job.container,
        name=f"{agent.job.attempt_id}-{agent.job.rank}",
        work=agent.paths.work,
        checkpoint=(agent.paths.checkpoint(wanted.path), wanted.path) if wanted else None,
        gpus=bool(agent.gpus.inventory()),
    )


def _update(agent: Agent) -> None:
    def once() -> None:
        if update.take(agent.client, agent.paths, agent.world.zipapp):
            agent.close()
            os.execv(sys.executable, [sys.executable, *program()])  # noqa: S606 - ourselves, verified

    agent.retrying(once)


def _end_leftovers(agent: Agent) -> None:
    """A setup that an earlier start of the agent left running."""
    if agent.paths.stages.is_dir():
        for folder in agent.paths.stages.iterdir():
            if stage := Stage.adopt(folder):
                stage.kill()


def _make_container(agent: Agent) -> None:
    agent.container = make_container(agent)


def _make_checkpoint_directory(agent: Agent) -> None:
    wanted = agent.job.checkpoint
    if wanted is None:
        return
    try:
        place = agent.paths.checkpoint(wanted.path)
        place.mkdir(parents=True, exist_ok=True)
    except (ValueError, OSError) as error:
        raise JobError(ExitReason.FILES_FAILED, f"checkpoint path {wanted.path!r}: {error}") from error


def _setup(agent: Agent) -> None:
    text = agent.job.setup
    if not text:
        return
    variables = environment.given(agent.job, None, checkpoint_inside(agent))
    limit = agent.job.max_duration_seconds
    try:
        ended = agent.run_stage("setup", job_command(agent, "setup", text, variables), limit)
        if agent.container and ended.succeeded:
            agent.container.keep()
    except TimeoutError:
        detail = f"the setup took longer than the job's maximum duration of {limit} s"
        raise JobError(ExitReason.MAX_DURATION, detail) from None
    finally:
        if agent.container:
            agent.container.remove("setup")
    if not ended.succeeded:
        raise JobError(ExitReason.SETUP_FAILED, f"setup: {ended}", ended.exit_code)


def _tail(agent: Agent) -> bytes:
    return agent.spool.read(max(0, agent.spool.size - _TAIL), _TAIL)
