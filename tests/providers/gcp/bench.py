"""The Google adapter and the local cloud behind it, as the provider contract wants them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from providers.config import AccountConfig
from providers.gcp.adapter import GcpProvider
from providers.vocabulary import OfferKey
from sandbox.quotas import gpu_metric
from sandbox.reservations import ReservationRule
from sandbox.scenario import CapacityRule, QuotaRule, Restore
from sandbox.vm import Vm
from tests.sandbox.gce import IMAGE, PROJECT, LocalGce

REGION = "us-central1"


def account(url: str, **settings: Any) -> AccountConfig:
    """An account of the local cloud."""
    fields: dict[str, Any] = {
        "name": "lab",
        "provider": "gcp",
        "project": PROJECT,
        "image": IMAGE,
        "regions": {REGION: {}},
        "endpoint": url,
    }
    return AccountConfig.model_validate(fields | settings)


class GceBench:
    """See tests.providers.contract.Bench."""

    region = REGION
    instance_type = "g2-standard-8"
    gangs_are_atomic = True

    def __init__(self, gce: LocalGce, **settings: Any) -> None:
        self.gce = gce
        self.provider = GcpProvider(account(gce.url, **settings), gce.clock, read_timeout=5, write_timeout=5)

        self._reserved: dict[str, dict[str, Any]] = {}

    def advance(self, seconds: float) -> None:
        self.gce.advance(seconds)

    def reserve(self, slots: int) -> str:
        rule: dict[str, Any] = {
            "provider": "gcp",
            "name": f"paid-{len(self._reserved)}",
            "zone": f"{REGION}-a",
        }
        rule |= {"instance_type": self.instance_type, "count": slots}
        named = f"{rule['zone']}/{rule['name']}"
        self._reserved[named] = rule
        self.gce.world.reserve(ReservationRule.model_validate(rule))
        return named

    def end_reservation(self, reservation: str) -> None:
        """Until the next list of reservations is read, too."""
        rule = {**self._reserved[reservation], "ends": 0}
        self.gce.world.reserve(ReservationRule.model_validate(rule))
        self.advance(30)

    def exhaust(self, key: OfferKey, leave: int = 0) -> None:
        taken = sum(
            1 for vm in self.gce.vms() if (vm.zone, vm.instance_type) == (key.zone, key.instance_type)
        )
        self._set_capacity(key, taken + leave)

    def restore(self, key: OfferKey) -> None:
        self.gce.world.restore(Restore.model_validate({"do": "restore", "at": 0, "what": ["capacity"]}))

    def _set_capacity(self, key: OfferKey, count: int) -> None:
        rule = {
            "provider": "gcp",
            "zone": key.zone,
            "instance_type": key.instance_type,
            "capacity_type": str(key.capacity_type),
            "count": count,
        }
        self.gce.world.set_capacity(CapacityRule.model_validate(rule))

    def limit_quota(self, key: OfferKey, vcpus: int) -> None:
        """A g2-standard-8 has eight vCPUs and one L4."""
        name = "PREEMPTIBLE_NVIDIA_L4_GPUS" if key.capacity_type == "spot" else gpu_metric("NVIDIA_L4")
        rule = QuotaRule(provider="gcp", region=key.region, name=name, limit=vcpus // 8)
        self.gce.world.set_quota(rule)
        if key.capacity_type == "spot":
            # Without preemptible quota Spot would draw on the standard one.
            self.gce.world.set_quota(rule.model_copy(update={"name": gpu_metric("NVIDIA_L4")}))

    def deny_everything(self) -> None:
        calls = ("regions.get", "projects.get", "instances.aggregatedList", "cloudquotas.*")
        for call in calls:
            self.gce.fault(call, "error", code="forbidden", http_status=403, times=1000)

    def set_lag(self, seconds: float) -> None:
        world = self.gce.world
        timings = world.scenario.gcp.model_copy(update={"list_lag_seconds": seconds})
        world.scenario = world.scenario.model_copy(update={"gcp": timings})

    def drop_next_reply(self) -> None:
        self.gce.fault("instances.insert", "drop_reply")

    def throttle(self, call: str, times: int) -> None:
        method = {"launch": "instances.insert", "describe": "instances.get"}[call]
        self.gce.fault(method, "throttle", times=times)

    def vm(self, provider_id: str) -> Vm:
        return next(vm for vm in self.gce.vms() if vm.name == provider_id)

    def preempt(self, provider_id: str) -> None:
        self.gce.world.preempt(self.vm(provider_id))

    def delete_behind_our_back(self, provider_id: str) -> None:
        import httpx

        vm = self.vm(provider_id)
        path = f"/compute/v1/projects/{PROJECT}/zones/{vm.zone}/instances/{vm.name}"
        assert httpx.delete(self.gce.url + path).status_code == 200

    def user_data(self, provider_id: str) -> str:
        text: str = self.vm(provider_id).extra["metadata"]["user-data"]
        return text

    def unknown_id(self) -> str:
        return "corral-00000000000000000000-0"

    def live(self) -> Mapping[str, int]:
        objects = self.gce.world.ledger()["objects"]
        return {kind: counts["live"] for kind, counts in objects.items()}
