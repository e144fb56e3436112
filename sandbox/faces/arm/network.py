"""Microsoft.Network: one virtual network, subnet and security group per region, which are always there, and
the cards and addresses that machines got.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from starlette.responses import JSONResponse, Response

from sandbox.catalogue import catalogue
from sandbox.faces.arm.call import ArmError, Call, listing, missing
from sandbox.faces.arm.market import must_be_known
from sandbox.faces.arm.render import zone_names
from sandbox.faces.arm.state import GROUP, Face, id_of, resource_id
from sandbox.quotas import ADDRESSES as ADDRESS_QUOTA
from sandbox.vm import Vm

NETWORKS = "Microsoft.Network/virtualNetworks"
SECURITY = "Microsoft.Network/networkSecurityGroups"
CARDS = "Microsoft.Network/networkInterfaces"
ADDRESSES = "Microsoft.Network/publicIPAddresses"
_SUBNET = re.compile(
    r"/subscriptions/[^/]+/resourceGroups/(?P<group>[^/]+)/providers/Microsoft\.Network/virtualNetworks/"
    r"(?P<network>[^/]+)/subnets/(?P<subnet>[^/]+)$",
    re.IGNORECASE,
)


def must_have_subnet(face: Face, subnet: str, location: str) -> None:
    """ArmError where a machine of that region cannot have a card there."""
    found = _SUBNET.match(subnet)
    if found is None or found["group"].lower() != GROUP or found["subnet"].lower() != "default":
        text = f"Resource {subnet} referenced by the virtual machine was not found."
        raise ArmError(400, "InvalidResourceReference", text)
    if found["network"].lower() != f"vnet-{location}":
        text = f"Subnet {subnet} is not in the same location as the virtual machine, {location}."
        raise ArmError(400, "InvalidResourceReference", text)


def networks(_face: Face, call: Call) -> Response:
    """The virtual networks of a group."""
    inside = call.group.lower() == GROUP
    return listing(call, [_network(call, region) for region in catalogue("azure").regions if inside])


def network(_face: Face, call: Call) -> Response:
    """One virtual network."""
    return JSONResponse(_network(call, _region(call, call.path["name"], "vnet-", NETWORKS)))


def subnet(_face: Face, call: Call) -> Response:
    """One subnet, with Azure's default way out; a fault shows it `private`, behind a `nat` or `delegated`."""
    region = _region(call, call.path["name"], "vnet-", NETWORKS)
    if call.path["subnet"].lower() != "default":
        raise missing(f"{NETWORKS}/{call.path['name']}/subnets", call.path["subnet"], call.group)
    return JSONResponse(_subnet(call, region))


def usages(face: Face, call: Call) -> Response:
    """How many addresses of each subnet are taken; five belong to Azure."""
    region = _region(call, call.path["name"], "vnet-", NETWORKS)
    subnet = _subnet(call, region)["id"]
    taken = len(objects(face, call, "nic", lambda vm: card_of(face, vm, expand=False)))
    row = {
        "id": subnet,
        "currentValue": float(taken),
        "limit": float(call.shown or 2**16 - 5),
        "name": {"value": "SubnetSpace", "localizedValue": "Subnet size and usage"},
        "unit": "Count",
    }
    return listing(call, [row])


def security_group(_face: Face, call: Call) -> Response:
    """One security group."""
    region = _region(call, call.path["name"], "nsg-", SECURITY)
    path = resource_id(call.subscription, call.group, SECURITY, f"nsg-{region}")
    facts = {"provisioningState": "Succeeded", "securityRules": []}
    return JSONResponse(_resource(path, SECURITY, region, properties=facts))


def _region(call: Call, name: str, prefix: str, kind: str) -> str:
    region = name.lower().removeprefix(prefix)
    if call.group.lower() != GROUP or region not in catalogue("azure").regions or name.lower() == region:
        raise missing(kind, name, call.group)
    return region


def _network(call: Call, region: str) -> dict[str, Any]:
    number = catalogue("azure").regions.index(region)
    facts = {
        "provisioningState": "Succeeded",
        "addressSpace": {"addressPrefixes": [f"10.{number}.0.0/16"]},
        "subnets": [_subnet(call, region)],
    }
    path = resource_id(call.subscription, GROUP, NETWORKS, f"vnet-{region}")
    return _resource(path, NETWORKS, region, properties=facts)


def _subnet(call: Call, region: str) -> dict[str, Any]:
    number = catalogue("azure").regions.index(region)
    path = resource_id(call.subscription, GROUP, NETWORKS, f"vnet-{region}/subnets/default")
    facts: dict[str, Any] = {"provisioningState": "Succeeded", "addressPrefix": f"10.{number}.0.0/16"}
    if call.shown == "private":
        facts["defaultOutboundAccess"] = False
    if call.shown == "nat":
        gateway = resource_id(call.subscription, GROUP, "Microsoft.Network/natGateways", f"nat-{region}")
        facts |= {"defaultOutboundAccess": False, "natGateway": {"id": gateway}}
    if call.shown == "delegated":
        to = {"serviceName": "Microsoft.Sql/managedInstances"}
        facts["delegations"] = [{"name": "sql", "properties": to}]
    return {"id": path, "name": "default", "type": f"{NETWORKS}/subnets", "properties": facts}


def _resource(path: str, kind: str, region: str, **more: Any) -> dict[str, Any]:
    return {"id": path, "name": path.rpartition("/")[2], "type": kind, "location": region, **more}


def location_usages(face: Face, call: Call) -> Response:
    """What the network provider counts in a region, as far as machines need it."""
    region = must_be_known(call)
    limit, used = _addresses_left(face, region)
    name = {"value": ADDRESS_QUOTA, "localizedValue": "Public IPv4 Addresses - Standard"}
    row = {"id": f"{call.url}/{ADDRESS_QUOTA}", "name": name, "unit": "Count"}
    return listing(call, [{**row, "currentValue": used, "limit": limit}])


def must_have_address(face: Face, region: str) -> None:
    """ArmError where a region has as many public addresses as it may."""
    limit, used = _addresses_left(face, region)
    if used >= limit:
        text = f"Cannot create more than {limit} public IP addresses for this subscription in this region."
        raise ArmError(400, "PublicIPCountLimitReached", text)


def _addresses_left(face: Face, region: str) -> tuple[int, int]:
    """(limit, in use)."""
    rows = [row for row in face.world.quotas("azure", region) if row.name == ADDRESS_QUOTA]
    there = face.world.vms("azure", lambda vm: vm.region == region and bool(vm.objects.get("address")))
    used = sum(face.world.exists("azure", "address", _name(vm, "address")) for vm in there)
    return int(rows[0].limit), used


def owner(face: Face, call: Call, kind: str) -> Vm | None:
    """The machine, over or not, with which the object named in the path was made; None if it is no more."""
    name, group, subscription = (
        call.path["name"].lower(),
        call.group.lower(),
        call.subscription.lower(),
    )

    def made(vm: Vm) -> bool:
        mine = (vm.extra["subscription"].lower(), vm.extra["resource_group"].lower())
        names = [one.lower() for one in vm.objects.get(kind, [])]
        return mine == (subscription, group) and name in names

    found = [vm for vm in face.world.vms("azure", made) if face.world.exists("azure", kind, _name(vm, kind))]
    return found[-1] if found else None


def _name(vm: Vm, kind: str) -> str:
    return vm.objects[kind][0]


def card(face: Face, call: Call) -> Response:
    """One network card; `$expand=ipConfigurations/publicIPAddress` shows the address itself."""
    vm = owner(face, call, "nic")
    if vm is None or not vm.visible(face.world.now()):
        raise missing(CARDS, call.path["name"], call.group)
    expand = "publicipaddress" in call.query.get("$expand", "").lower()
    return JSONResponse(card_of(face, vm, expand=expand))


def address(face: Face, call: Call) -> Response:
    """One public address."""
    vm = owner(face, call, "address")
    if vm is None or not vm.visible(face.world.now()):
        raise missing(ADDRESSES, call.path["name"], call.group)
    return JSONResponse(address_of(vm))


def cards(face: Face, call: Call) -> Response:
    """The network cards of a group."""
    return listing(call, objects(face, call, "nic", lambda vm: card_of(face, vm, expand=False)))


def addresses(face: Face, call: Call) -> Response:
    """The public addresses of a group."""
    return listing(call, objects(face, call, "address", address_of))


def objects(face: Face, call: Call, kind: str, show: Callable[[Vm], dict[str, Any]]) -> list[dict[str, Any]]:
    """What exists of a kind in a group, in the order in which it was made."""
    mine, now = (call.subscription.lower(), call.group.lower()), face.world.now()

    def has(vm: Vm) -> bool:
        place = (vm.extra["subscription"].lower(), vm.extra["resource_group"].lower())
        return place == mine and vm.visible(now) and bool(vm.objects.get(kind))

    there = face.world.vms("azure", has)
    return [show(vm) for vm in there if face.world.exists("azure", kind, _name(vm, kind))]


def card_of(face: Face, vm: Vm, *, expand: bool) -> dict[str, Any]:
    """A card's JSON."""
    facts: dict[str, Any] = {
        "privateIPAddress": vm.private_ip,
        "privateIPAllocationMethod": "Dynamic",
        "primary": True,
        "subnet": {"id": vm.extra["card"].subnet},
        "provisioningState": "Succeeded",
    }
    if vm.objects.get("address") and face.world.exists("azure", "address", _name(vm, "address")):
        whole = address_of(vm)
        facts["publicIPAddress"] = whole if expand else {"id": whole["id"]}
    path = id_of(vm, CARDS, _name(vm, "nic"))
    properties: dict[str, Any] = {
        "provisioningState": "Succeeded",
        "primary": True,
        "ipConfigurations": [
            {"id": f"{path}/ipConfigurations/primary", "name": "primary", "properties": facts}
        ],
    }
    if vm.live:
        properties["virtualMachine"] = {"id": id_of(vm)}
    return _resource(path, CARDS, vm.region, tags=vm.extra["card"].tags, properties=properties)


def address_of(vm: Vm) -> dict[str, Any]:
    """An address's JSON."""
    path = id_of(vm, ADDRESSES, _name(vm, "address"))
    facts = {
        "provisioningState": "Succeeded",
        "ipAddress": vm.public_ip,
        "publicIPAllocationMethod": "Static",
        "publicIPAddressVersion": "IPv4",
    }
    more: dict[str, Any] = {"sku": {"name": "Standard", "tier": "Regional"}}
    zones = zone_names(vm.zone)
    if zones:
        more["zones"] = zones
    return _resource(path, ADDRESSES, vm.region, tags=vm.extra["card"].address_tags, properties=facts, **more)


def delete_card(face: Face, call: Call) -> Response:
    """Refused while its machine is there."""
    vm = owner(face, call, "nic")
    if vm is not None and vm.live:
        text = f"Network Interface {call.path['name']} is used by existing resource {id_of(vm)}."
        raise ArmError(400, "NicInUse", text)
    return _released(face, vm, "nic")


def delete_address(face: Face, call: Call) -> Response:
    """Refused while a card has it."""
    vm = owner(face, call, "address")
    if vm is not None and vm.objects.get("nic") and face.world.exists("azure", "nic", _name(vm, "nic")):
        used = f"{id_of(vm, CARDS, _name(vm, 'nic'))}/ipConfigurations/primary"
        text = (
            f"Public IP address {call.path['name']} can not be deleted since it is still allocated to {used}."
        )
        raise ArmError(400, "PublicIPAddressCannotBeDeleted", text)
    return _released(face, vm, "address")


def _released(face: Face, vm: Vm | None, kind: str) -> Response:
    if vm is None or not face.world.release("azure", kind, _name(vm, kind)):
        return Response(status_code=204)
    return Response(status_code=200)
