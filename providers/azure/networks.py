"""Subnets to launch into, and the addresses that machines got there."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
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
ONE_BY_ONE = 10  # machines up to which each is asked for

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

    def has_subnet(self, region: str, settings: RegionConfig) -> bool:
        """False where a launch would find no subnet to be in; unknown counts as true."""
        try:
            self.subnet(region, settings)
        except ProviderError as error:
            return error.kind is not ErrorKind.INVALID_REQUEST
        return True

    def subnet_is_full(self, subnet: str | None) -> None:
        """Pass a subnet over for a while, where there is another one."""
        if subnet is not None:
            with self._lock:
                self._full.append(_Full(subnet, self._clock.monotonic() + FULL_FOR))

    def addresses(self, vm: Mapping[str, Any]) -> Addresses:
        """A machine's addresses, from its first network card; asked for until both are known.

        They are no part of a machine's own answer. None where there is none yet, or it cannot be read.
        """
        card, key = _card_of(vm), _key_of(vm)
        if card is None:
            return None, None
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

    def learn(self, machines: Sequence[Mapping[str, Any]]) -> None:
        """Read the addresses of many machines in two listings, where they are not known yet."""
        with self._lock:
            cards = {_card_of(vm): _key_of(vm) for vm in machines if _key_of(vm) not in self._addresses}
        wanted = {card.lower(): key for card, key in cards.items() if card is not None}
        if len(wanted) <= ONE_BY_ONE:
            return
        home = f"{self._arm.group}/providers/Microsoft.Network"
        try:
            rows = self._arm.pages(f"{home}/networkInterfaces", NETWORK)
            public = {
                str(row.get("id")).lower(): row
                for row in self._arm.pages(f"{home}/publicIPAddresses", NETWORK)
            }
        except ProviderError:
            return  # each is then asked for
        for row in rows:
            key = wanted.get(str(row.get("id")).lower())
            found, complete = _addresses_of(row, public)
            if key is not None and complete:
                self._remember(key, found)

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


def _card_of(vm: Mapping[str, Any]) -> str | None:
    """The id of a machine's first network card."""
    cards = ((vm.get("properties") or {}).get("networkProfile") or {}).get("networkInterfaces") or ()
    card = str(cards[0].get("id") or "") if cards else ""
    return card if card.startswith("/") else None


def _key_of(vm: Mapping[str, Any]) -> str:
    """What tells a machine from an earlier one of the same name."""
    return str((vm.get("properties") or {}).get("vmId") or vm.get("id"))


def _addresses_of(
    card: Mapping[str, Any], listed: Mapping[str, Mapping[str, Any]] | None = None
) -> tuple[Addresses, bool]:
    """The addresses, and whether there is no more to wait for. listed: public addresses by id, where the card
    only names its own.
    """
    configurations = (card.get("properties") or {}).get("ipConfigurations") or ()
    if not configurations:
        return (None, None), False
    facts = configurations[0].get("properties") or {}
    private = facts.get("privateIPAddress")
    address = facts.get("publicIPAddress")
    if address and listed is not None:
        address = listed.get(str(address.get("id")).lower()) or address
    public = ((address or {}).get("properties") or {}).get("ipAddress")
    return (private, public), bool(private) and (address is None or bool(public))
