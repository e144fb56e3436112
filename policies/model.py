"""What a policy is shown and what it answers. Pure data over the providers' vocabulary."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from providers.vocabulary import Offer, OfferKey, Scope

MAX_RANKED = 20


class RunClass(StrEnum):
    """What kind of run a job is; the settings choose a policy by it."""

    CORE = "core"
    EXPLORATION = "exploration"
    PREPROCESSING = "preprocessing"


class SpotUse(StrEnum):
    """Whether a job may run on spot capacity, must, or must not. `force` is `only` for a job that a
    preemption would set back to its beginning.
    """

    AUTO = "auto"
    ONLY = "only"
    NEVER = "never"
    FORCE = "force"


@dataclass(frozen=True, slots=True)
class GpuNeed:
    """GPUs per node. `names` are canonical, any of them will do; empty means any. Memory per GPU in GB."""

    count: int
    names: tuple[str, ...] = ()
    min_memory_gb: float | None = None
    max_memory_gb: float | None = None


@dataclass(frozen=True, slots=True)
class Needs:
    """What each of the `nodes` must have at least. Memory in GiB. No GPU need means a CPU node will do.
    `fabric`: an interconnect of the type's own between nodes.
    """

    gpu: GpuNeed | None = None
    cpus: int = 0
    memory_gib: float = 0
    nodes: int = 1
    fabric: bool = False


Place = tuple[str, str, str]
"""Provider, region, zone."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a job runs. `pending` is what is left of its restart: time that is paid and makes no progress."""

    key: OfferKey
    pending: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class Job:
    """A job as a policy sees it. `max_price` is USD per node-hour.

    `waiting_since` is when it last began to wait for capacity. `allow` empty means everywhere.

    For jobs with a deadline: `work_left` is computing time, `restart` what each launch takes before it makes
    progress, `step` when the policy is asked again at the latest. `egress` is USD for moving the checkpoint
    from where it lies to a place, 0 where none is given. `money_left` is USD, None without a cap.

    `resumes`: a checkpoint carries its work over to another instance. `ran`: how long it has run where it is,
    in its placement's present attempt. `moves`: how often it was moved on purpose,
    `vain_moves`: to a machine that never got ready.
    """

    id: str
    run_class: RunClass
    needs: Needs
    submitted_at: datetime
    waiting_since: datetime
    priority: int = 0
    spot: SpotUse = SpotUse.AUTO
    spot_wait: timedelta = timedelta(0)
    max_price: float | None = None
    allow: tuple[Scope, ...] = ()
    deny: tuple[Scope, ...] = ()
    image: str | None = None
    deadline: datetime | None = None
    work_left: timedelta | None = None
    restart: timedelta = timedelta(0)
    step: timedelta = timedelta(minutes=1)
    egress: Mapping[Place, float] = field(default_factory=dict)
    money_left: float | None = None
    placement: Placement | None = None
    resumes: bool = False
    ran: timedelta = timedelta(0)
    moves: int = 0
    vain_moves: int = 0


@dataclass(frozen=True, slots=True)
class Block:
    """A scope that is avoided, by every job, until a time. `until` None: until something else lifts it.

    `kind` is the provider error's kind, `preempted`, or `trial` while one job is finding out for all.
    """

    scope: Scope
    kind: str
    since: datetime
    until: datetime | None
    code: str = ""
    message: str = ""


class Market(Protocol):
    """The market as one process sees it at one moment."""

    @property
    def offers(self) -> Iterable[Offer]:
        """Everything that is for sale to us."""

    @property
    def observations(self) -> Mapping[str, float]:
        """All that a policy remembers."""

    def block_of(self, offer: Offer, now: datetime, image: str | None = None, nodes: int = 1) -> Block | None:
        """What keeps so many nodes of an offer from being tried now with an image (None: the prebuilt one):
        the block that lasts longest, or a quota that is too small.
        """


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was seen of one spot offer: seconds with and without capacity, and how often that changed.

    `available` is what was seen last, at `seen`; `since` is when it was first seen so without a break.
    """

    available: bool
    since: datetime
    seen: datetime
    up_seconds: float = 0.0
    losses: float = 0.0
    down_seconds: float = 0.0
    gains: float = 0.0


class ObservedMarket(Market, Protocol):
    """A market with the memory of what became of tries, launches and instances."""

    @property
    def evidence(self) -> Mapping[OfferKey, Evidence]:
        """What was seen of spot offers; those never tried are missing."""


class Reason(StrEnum):
    """Why an offer was passed over, in the order in which they are looked for."""

    WRONG_GPU = "wrong_gpu"
    TOO_SMALL = "too_small"
    NO_FAST_NETWORK = "no_fast_network"
    NOT_ALLOWED = "not_allowed"
    SPOT_NOT_ALLOWED = "spot_not_allowed"
    SPOT_ONLY = "spot_only"
    ON_DEMAND_NOT_ALLOWED = "on_demand_not_allowed"
    RESERVED_NOT_ALLOWED = "reserved_not_allowed"
    PRICE_UNKNOWN = "price_unknown"
    PRICE_TOO_HIGH = "price_too_high"
    MAX_COST = "max_cost"
    WAITING_FOR_SPOT = "waiting_for_spot"
    BLOCKED = "blocked"
    NOT_WORTH_IT = "not_worth_it"


@dataclass(frozen=True, slots=True)
class Candidate:
    """One offer and what a policy makes of it. `rank` counts from 1 among those that can be tried now.

    `cost` is USD an hour of progress for all nodes, what restarts, losses and egress are expected to add
    included; `chance` the share of time that it can be had. None where the job could not use it.
    """

    offer: Offer
    rank: int | None = None
    reason: Reason | None = None
    detail: str = ""
    since: datetime | None = None
    until: datetime | None = None
    cost: float | None = None
    chance: float | None = None


@dataclass(frozen=True, slots=True)
class Launch:
    """Try these offers in this order, at most MAX_RANKED."""

    offers: tuple[Offer, ...]
    why: str
    deadline_at_risk: bool = False


@dataclass(frozen=True, slots=True)
class Probe:
    """Start an instance on one of these only to learn whether there is capacity."""

    offers: tuple[Offer, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing can be tried now. `until` is the first moment at which that may change by itself."""

    until: datetime | None
    why: str
    counts: Mapping[str, int] = field(default_factory=dict)
    deadline_at_risk: bool = False


@dataclass(frozen=True, slots=True)
class Stay:
    """The job is well where it is."""

    why: str
    deadline_at_risk: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    """Start a replacement on one of these and let the running attempt go."""

    offers: tuple[Offer, ...]
    why: str
    deadline_at_risk: bool = False


@dataclass(frozen=True, slots=True)
class Stop:
    """The job should not go on."""

    why: str
    deadline_at_risk: bool = False


Decision = Launch | Probe | Wait | Stay | Move | Stop


def key_order(key: OfferKey) -> tuple[str, ...]:
    """A total order among equals, so that the same input gives the same output."""
    return (
        key.provider,
        key.account,
        key.region,
        key.zone,
        key.instance_type,
        key.capacity_type,
        key.reservation or "",
    )
