"""The canonical job spec: one spelling, strict. What users may write besides is in `service.jobs.aliases`."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from policies.model import RunClass, SpotUse

MAX_NODES = 64
MAX_ENV_BYTES = 64 * 1024
MAX_SCRIPT_BYTES = 256 * 1024
DEFAULT_GRACE_SECONDS = 25
DEFAULT_CHECKPOINT_GIB = 50.0

Name = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9._-]{0,62}[a-z0-9])?$", max_length=64)]
EnvName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Place = Annotated[
    str,
    Field(
        pattern=r"^(aws|gcp|azure|memory|standing)(/[a-z0-9-]+(/[a-zA-Z0-9-]+)?)?$",
        examples=["aws", "gcp/us-central1"],
    ),
]


class Part(BaseModel):
    """Unknown fields are refused; a spec does not change once it is made."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Gpu(Part):
    """GPUs per node. `name`: any of these canonical names; empty means any GPU. Memory per GPU in GB."""

    name: tuple[str, ...] = ()
    count: int = Field(default=1, ge=1, le=16)
    min_memory_gb: float | None = Field(default=None, gt=0, le=1024)
    max_memory_gb: float | None = Field(default=None, gt=0, le=1024)


class Network(StrEnum):
    """How the nodes of a gang reach each other: by whatever there is, or over the type's own interconnect."""

    ANY = "any"
    FAST = "fast"


class Resources(Part):
    """What each node needs at least; memory and disk in GiB."""

    gpu: Gpu | None = None
    cpus: int = Field(default=0, ge=0, le=1024)
    memory_gib: float = Field(default=0, ge=0, le=32768)
    disk_gib: int = Field(default=100, ge=20, le=16384)
    nodes: int = Field(default=1, ge=1, le=MAX_NODES)
    network: Network = Network.ANY

    @model_validator(mode="after")
    def _network_connects_nodes(self) -> Self:
        if self.network is Network.FAST and self.nodes < 2:
            raise ValueError("network: fast connects the nodes of a gang; ask for 2 nodes or more")
        return self


class Spot(Part):
    """Whether to run on spot capacity, and for how many seconds to insist on it before paying on-demand.
    `wait_seconds` 0 leaves the wait to the rule.
    """

    use: SpotUse = SpotUse.AUTO
    wait_seconds: int = Field(default=0, ge=0, le=30 * 86400)


class Checkpoint(Part):
    """`path`: where the job writes, absolute. `to`: the store that keeps them. `grace_seconds`: what the job
    needs between SIGTERM and its last checkpoint. `size_gib`: how large one is, for what moving it costs.
    """

    path: str = Field(pattern=r"^/[^\n\x00]*$", max_length=255)
    to: str = Field(min_length=1, max_length=1024)
    grace_seconds: int = Field(default=DEFAULT_GRACE_SECONDS, ge=1, le=3600)
    size_gib: float = Field(default=DEFAULT_CHECKPOINT_GIB, ge=0, le=100_000)

    @field_validator("to")
    @classmethod
    def _known_store(cls, value: str) -> str:
        if value == "storage":
            return value
        if not re.fullmatch(r"((s3|gs|az)://|file:///)\S+", value):
            raise ValueError(
                "allowed: storage (the service's store for checkpoints), s3://…, gs://…, az://… or file:///…"
            )
        if re.search(r"://[^/]*@|[?#]", value):
            raise ValueError("names a bucket or folder only; credentials and options belong in the settings")
        if ".." in value.split("/"):
            raise ValueError("must not hold '..'")
        return value

    @field_validator("path")
    @classmethod
    def _is_a_folder(cls, value: str) -> str:
        parts = [part for part in value.split("/") if part not in ("", ".")]
        if not parts or ".." in parts:
            raise ValueError("must be a folder below /, without '..'")
        return value


class Retry(Part):
    """How often an attempt may be repeated, by why it ended. `exit_codes`: failures with these are always
    worth another try, within `failed` plus 100.
    """

    preempted: int = Field(default=100, ge=0, le=1000)
    lost: int = Field(default=10, ge=0, le=1000)
    boot_failed: int = Field(default=3, ge=0, le=100)
    failed: int = Field(default=0, ge=0, le=100)
    exit_codes: tuple[Annotated[int, Field(ge=1, le=255)], ...] = ()


class File(Part):
    """A file for the job: uploaded bytes by hash, at a path that is relative to the job's directory."""

    path: str = Field(pattern=r"^[^/\n\x00][^\n\x00]*$", max_length=255)
    sha256: Sha256

    @field_validator("path")
    @classmethod
    def _stays_inside(cls, value: str) -> str:
        if ".." in value.split("/"):
            raise ValueError("must stay inside the job's directory: no '..'")
        return value


class Git(Part):
    """A repository to clone into the job's directory."""

    url: str = Field(pattern=r"^(https://|ssh://|git@)[^\s]+$", max_length=1024)
    ref: str = Field(default="HEAD", pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]{0,254}$|^HEAD$")


class JobSpec(Part):
    """A job. Durations in seconds, money in USD.

    duration: how long the work takes on what it asks for, without interruptions. deadline: when it should be
    done. max_cost: what all its attempts together may cost.
    """

    name: Name
    run_class: RunClass = Field(default=RunClass.EXPLORATION, alias="class")
    resources: Resources = Resources()
    image: str | None = Field(default=None, max_length=512)
    container: str | None = Field(default=None, max_length=512, pattern=r"^[^\s]+$")
    setup: str | None = Field(default=None, max_length=MAX_SCRIPT_BYTES)
    run: str = Field(min_length=1, max_length=MAX_SCRIPT_BYTES)
    env: dict[EnvName, str] = Field(default_factory=dict)
    secrets: tuple[EnvName, ...] = ()
    files: tuple[File, ...] = ()
    workdir: Sha256 | None = None
    git: Git | None = None
    checkpoint: Checkpoint | None = None
    duration_seconds: int | None = Field(default=None, ge=60, le=365 * 86400)
    deadline: datetime | None = None
    max_duration_seconds: int | None = Field(default=None, ge=60, le=365 * 86400)
    max_cost: float | None = Field(default=None, gt=0, le=10_000_000)
    max_price: float | None = Field(default=None, gt=0, le=10_000)
    priority: int = Field(default=0, ge=-100, le=100)
    spot: Spot = Spot()
    allow: tuple[Place, ...] = ()
    deny: tuple[Place, ...] = ()
    retry: Retry = Retry()
    labels: dict[Annotated[str, Field(pattern=r"^[a-z0-9_-]{1,63}$")], str] = Field(default_factory=dict)

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    @field_validator("env")
    @classmethod
    def _env_fits(cls, value: dict[str, str]) -> dict[str, str]:
        size = sum(len(name) + len(text.encode()) for name, text in value.items())
        if size > MAX_ENV_BYTES:
            raise ValueError(f"{size} bytes; at most {MAX_ENV_BYTES} bytes of names and values together")
        return value

    @field_validator("deadline")
    @classmethod
    def _in_utc(cls, value: datetime | None) -> datetime | None:
        if value is not None and value.tzinfo is None:
            raise ValueError("has no offset; write for example 2030-05-01T18:00:00Z")
        return None if value is None else value.astimezone(UTC)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.workdir and self.git:
            raise ValueError("give workdir or git, not both")
        clash = set(self.env) & set(self.secrets)
        if clash:
            raise ValueError(f"{', '.join(sorted(clash))} stands in both env and secrets")
        if self.deadline is not None and self.duration_seconds is None:
            raise ValueError("a deadline needs duration: how long the work takes without interruptions")
        return self
