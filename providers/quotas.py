"""What limits an account: quotas, in the cloud's own unit, and the offers that each one gates."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from providers.vocabulary import InstanceType, Offer, Scope


class QuotaUnit(StrEnum):
    """What a quota counts."""

    VCPU = "vcpu"
    GPU = "gpu"
    INSTANCE = "instance"


@dataclass(frozen=True, slots=True)
class Quota:
    """One limit of one account, as its cloud reported it at `read_at`.

    key: the vendor's own stable key (EC2 `L-417A185B`, GCE `PREEMPTIBLE_NVIDIA_H100_GPUS`, Azure
    `standardNDSH100v5Family`); name: the vendor's words. region None: it holds over the whole account.
    limit, usage: in `unit`; None is unknown, which is neither zero nor endless. gates: the offers that draw
    on it are those that any of these scopes covers. adjustable: whether an increase can be asked for.
    """

    key: str
    name: str
    region: str | None
    unit: QuotaUnit
    limit: float | None
    usage: float | None
    gates: tuple[Scope, ...]
    read_at: datetime
    adjustable: bool | None = None

    def covers(self, offer: Offer) -> bool:
        """True if the offer draws on this quota."""
        return any(scope.covers(offer) for scope in self.gates) and needed(self.unit, offer.type, 1) > 0


@dataclass(frozen=True, slots=True)
class QuotaListing:
    """The quotas of a region that matter to what is offered there, account-wide ones included.

    `incomplete` names what could not be read: older readings of it stand.
    """

    quotas: tuple[Quota, ...]
    incomplete: tuple[str, ...] = ()


def needed(unit: QuotaUnit, type_: InstanceType, nodes: int) -> float:
    """How much of a quota some instances of a type draw, in its unit."""
    if unit is QuotaUnit.VCPU:
        return type_.vcpus * nodes
    if unit is QuotaUnit.GPU:
        return (type_.accelerator.count if type_.accelerator else 0) * nodes
    return nodes
