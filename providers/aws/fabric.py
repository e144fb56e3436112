"""Elastic Fabric Adapters: which network cards a type has, and the interfaces that a node of a gang gets.

The first card's first interface is a plain one and has the address; every card that can has one EFA-only
interface, which takes none. [EC2 User Guide, "Maximize network bandwidth on Amazon EC2 instances with
multiple network cards" and "Elastic Fabric Adapter"]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from providers.config import RegionConfig
from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import InstanceType, LaunchRequest, Scope

EFA = "efa"
CLUSTER = "cluster"
_KINDS = ("efa-only", "efa")
"""In the order of preference: an address fewer is used up by the first."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """An EFA interface: on which card, as which device of it, `efa-only` or `efa`."""

    card: int
    device: int
    kind: str


def adapters(raw: Mapping[str, Any]) -> tuple[Adapter, ...]:
    """The EFA interfaces of a type as DescribeInstanceTypes has it; none if it cannot be placed closely."""
    network = raw.get("NetworkInfo", {})
    close = CLUSTER in raw.get("PlacementGroupInfo", {}).get("SupportedStrategies", ())
    if not close or not network.get("EfaSupported"):
        return ()
    most = network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 1)
    return tuple(_on_cards(network))[:most]


def _on_cards(network: Mapping[str, Any]) -> Iterator[Adapter]:
    cards = network.get("NetworkCards") or [{"NetworkCardIndex": 0}]
    for card in sorted(cards, key=lambda card: int(card["NetworkCardIndex"])):
        index = int(card["NetworkCardIndex"])
        able = card.get("InterfaceTypes") or _KINDS[1:]
        kind = next((kind for kind in _KINDS if kind in able), None)
        if kind is not None:
            yield Adapter(index, 1 if index == 0 else 0, kind)


def fitted(config: RegionConfig, type_: InstanceType) -> InstanceType:
    """The type as a region's settings leave it: without fabric where instances are to have public addresses,
    which EC2 gives to none with several interfaces.
    """
    return replace(type_, fabric=None) if config.public_address else type_


def written(layout: tuple[Adapter, ...]) -> str:
    """The interfaces as a prepared request keeps them."""
    return " ".join(f"{one.card}.{one.device}.{one.kind}" for one in layout)


def read(text: str) -> tuple[Adapter, ...]:
    """What `written` wrote."""
    parts = (one.split(".") for one in text.split())
    return tuple(Adapter(int(card), int(device), kind) for card, device, kind in parts)


def refuse_without(
    request: LaunchRequest, layout: tuple[Adapter, ...], *, public_address: bool, subject: Scope
) -> None:
    """Raise ProviderError (unsupported) where a launch with fabric could not be had as it was asked for. It
    says nothing about launches without, so nothing is avoided.
    """
    name = request.offer.instance_type
    problem = None
    if not layout:
        problem = f"{name} has no Elastic Fabric Adapter; ask for a type with one, or without `fabric`"
    elif public_address:
        problem = (
            f"EC2 gives no public address to an instance with several interfaces: for `fabric`, list subnets "
            f"behind NAT for {request.offer.region} and set its public_address to false"
        )
    if problem is not None:
        raise ProviderError(ErrorKind.UNSUPPORTED, problem, scope=subject, avoid_for=timedelta(0))
