"""Who this instance is to the service, kept so that a restart comes back as the same one."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from agent.durable import read_json, write_json
from agent.paths import Paths


@dataclass(frozen=True, slots=True)
class Identity:
    """What hello gave, and how far this instance got.

    attempt: of the claim code. boot_id: the boot that said hello. born: monotonic seconds at hello, good
    within that boot. ran: a job was started under `boot_id`, at `ran_at` (monotonic). restored: the
    checkpoint it was given.
    """

    attempt: str
    instance_id: str
    boot_id: str
    session: str
    epoch: int
    rank: int
    num_nodes: int
    heartbeat_seconds: float
    max_age_seconds: float
    born: float
    ran: bool = False
    ran_at: float = 0.0
    restored: str | None = None


def load(paths: Paths, attempt: str) -> Identity | None:
    """The identity of an earlier start for this very attempt; None if there is none."""
    value: Any = read_json(paths.identity)
    try:
        identity = Identity(**value) if value else None
    except TypeError:  # of another version of the agent
        return None
    return identity if identity and identity.attempt == attempt else None


def save(paths: Paths, identity: Identity) -> None:
    """Root only: it holds the session."""
    write_json(paths.identity, asdict(identity))
