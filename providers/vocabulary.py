"""The words that policies, adapters and the service share. Data only: no I/O, no clock, no SDK."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any


class CapacityType(StrEnum):
    """How an instance is paid for, in the order a policy usually prefers."""

    RESERVED = "reserved"
    ON_DEMAND = "on_demand"
    SPOT = "spot"


@dataclass(frozen=True, slots=True)
class Accelerator:
    """GPUs of one instance: canonical name (`H100`, `A100-80GB`, `L4`), how many, GB of memory each.

    `link` is how they reach each other: `nvlink` or `pcie`; None where there is one, or where it is unknown.
    """

    name: str
    count: int
    memory_gb: float
    link: str | None = None


@dataclass(frozen=True, slots=True)
class InstanceType:
    """A size of one cloud, as the vendor names it. Memory and disk in GiB.

    `family` is what the vendor's quota counts by (EC2 `P`, GCE `NVIDIA_H100`, Azure
    `standardNDSH100v5Family`); `local_disk_gib` is the NVMe that comes with the instance. `fabric` is the
    interconnect between nodes that a gang can be given (`efa`, `gpudirect`, `infiniband`); None: a plain one.
    """

    name: str
    family: str
    vcpus: int
    memory_gib: float
    accelerator: Accelerator | None = None
    local_disk_gib: float = 0.0
    architecture: str = "x86_64"
    fabric: str | None = None


@dataclass(frozen=True, slots=True)
class OfferKey:
    """account × instance type × zone × capacity type; for reserved capacity also the reservation.

    `zone` is the cloud's own stable key (EC2: the zone *id*, `use1-az4`; GCE: `us-central1-a`; Azure:
    `eastus-1`, or the region itself for a zoneless placement).
    """

    provider: str
    account: str
    region: str
    zone: str
    instance_type: str
    capacity_type: CapacityType
    reservation: str | None = None

    def __str__(self) -> str:
        return f"{self.provider}/{self.zone}/{self.instance_type}/{self.capacity_type}"


@dataclass(frozen=True, slots=True)
class Offer:
    """Something that can be asked for. `price` is USD per instance-hour; None is unknown, never zero.

    `price_source` is `live`, or `snapshot` for the list prices that ship with the adapter. `built_in`:
    nothing was read of the place yet; it is shown to people and never launched on.
    """

    key: OfferKey
    type: InstanceType
    price: float | None
    priced_at: datetime | None = None
    price_source: str = "live"
    subnet: str | None = None
    built_in: bool = False


@dataclass(frozen=True, slots=True)
class Scope:
    """A partial offer key: it covers each offer that matches every field given. All None covers all."""

    provider: str | None = None
    account: str | None = None
    region: str | None = None
    zone: str | None = None
    instance_type: str | None = None
    family: str | None = None
    capacity_type: CapacityType | None = None
    reservation: str | None = None
    subnet: str | None = None
    image: str | None = None
    placement_group: str | None = None

    def covers(self, offer: Offer) -> bool:
        """True if every field given equals the offer's. An image or placement group is no part of an
        offer: a scope that names one covers the offers of the fields beside it.
        """
        key = offer.key
        pairs = (
            (self.provider, key.provider),
            (self.account, key.account),
            (self.region, key.region),
            (self.zone, key.zone),
            (self.instance_type, key.instance_type),
            (self.family, offer.type.family),
            (self.capacity_type, key.capacity_type),
            (self.reservation, key.reservation),
            (self.subnet, offer.subnet),
        )
        return all(mine is None or mine == theirs for mine, theirs in pairs)

    def given(self) -> dict[str, str]:
        """The fields that are set, in order, as text: what a person or a table row is shown."""
        return {name: str(getattr(self, name)) for name in SCOPE_FIELDS if getattr(self, name) is not None}


SCOPE_FIELDS = tuple(Scope.__dataclass_fields__)


def scope_from(given: Mapping[str, str]) -> Scope:
    """The scope that `given` wrote down."""
    fields: dict[str, Any] = dict(given)
    if "capacity_type" in fields:
        fields["capacity_type"] = CapacityType(fields["capacity_type"])
    return Scope(**fields)


@dataclass(frozen=True, slots=True)
class LaunchRequest:
    """All that a launch depends on. Persisted before it is sent and sent again unchanged, or not at all.

    `token` is ours, 32 hex digits, unique per attempt: EC2 takes it as ClientToken, the others find it
    in the deterministic names `corral-{token[:20]}-{node}`. `user_data` is the text of a #cloud-config.
    `image` and `subnet` are None until `Provider.prepare` has resolved them. `tags` keys and values use
    `[a-z0-9_-]`, at most 63 characters, so that every cloud takes them as they are.
    `max_age_seconds` is when the cloud itself may end the instances; None where there is no limit.
    `max_price` is the most that a spot instance may cost, USD an hour; the clouds that can keep to it do.
    `fabric`: the nodes are placed close together on the type's interconnect, or the launch is refused.
    """

    token: str
    offer: OfferKey
    nodes: int
    user_data: str
    tags: dict[str, str]
    disk_gib: int
    image: str | None = None
    subnet: str | None = None
    max_age_seconds: int | None = None
    max_price: float | None = None
    fabric: bool = False
    extra: dict[str, str] = field(default_factory=dict)

    def names(self) -> tuple[str, ...]:
        """One name per node, in rank order."""
        return tuple(f"corral-{self.token[:20]}-{node}" for node in range(self.nodes))

    def with_resolved(self, *, image: str, subnet: str | None, **extra: str) -> LaunchRequest:
        """The request with what `prepare` found out."""
        return replace(self, image=image, subnet=subnet, extra={**self.extra, **extra})


class InstanceState(StrEnum):
    """What a cloud says of an instance. `absent`: it was asked and knows no such instance (which may be
    read-after-write lag); `unknown`: it could not be asked, or said something we have no word for.
    """

    PENDING = "pending"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    TERMINATED = "terminated"
    ABSENT = "absent"
    UNKNOWN = "unknown"


class EndReason(StrEnum):
    """Why a cloud says an instance is ending or over."""

    PREEMPTED = "preempted"
    USER = "user"
    CAPACITY = "capacity"
    HOST_FAILURE = "host_failure"
    MAX_AGE = "max_age"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class InstanceRef:
    """Enough to ask a cloud about one instance of ours, kept in its row.

    `provider_id` is the EC2 instance id; on GCE and Azure the deterministic name. `operation` is the
    handle of a create that the cloud works on (GCE operation name, ARM operation URL).
    """

    region: str
    zone: str
    provider_id: str
    operation: str | None = None
    capacity_type: CapacityType = CapacityType.ON_DEMAND


@dataclass(frozen=True, slots=True)
class CloudInstance:
    """An instance as its cloud shows it. `error` is what a failed create would have raised at once."""

    provider_id: str
    region: str
    zone: str
    state: InstanceState
    name: str = ""
    node: int | None = None
    tags: dict[str, str] = field(default_factory=dict)
    instance_type: str = ""
    capacity_type: CapacityType | None = None
    created_at: datetime | None = None
    private_ip: str | None = None
    public_ip: str | None = None
    end_reason: EndReason | None = None
    detail: str = ""
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Launched:
    """A launch that the cloud accepted: one entry a node, in rank order, and the operation's handle."""

    instances: tuple[CloudInstance, ...]
    operation: str | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """Instances that carry our tags. `incomplete` names each place that could not be read: nothing may
    be concluded from an instance's absence there.
    """

    instances: tuple[CloudInstance, ...]
    incomplete: tuple[str, ...] = ()

    @property
    def complete(self) -> bool:
        return not self.incomplete


@dataclass(frozen=True, slots=True)
class OfferListing:
    """What a region sells to this account. `incomplete` as in Listing: old offers stay there."""

    offers: tuple[Offer, ...]
    incomplete: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One line of `corral check`: what was looked at, whether it is fine, what was seen, how to mend it."""

    subject: str
    ok: bool
    detail: str
    remedy: str = ""
