"""The calls that only look: the project, its places, what can be had there, and the price list."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sandbox.catalogue import Catalogue
from sandbox.faces.gce import billing, cloudquotas, lists, resources
from sandbox.faces.gce.answers import ApiError, Call, not_found
from sandbox.faces.gce.creation import PROVIDER
from sandbox.quotas import GLOBAL
from sandbox.world import World

Body = dict[str, Any]


class Inventory:
    """What the catalogue and the market say. `handlers`: method id -> what answers it."""

    def __init__(self, world: World, table: Catalogue) -> None:
        self._world = world
        self._table = table
        self.handlers: Mapping[str, Callable[[Call], Body]] = {
            "projects.get": self._project,
            "zones.list": self._zones,
            "zones.get": lambda call: self._zone(call, known_zone(call, table)),
            "regions.list": self._regions,
            "regions.get": lambda call: self._region(call, self._known_region(call)),
            "machineTypes.list": self._machine_types,
            "machineTypes.aggregatedList": self._all_machine_types,
            "acceleratorTypes.aggregatedList": self._all_accelerator_types,
            "images.get": lambda call: self._image(call, call.path["image"]),
            "images.getFromFamily": self._family,
            "subnetworks.get": self._subnetwork,
            "subnetworks.listUsable": self._usable,
            "routers.list": self._routers,
            "cloudresourcemanager.projects.testIamPermissions": _granted,
            "subnetworks.aggregatedList": self._all_subnetworks,
            "cloudbilling.services.skus.list": self._skus,
            cloudquotas.METHOD: self._quota_infos,
        }

    def _project(self, call: Call) -> Body:
        return resources.project(call.project, self._world.quotas(PROVIDER, GLOBAL))

    def _zone(self, call: Call, key: str) -> Body:
        return resources.zone(call.project, self._table.zones[key].region, key)

    def _zones(self, call: Call) -> Body:
        return lists.listed(call, "zone", [self._zone(call, key) for key in self._table.zones])

    def _regions(self, call: Call) -> Body:
        return lists.listed(call, "region", [self._region(call, name) for name in self._table.regions])

    def _region(self, call: Call, name: str) -> Body:
        zones = [zone.key for zone in self._table.zones_of(name)]
        warning = call.faulty("state")
        quotas = [] if warning else self._world.quotas(PROVIDER, name)
        return resources.region(call.project, name, zones, quotas, warning.value if warning else "")

    def _known_region(self, call: Call) -> str:
        region = call.path["region"]
        if region not in self._table.factors:
            raise not_found(call, "regions", region)
        return region

    def _machine_types(self, call: Call) -> Body:
        zone = known_zone(call, self._table)
        found = resources.machine_types(self._table, call.project, zone)
        return lists.listed(call, "machineType", found)

    def _all_machine_types(self, call: Call) -> Body:
        scopes = {
            f"zones/{zone}": list(resources.machine_types(self._table, call.project, zone))
            for zone in self._table.zones
        }
        return lists.aggregated(call, "machineType", "machineTypes", scopes)

    def _all_accelerator_types(self, call: Call) -> Body:
        scopes = {
            f"zones/{zone}": list(resources.accelerator_types(self._table, call.project, zone))
            for zone in self._table.zones
        }
        return lists.aggregated(call, "acceleratorType", "acceleratorTypes", scopes)

    def _image(self, call: Call, name: str) -> Body:
        found = resources.image(call.project, name)
        if found is None:
            raise not_found(call, "global", "images", name)
        return found

    def _family(self, call: Call) -> Body:
        family = call.path["family"]
        name = resources.IMAGES.get(call.project, {}).get(family)
        if name is None:
            raise not_found(call, "global", "images", "family", family)
        return self._image(call, name)

    def _subnetworks(self, call: Call) -> dict[str, list[Body]]:
        return {
            f"regions/{region}": [
                resources.subnetwork(call.project, region, name, index) for name in resources.SUBNETS
            ]
            for index, region in enumerate(self._table.regions)
        }

    def _subnetwork(self, call: Call) -> Body:
        region, name = self._known_region(call), call.path["subnetwork"]
        for found in self._subnetworks(call)[f"regions/{region}"]:
            if found["name"] == name:
                return self._with_utilization(call, found) if "views" in call.query else found
        raise not_found(call, "regions", region, "subnetworks", name)

    def _usable(self, call: Call) -> Body:
        every = [
            resources.usable(subnet) for subnets in self._subnetworks(call).values() for subnet in subnets
        ]
        found, token = lists.page(call, every)
        more = {"nextPageToken": token} if token else {}
        return {"kind": "compute#usableSubnetworksAggregatedList", "items": found, **more}

    def _all_subnetworks(self, call: Call) -> Body:
        return lists.aggregated(call, "subnetwork", "subnetworks", self._subnetworks(call))

    def _with_utilization(self, call: Call, found: Body) -> Body:
        """A fault's `state` is the number of free addresses."""
        region, name = call.path["region"], found["name"]
        used = len(
            self._world.vms("gcp", lambda vm: vm.live and (vm.region, vm.extra["subnet"]) == (region, name))
        )
        fault = call.faulty("state")
        free = fault.value if fault else str(max(0, resources.ADDRESSES - used))
        counts = {"totalAllocatedIp": str(used), "totalFreeIp": free}
        return {**found, "utilizationDetails": {"ipv4Utilizations": [counts]}}

    def _routers(self, call: Call) -> Body:
        """Each network that reaches the outside has a NAT; a fault's `state` names the only one that does."""
        region, fault = self._known_region(call), call.faulty("state")
        networks = [fault.value] if fault else ["default", "training"]
        return lists.listed(call, "router", [resources.router(call.project, region, n) for n in networks])

    def _skus(self, call: Call) -> Body:
        if call.path["service"] != billing.SERVICE:
            raise ApiError(404, "notFound", f"Service {call.path['service']} not found")
        return billing.page(self._world, self._table, call.query)

    def _quota_infos(self, call: Call) -> Body:
        if call.path["service"] != cloudquotas.SERVICE:
            raise ApiError(404, "notFound", f"Service {call.path['service']} not found")
        return cloudquotas.page(self._world, self._table, call.query)


def _granted(call: Call) -> Body:
    """All that is asked for; a fault's `state` lists what is denied, by commas."""
    fault = call.faulty("state")
    denied = fault.value.split(",") if fault else []
    return {"permissions": [name for name in call.body.get("permissions", ()) if name not in denied]}


def known_zone(call: Call, table: Catalogue) -> str:
    """The call's zone; 404 if there is none of that name."""
    zone = call.path["zone"]
    if zone not in table.zones:
        raise not_found(call, "zones", zone)
    return zone
