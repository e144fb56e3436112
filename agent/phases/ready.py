"""Ready: wait for the word, bring back the newest checkpoint, start the job."""

from __future__ import annotations

import logging
from pathlib import Path, PurePosixPath

from agent import environment
from agent.agent import Agent, HaltedError
from agent.backoff import Backoff
from agent.checkpoints.manifest import Manifest, manifest_key
from agent.checkpoints.objects import Objects, StoreError
from agent.checkpoints.store import CancelledError, CheckpointStore, GangDamageError, NoRoomError
from agent.checkpoints.uploader import Uploader
from agent.failure import JobError, disk_full, is_disk_full
from agent.orders import StartOrder
from agent.phases.preparing import checkpoint_inside, job_command
from agent.protocol import Checkpoint, ExitReason
from agent.states import State

_STORE_TRIES = 5

log = logging.getLogger(__name__)


def phase(agent: Agent) -> State:
    """Nobody else writes once `start` has been said; only then is the store read."""
    while (start := agent.orders.start) is None:
        if agent.orders.halt is not None:
            return agent.stopped()
        agent.pause(1.0)
    agent.courier.holds = True
    try:
        restored = _restore(agent)
        _start(agent, start, restored)
    except JobError as failure:
        return agent.give_up(failure)
    except OSError as error:
        if not is_disk_full(error):
            raise
        return agent.give_up(disk_full(agent.paths.state, "the job cannot be started;"))
    except HaltedError:
        agent.courier.holds = False
        return agent.stopped()
    return State.RUNNING


def checkpoint_store(agent: Agent) -> CheckpointStore | None:
    """The job's store; None for a job without checkpoints. Raises StoreError."""
    wanted = agent.job.checkpoint
    if wanted is None:
        return None
    identity = agent.identity
    return CheckpointStore(
        Objects(wanted.url, wanted.options),
        wanted.prefix,
        rank=identity.rank,
        num_nodes=identity.num_nodes,
        epoch=identity.epoch,
    )


def make_uploader(agent: Agent, store: CheckpointStore, wanted: Checkpoint) -> Uploader:
    """Brings what the job writes to the store, and tells the service."""

    def uploaded(manifest: Manifest) -> None:
        key = manifest_key(wanted.prefix, manifest.name, manifest.rank)
        agent.courier.say(
            "/agent/v1/checkpoint", {"name": manifest.name, "bytes": manifest.size, "manifest": key}
        )

    return Uploader(
        store,
        agent.paths.checkpoint(wanted.path),
        agent.paths.uploads,
        agent.clock,
        agent.world.chance,
        gang=agent.identity.num_nodes > 1,
        uploaded=uploaded,
        warn=agent.warn,
    )


def _restore(agent: Agent) -> Path | None:
    """The directory of the newest checkpoint, None on a first run. The uploader is ready afterwards."""
    wanted = agent.job.checkpoint
    if wanted is None:
        return None
    directory = agent.paths.checkpoint(wanted.path)
    try:
        store, found = _read_store(agent, directory)
    except NoRoomError as error:
        raise disk_full(directory, "the checkpoint", error.needed) from error
    except OSError as error:
        if is_disk_full(error):
            raise disk_full(directory, "the checkpoint does not fit;") from error
        raise JobError(ExitReason.RESTORE_FAILED, f"restore: {error}") from error
    except (StoreError, GangDamageError) as error:
        raise JobError(ExitReason.RESTORE_FAILED, f"restore: {error}") from error
    agent.uploader = make_uploader(agent, store, wanted)
    if found is None:
        return None
    name, place = found
    agent.uploader.skip(place)
    agent.spool.note(f"going on from checkpoint {name}")
    agent.remember(restored=name)
    return place


def _read_store(agent: Agent, directory: Path) -> tuple[CheckpointStore, tuple[str, Path] | None]:
    """A store that cannot be read is no reason to start from nothing: try again, then fail."""
    backoff = Backoff(agent.world.chance, ceiling=30.0)
    for left in reversed(range(_STORE_TRIES)):
        try:
            store = checkpoint_store(agent)
            assert store is not None  # noqa: S101 - the job has a checkpoint
            return store, store.restore(directory, agent.warn, agent.orders.halted)
        except CancelledError:
            raise HaltedError from None
        except StoreError as error:
            if not left:
                raise
            log.warning("restore: %s", error)
            agent.wait_out(backoff.failed())
    raise AssertionError  # the last try returns or raises


def _start(agent: Agent, start: StartOrder, restored: Path | None) -> None:
    inside = checkpoint_inside(agent)
    variables = environment.given(agent.job, start, inside)
    if restored is not None and inside is not None:
        variables["CORRAL_RESTORED_CHECKPOINT"] = str(PurePosixPath(inside, restored.name))
    command = job_command(agent, "run", agent.job.run, variables)
    if agent.orders.halted.is_set():
        raise HaltedError
    agent.remember(ran=True, ran_at=agent.clock.monotonic())
    agent.stage = agent.start_stage("run", command)
    if agent.uploader is not None:
        agent.uploader.start()
    agent.courier.say("/agent/v1/started", {"restored": agent.identity.restored})
