"""What a node remembers across restarts: who it is, what it works on, what it finished last."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agent.durable import read_json, write_json


@dataclass(frozen=True, slots=True)
class NodePaths:
    """Places below `root`. Everything of an attempt lies below `attempt`, so that it can be removed whole."""

    root: Path

    @property
    def registration(self) -> Path:
        return self.root / "etc/corral/node.json"

    @property
    def memory(self) -> Path:
        return self.root / "var/lib/corral-node/memory.json"

    @property
    def attempt(self) -> Path:
        """What the attempt's agent takes for `/`."""
        return self.root / "var/lib/corral-node/attempt"


@dataclass(frozen=True, slots=True)
class Registration:
    """What enrolment gave; root only. `ca`: a private certificate authority, PEM."""

    service_url: str
    session: str
    node: str
    ca: str | None = None


@dataclass(frozen=True, slots=True)
class Memory:
    """`use`, `claim_code`: what is worked on, begun in boot `boot_id`. `done`: the last use of which nothing
    is left here.
    """

    use: str | None = None
    claim_code: str | None = None
    boot_id: str | None = None
    done: str | None = None


def load_registration(paths: NodePaths) -> Registration | None:
    """None where this machine has not enrolled, or says so in words of another version."""
    found: Registration | None = _loaded(Registration, paths.registration)
    return found


def save_registration(paths: NodePaths, registration: Registration) -> None:
    write_json(paths.registration, asdict(registration))


def load_memory(paths: NodePaths) -> Memory:
    return _loaded(Memory, paths.memory) or Memory()


def save_memory(paths: NodePaths, memory: Memory) -> None:
    write_json(paths.memory, asdict(memory))


def _loaded(kind: Any, path: Path) -> Any:
    value = read_json(path)
    try:
        return kind(**value) if isinstance(value, dict) else None
    except TypeError:
        return None
