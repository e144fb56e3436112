"""Subnets to launch into, and the addresses that machines got there."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from clock import Clock
from providers.azure.arm import Arm, same_place
from providers.azure.versions import NETWORK
from providers.config import RegionConfig
from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import Scope

# Subnets that Azure keeps for services of its own.
RESERVED_SUBNETS = frozenset(
    {"azurebastionsubnet", "azurefirewallsubnet", "azurefirewallmanagementsubnet", "gatewaysubnet"}
)
FULL_FOR = 600.0  # seconds that a subnet without addresses is passed over
REMEMBERED = 4096  # addresses kept at most

Addresses = tuple[str | None, str | None]
"""Private, public."""


@dataclass(slots=True)
class _Full:
    subnet: str
    until: float


class Networks:
    """One account's subnets and addresses. Thread-safe."""

    def __init__(self, arm: Arm, clock: Clock) -> None:
        self._arm = arm
        self._clock = clock
        self._lock = threading.Lock()
        self._full: list[_Full] = []
        self._found: dict[str, str] = {}
        self._addresses: dict[str, Addresses] = {}

    def subnet(self, region: str, settings: RegionConfig) -> str:
        """The subnet for the next launch: the first of the settings' that has addresses, else the only one
        of the resource group in the region. Azure has no default network.
        """
        if not settings.subnets:
            return self._only_subnet(region)
        with self._lock:
            now = self._clock.monotonic()
            self._full = [entry for entry in self._full if entry.until > now]
            full = {entry.subnet for entry in self._full}
        return next((one for one in settings.subnets if one not in full), settings.subnets[0])

    def subnet_is_full(self, subnet: str | None) -> None:
        """Pass a subnet over for a while, where there is another one."""
        if subnet is not None:
            with self._lock:
                self._full.append(_Full(subnet, self._clock.monotonic() + FULL_FOR))

    def addresses(self, vm: Mapping[str, Any]) -> Addresses:
        """A machine's addresses, from its first network card; asked for until both are known.

        They are no part of a machine's own answer. None where there is none yet, or it cannot be read.
        """
        cards = ((vm.get("properties") or {}).get("networkProfile") or {}).get("networkInterfaces") or ()
        card = str(cards[0].get("id") or "") if cards else ""
        if not card.startswith("/"):
            return None, None
        key = f"{(vm['properties'].get('vmId') or vm.get('id'))}"
        with self._lock:
            known = self._addresses.get(key)
        if known is not None:
            return known
        try:
            answer = self._arm.get(card, NETWORK, expand_="ipConfigurations/publicIPAddress")
        except ProviderError:
            return None, None
        found, complete = _addresses_of(answer)
        if complete:
            self._remember(key, found)
        return found

    def _remember(self, key: str, found: Addresses) -> None:
        with self._lock:
            if len(self._addresses) >= REMEMBERED:
                self._addresses.clear()
            self._addresses[key] = found

    def _only_subnet(self, region: str) -> str:
        if region in self._found:
            return self._found[region]
        networks = self._arm.pages(f"{self._arm.group}/providers/Microsoft.Network/virtualNetworks", NETWORK)
        subnets = [
            str(subnet["id"])
            for network in networks
            if same_place(str(network.get("location")), region)
            for subnet in (network.get("properties") or {}).get("subnets") or ()
            if str(subnet.get("name")).lower() not in RESERVED_SUBNETS
        ]
        if len(subnets) != 1:
            seen = "there are " + ", ".join(subnets) if subnets else "there is none"
            raise ProviderError(
                ErrorKind.INVALID_REQUEST,
                f"resource group {self._arm.group_name} has not exactly one subnet in {region} ({seen}): "
                f"name one in accounts.{self._arm.account}.regions.{region}.subnets",
                code="Subnet",
                scope=Scope("azure", self._arm.account, region),
            )
        self._found[region] = subnets[0]
        return subnets[0]


def _addresses_of(card: Mapping[str, Any]) -> tuple[Addresses, bool]:
    """The addresses, and whether there is no more to wait for."""
    configurations = (card.get("properties") or {}).get("ipConfigurations") or ()
    if not configurations:
        return (None, None), False
    facts = configurations[0].get("properties") or {}
    private = facts.get("privateIPAddress")
    address = facts.get("publicIPAddress")
    public = ((address or {}).get("properties") or {}).get("ipAddress")
    return (private, public), bool(private) and (address is None or bool(public))
