"""The scenario file: what the local clouds hold, cost and allow, how fast they are, and what happens when.

    seed: 7
    default_capacity: 4
    aws: {boot_seconds: 20, notice_seconds: 120}
    capacity:
      - {provider: aws, instance_type: "p5.*", capacity_type: spot, count: 0}
    prices:
      - {provider: gcp, region: us-central1, instance_type: a3-highgpu-8g, capacity_type: spot, price: 30.0}
    quotas:
      - {provider: azure, region: eastus, name: lowPriorityCores, limit: 96}
    quota_reviews:
      - {provider: aws, name: "P/*", verdict: partly_granted, decided: 7200}
    reservations:
      - {provider: gcp, name: paid, zone: us-central1-a, instance_type: a3-highgpu-8g, count: 2}
    events:
      - {do: preempt, when: {provider: aws, capacity_type: spot, for: 30}}
      - {do: fault, at: 0, provider: aws, call: RunInstances, action: error, code: InternalError, times: 2}

All seconds are the sandbox clock's. An unknown key, zone, type or region is an error that names it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from sandbox.catalogue import PROVIDERS, catalogue
from sandbox.faults import Action, Fault, FaultRule
from sandbox.quota_reviews import ReviewRule
from sandbox.reservations import ReservationRule

ProviderName = Literal["aws", "gcp", "azure"]
CapacityName = Literal["on_demand", "spot"]
Seconds = Annotated[float, Field(ge=0, le=10_000_000)]
_WILD = frozenset("*?[")


class ScenarioError(ValueError):
    """The scenario cannot be used; the text says where and what is allowed."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Timings(_Strict):
    """How fast one provider is, in seconds of the sandbox's clock.

    boot_seconds: from the create to a running guest. boot_jitter: the share by which a boot may be faster or
    slower. api_latency_seconds: before each answer. verdict_seconds: until an operation of GCE or ARM ends.
    terminate_seconds: from the order to the end. list_lag_seconds: how long reads may deny a new instance.
    notice_seconds: between a preemption notice and the end.
    """

    boot_seconds: Seconds = 20.0
    boot_jitter: float = Field(default=0.0, ge=0, le=1)
    api_latency_seconds: Seconds = 0.0
    verdict_seconds: Seconds = 2.0
    terminate_seconds: Seconds = 5.0
    list_lag_seconds: Seconds = 0.0
    notice_seconds: Seconds = 30.0


class Where(_Strict):
    """A partial key: each field given must match, `*` and `?` allowed. A zone by key or by name."""

    provider: ProviderName | None = None
    region: str | None = None
    zone: str | None = None
    instance_type: str | None = None
    capacity_type: CapacityName | None = None

    @model_validator(mode="after")
    def _known(self) -> Self:
        providers = (self.provider,) if self.provider else PROVIDERS
        tables = [catalogue(name) for name in providers]
        _must_exist("region", self.region, [name for table in tables for name in table.regions])
        _must_exist("instance_type", self.instance_type, [name for table in tables for name in table.types])
        names = [text for table in tables for zone in table.zones.values() for text in (zone.key, zone.name)]
        _must_exist("zone", self.zone, [name for name in names if name])
        return self


def _must_exist(field: str, text: str | None, known: list[str]) -> None:
    if text is None or _WILD & set(text) or text in known:
        return
    raise ValueError(f"{field} {text!r} is in no catalogue; known: {', '.join(sorted(set(known)))}")


class CapacityRule(Where):
    """How many instances each pool that matches can hold. A later rule wins over an earlier one."""

    count: int = Field(ge=0)


class PricedWhere(Where):
    """A partial key for prices, which only EC2 sets by zone."""

    @model_validator(mode="after")
    def _by_zone_on_ec2_only(self) -> Self:
        if self.zone is not None and self.provider != "aws":
            raise ValueError("prices differ by zone on aws only: name provider aws, or give a region instead")
        return self


class PriceRule(PricedWhere):
    """USD per hour of each pool that matches."""

    price: float = Field(gt=0)


class QuotaRule(_Strict):
    """The limit of a quota. Names are `G/on_demand` and `G/spot` on aws, the metric on gcp
    (`PREEMPTIBLE_NVIDIA_L4_GPUS`, `GPUS_PER_GPU_FAMILY/NVIDIA_H100`, `GPUS_ALL_REGIONS`), the usage's name on
    azure (`cores`, `lowPriorityCores`, `virtualMachines`, `IPv4StandardSkuPublicIpAddresses`, a family); `*`
    allowed.
    """

    provider: ProviderName
    region: str = "*"
    name: str
    limit: float = Field(ge=0)


class When(Where):
    """The `nth` instance that matches and has been in `state` for that long; `each` is every one."""

    state: Literal["created", "running"] = "running"
    seconds: Seconds = Field(default=0.0, alias="for")
    nth: Annotated[int, Field(ge=1)] | Literal["each"] = 1


class _Event(_Strict):
    """When: `at` seconds after the start, or `when` an instance matches."""

    at: Seconds | None = None
    when: When | None = None

    @model_validator(mode="after")
    def _once(self) -> Self:
        if (self.at is None) == (self.when is None):
            raise ValueError("an event needs either `at` or `when`")
        return self


class Preempt(_Event):
    """The cloud takes an instance back: the one of `when`, else one that `where` names (chosen by the seed).

    notice: False ends it at once. notice_seconds: instead of the provider's own.
    """

    do: Literal["preempt"]
    where: Where = Where()
    notice: bool = True
    notice_seconds: Seconds | None = None


class Kill(_Event):
    """The host dies without a word. seen: False leaves the instance as it was in the cloud's eyes."""

    do: Literal["kill"]
    where: Where = Where()
    seen: bool = True


class SetCapacity(_Event):
    do: Literal["capacity"]
    where: Where = Where()
    count: int = Field(ge=0)


class SetPrice(_Event):
    do: Literal["price"]
    where: PricedWhere = PricedWhere()
    price: float = Field(gt=0)


class SetQuota(_Event):
    do: Literal["quota"]
    provider: ProviderName
    region: str = "*"
    name: str
    limit: float = Field(ge=0)


class SetReservation(_Event):
    """Capacity is set aside, or a reservation's terms change; its times count from the event."""

    do: Literal["reservation"]
    reservation: ReservationRule


class SetFault(_Event):
    """Calls of `provider` that match go wrong as `sandbox.faults.Fault` says.

    effect: None is the action's own (a dropped reply and a hang are carried out, an error is not). match:
    request parameters, `*` allowed: on EC2 those of the query (`Placement.AvailabilityZone`) with Region and
    Service, elsewhere path, query and body in dotted form (`properties.hardwareProfile.vmSize`). skip: so
    many go well first. times: so many go wrong then, null for all.
    """

    do: Literal["fault"]
    provider: ProviderName
    call: str
    action: Action
    code: str = ""
    http_status: int = Field(default=500, ge=100, le=599)
    message: str = ""
    seconds: Seconds = 0.0
    retry_after: Seconds | None = None
    value: str = ""
    effect: bool | None = None
    match: dict[str, str] = {}
    times: Annotated[int, Field(ge=1)] | None = 1
    skip: int = Field(default=0, ge=0)

    def rule(self) -> FaultRule:
        """The rule that the world works with, counters unspent."""
        effect = self.action in ("drop_reply", "hang") if self.effect is None else self.effect
        fault = Fault(
            action=self.action,
            code=self.code,
            http_status=self.http_status,
            message=self.message,
            seconds=self.seconds,
            retry_after=self.retry_after,
            value=self.value,
            effect=effect,
        )
        return FaultRule(self.provider, self.call, fault, dict(self.match), self.times, self.skip)


class Restore(_Event):
    """Undo what events and the control API have set: capacity and prices within `where`, all quotas and
    faults of its provider.
    """

    do: Literal["restore"]
    where: Where = Where()
    what: tuple[Literal["capacity", "price", "quota", "fault"], ...] = ("capacity", "price", "quota", "fault")


Event = Annotated[
    Preempt | Kill | SetCapacity | SetPrice | SetQuota | SetReservation | SetFault | Restore,
    Field(discriminator="do"),
]


class SpotPrices(_Strict):
    """Spot prices move: every so often each pool's is drawn anew within `spread` of its list price."""

    every_seconds: float = Field(default=3600.0, gt=0)
    spread: float = Field(default=0.1, ge=0, le=0.9)


class Interruptions(_Strict):
    """Spot instances live for a random time: preemptions per instance and hour, by provider."""

    aws: float = Field(default=0.0, ge=0)
    gcp: float = Field(default=0.0, ge=0)
    azure: float = Field(default=0.0, ge=0)


class Scenario(_Strict):
    """A whole scenario; the defaults are three calm, well-stocked clouds."""

    seed: int = 0
    default_capacity: int = Field(default=8, ge=0)
    aws: Timings = Timings(verdict_seconds=0.0, notice_seconds=120.0)
    gcp: Timings = Timings()
    azure: Timings = Timings()
    capacity: tuple[CapacityRule, ...] = ()
    prices: tuple[PriceRule, ...] = ()
    quotas: tuple[QuotaRule, ...] = ()
    quota_reviews: tuple[ReviewRule, ...] = ()
    reservations: tuple[ReservationRule, ...] = ()
    spot_prices: SpotPrices | None = None
    interruptions: Interruptions = Interruptions()
    events: tuple[Event, ...] = ()

    @field_validator("aws", mode="before")
    @classmethod
    def _own_defaults(cls, value: Any) -> Any:
        """EC2 answers at once and gives two minutes' notice, whatever else the file says of it."""
        return {"verdict_seconds": 0.0, "notice_seconds": 120.0} | value if isinstance(value, dict) else value

    def timings(self, provider: str) -> Timings:
        """How fast that provider is."""
        timings: Timings = getattr(self, provider)
        return timings

    @classmethod
    def load(cls, path: Path) -> Scenario:
        """Read a file; ScenarioError says what is wrong in which field."""
        try:
            data = yaml.safe_load(path.read_text("utf-8"))
        except OSError as error:
            raise ScenarioError(f"scenario {path}: {error.strerror}") from error
        except (UnicodeDecodeError, yaml.YAMLError) as error:
            raise ScenarioError(f"scenario {path}: {error}") from error
        return cls.parse(data, str(path))

    @classmethod
    def parse(cls, data: Any, source: str = "scenario") -> Scenario:
        """Check plain data, as YAML or JSON gives it."""
        try:
            return cls.model_validate({} if data is None else data)
        except ValidationError as error:
            raise ScenarioError(f"{source}: {describe(error)}") from error


def describe(error: ValidationError) -> str:
    """What pydantic found, one short sentence per field."""
    return "; ".join(_sentence(item["loc"], item["msg"], item["type"]) for item in error.errors())


def _sentence(location: tuple[int | str, ...], message: str, kind: str) -> str:
    where = ".".join(str(part) for part in location) or "the whole"
    if kind == "extra_forbidden":
        return f"{where}: unknown key"
    return f"{where}: {message.removeprefix('Value error, ')}"
