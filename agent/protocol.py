"""The messages of `docs/agent-protocol.md`, version 1, as this side reads them."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

VERSION = 1
LOG_BATCH_BYTES = 256 * 1024


class ProtocolError(Exception):
    """The service said something that this version does not understand."""


class Directive(StrEnum):
    """What the service wants."""

    WAIT = "wait"
    START = "start"
    CONTINUE = "continue"
    DRAIN = "drain"
    STOP = "stop"
    END = "end"


class ExitReason(StrEnum):
    """Why the job is over, in the protocol's words."""

    EXITED = "exited"
    PREEMPTED = "preempted"
    STOPPED = "stopped"
    SETUP_FAILED = "setup_failed"
    MAX_DURATION = "max_duration"
    DISK_FULL = "disk_full"
    RESTORE_FAILED = "restore_failed"
    FILES_FAILED = "files_failed"
    LOST_BY_REBOOT = "lost_by_reboot"


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to a heartbeat, a notice or an exit."""

    directive: Directive
    epoch: int | None = None
    heartbeat_seconds: float | None = None
    node_ips: tuple[str, ...] = ()
    master_port: int | None = None
    grace_seconds: float | None = None
    reason: str | None = None

    @classmethod
    def parse(cls, value: dict[str, Any]) -> Reply:
        """A directive of a later version than this one is no order to act on: it counts as `continue`."""
        word = value.get("directive", Directive.CONTINUE)
        return cls(
            directive=Directive(word) if word in set(Directive) else Directive.CONTINUE,
            epoch=value.get("epoch"),
            heartbeat_seconds=value.get("heartbeat_seconds"),
            node_ips=tuple(value.get("node_ips") or ()),
            master_port=value.get("master_port"),
            grace_seconds=value.get("grace_seconds"),
            reason=value.get("reason"),
        )


@dataclass(frozen=True, slots=True)
class Blob:
    """Bytes that the service keeps, by hash; `url` is a path on the service."""

    sha256: str
    url: str
    path: str = ""


@dataclass(frozen=True, slots=True)
class Git:
    """A repository and the branch, tag or commit to check out."""

    url: str
    ref: str


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Where the job writes checkpoints, how long it needs after SIGTERM, and the store that keeps them."""

    path: str
    grace_seconds: float
    url: str
    options: dict[str, str]
    prefix: str


@dataclass(frozen=True, slots=True)
class Assignment:
    """What to run. Secrets stay out of what is written down (`without_secrets`)."""

    job_id: str
    job_name: str
    attempt_id: str
    rank: int
    num_nodes: int
    gpus_per_node: int
    run: str
    log_limit_bytes: int
    setup: str | None = None
    container: str | None = None
    env: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    files: tuple[Blob, ...] = ()
    workdir: Blob | None = None
    git: Git | None = None
    checkpoint: Checkpoint | None = None
    max_duration_seconds: float | None = None

    @classmethod
    def parse(cls, value: dict[str, Any]) -> Assignment:
        """ProtocolError names what is missing or of the wrong shape."""
        try:
            return cls(
                job_id=str(value["job_id"]),
                job_name=str(value["job_name"]),
                attempt_id=str(value["attempt_id"]),
                rank=int(value["rank"]),
                num_nodes=int(value["num_nodes"]),
                gpus_per_node=int(value["gpus_per_node"]),
                run=str(value["run"]),
                log_limit_bytes=int(value["log_limit_bytes"]),
                setup=value.get("setup"),
                container=value.get("container"),
                env=_texts(value.get("env")),
                secrets=_texts(value.get("secrets")),
                files=tuple(_blob(item) for item in value.get("files") or ()),
                workdir=_blob(value["workdir"]) if value.get("workdir") else None,
                git=Git(value["git"]["url"], value["git"].get("ref") or "HEAD") if value.get("git") else None,
                checkpoint=_checkpoint(value["checkpoint"]) if value.get("checkpoint") else None,
                max_duration_seconds=value.get("max_duration_seconds"),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ProtocolError(f"assignment: {type(error).__name__}: {error}") from error


def without_secrets(value: dict[str, Any]) -> dict[str, Any]:
    """An assignment as it may be kept for a restart of the agent: no environment, no secrets."""
    return {**value, "env": {}, "secrets": {}, "files": [], "workdir": None, "git": None}


def _texts(value: Any) -> dict[str, str]:
    return {str(name): str(text) for name, text in (value or {}).items()}


def _blob(value: dict[str, Any]) -> Blob:
    return Blob(sha256=value["sha256"], url=value["url"], path=value.get("path", ""))


def _checkpoint(value: dict[str, Any]) -> Checkpoint:
    store = value["store"]
    return Checkpoint(
        path=str(value["path"]),
        grace_seconds=float(value["grace_seconds"]),
        url=str(store["url"]),
        options=_texts(store.get("options")),
        prefix=str(value["prefix"]).strip("/"),
    )
