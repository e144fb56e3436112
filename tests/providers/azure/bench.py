"""The Azure adapter against the local Resource Manager, over HTTP and with the real SDK."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpx

from providers.azure.adapter import AzureProvider
from providers.config import AccountConfig
from providers.vocabulary import CapacityType, InstanceRef, Launched, LaunchRequest, OfferKey
from sandbox.catalogue import catalogue
from sandbox.reservations import ReservationRule
from sandbox.scenario import CapacityRule, QuotaRule
from tests.sandbox.arm_server import GROUP, SUBSCRIPTION, Azure, azure

SIZE = "Standard_NC24ads_A100_v4"
IMAGE = (
    f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers/Microsoft.Compute/galleries/corral"
    "/images/corral"
)
DEPLOYMENT = "d1"


def account(url: str, **more: Any) -> AccountConfig:
    """An account of the local Azure."""
    settings: dict[str, Any] = {
        "name": "lab",
        "provider": "azure",
        "subscription": SUBSCRIPTION,
        "resource_group": GROUP,
        "endpoint": url,
        "image": IMAGE,
        "regions": {"eastus": {}, "westeurope": {}},
    }
    return AccountConfig.model_validate(settings | more)


class AzureBench:
    """What the provider contract needs to know of the local Azure."""

    region = "eastus"
    instance_type = SIZE
    gangs_are_atomic = False

    def __init__(self, cloud: Azure, provider: AzureProvider) -> None:
        self.cloud = cloud
        self.provider = provider
        self._reservations = 0

    def advance(self, seconds: float) -> None:
        self.cloud.advance(seconds)

    def exhaust(self, key: OfferKey, leave: int = 0) -> None:
        def here(vm: Any) -> bool:
            mine = (vm.zone, vm.instance_type, vm.capacity_type)
            return bool(vm.live) and mine == (key.zone, key.instance_type, str(key.capacity_type))

        self._capacity(key, len(self.cloud.world.vms("azure", here)) + leave)

    def restore(self, key: OfferKey) -> None:
        self._capacity(key, 1000)

    def _capacity(self, key: OfferKey, count: int) -> None:
        where = {
            "provider": "azure",
            "zone": key.zone,
            "instance_type": key.instance_type,
            "capacity_type": str(key.capacity_type),
        }
        self.cloud.world.set_capacity(CapacityRule.model_validate({**where, "count": count}))

    def limit_quota(self, key: OfferKey, vcpus: int) -> None:
        spot = key.capacity_type is CapacityType.SPOT
        name = "lowPriorityCores" if spot else catalogue("azure").types[key.instance_type].family
        self.cloud.world.set_quota(QuotaRule(provider="azure", region=key.region, name=name, limit=vcpus))

    def deny_everything(self) -> None:
        self.cloud.fault("*", "error", code="AuthorizationFailed", http_status=403, times=None)

    def set_lag(self, seconds: float) -> None:
        scenario = self.cloud.world.scenario
        timings = scenario.azure.model_copy(update={"list_lag_seconds": seconds})
        self.cloud.world.scenario = scenario.model_copy(update={"azure": timings})

    def drop_next_reply(self) -> None:
        self.cloud.fault("VirtualMachines_CreateOrUpdate", "drop_reply")

    def throttle(self, call: str, times: int) -> None:
        operation = {"launch": "VirtualMachines_CreateOrUpdate", "describe": "VirtualMachines_Get"}[call]
        self.cloud.fault(operation, "throttle", times=times)

    def preempt(self, provider_id: str) -> None:
        self.cloud.world.preempt(self.cloud.vm(provider_id))

    def delete_behind_our_back(self, provider_id: str) -> None:
        self.cloud.world.terminate(self.cloud.vm(provider_id))

    def user_data(self, provider_id: str) -> str:
        return self.cloud.vm(provider_id).user_data

    def unknown_id(self) -> str:
        return "corral-ffffffffffffffffffff-0"

    def live(self) -> Mapping[str, int]:
        return self.cloud.live()

    def reserve(self, slots: int) -> str:
        self._reservations += 1
        name = f"paid-{self._reservations}"
        self.set_aside(name, count=slots)
        return self.reservation(name)

    def end_reservation(self, reservation: str) -> None:
        self.set_aside(reservation.rpartition("/")[2], count=1, ends=0)

    # For the tests of this adapter.

    def set_aside(self, name: str, **terms: Any) -> None:
        """Reserve capacity, or change the terms of what is."""
        rule = {"provider": "azure", "name": name, "zone": "eastus-1", "instance_type": SIZE, "count": 1}
        self.cloud.world.reserve(ReservationRule.model_validate(rule | terms))

    @staticmethod
    def reservation(name: str) -> str:
        """The id of a reservation that stands in a group of its own name, or in `group/name`."""
        group, _, inner = name.partition("/")
        home = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/{GROUP}/providers/Microsoft.Compute"
        return f"{home}/capacityReservationGroups/{group}/capacityReservations/{inner or group}"

    def offer(
        self,
        capacity_type: CapacityType = CapacityType.SPOT,
        zone: str = "eastus-1",
        size: str = SIZE,
        reservation: str | None = None,
    ) -> OfferKey:
        return OfferKey("azure", "lab", zone.partition("-")[0], zone, size, capacity_type, reservation)

    def cloud_terms_accepted(self) -> None:
        """Somebody accepts the terms of the marketplace image."""
        path = (
            f"/subscriptions/{SUBSCRIPTION}/providers/Microsoft.MarketplaceOrdering/offerTypes/virtualmachine"
            "/publishers/acme/offers/gpu-desktop/plans/pro/agreements/current"
        )
        answer = httpx.put(
            f"{self.cloud.url}{path}",
            params={"api-version": "2021-01-01"},
            headers={"Authorization": "Bearer t"},
            json={"properties": {"accepted": True}},
        )
        answer.raise_for_status()

    def ask(self, key: OfferKey | None = None, *, nodes: int = 1, name: str = "a") -> LaunchRequest:
        """A prepared request."""
        token = (name.encode().hex() * 32)[:32]
        tags = {"corral-deployment": DEPLOYMENT, "corral-job": "j"}
        raw = LaunchRequest(token, key or self.offer(), nodes, "#cloud-config\n", tags, 50)
        return self.provider.prepare(raw)

    def refs(self, asked: LaunchRequest, launched: Launched | None = None) -> list[InstanceRef]:
        """What the service would keep."""
        key, operation = asked.offer, launched.operation if launched else None
        return [
            InstanceRef(key.region, key.zone, name, operation, key.capacity_type) for name in asked.names()
        ]


@contextmanager
def bench(scenario: dict[str, object] | None = None, **settings: Any) -> Iterator[AzureBench]:
    """A local Azure and an adapter for it."""
    with azure(scenario) as cloud:
        provider = AzureProvider(account(cloud.url, **settings), cloud.clock)
        try:
            yield AzureBench(cloud, provider)
        finally:
            provider.close()
