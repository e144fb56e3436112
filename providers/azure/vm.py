"""A launch request as the body of one virtual machine that takes everything of its own with it. Pure."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from providers.azure.images import IMAGE_DISK, PLAN_NAME, PLAN_PRODUCT, PLAN_PUBLISHER, reference
from providers.config import RegionConfig
from providers.vocabulary import CapacityType, LaunchRequest, OfferKey

# Tags of ours beside those of the request, and the one of it that says whose a thing is. The network card and
# the address get them too; a disk made with the machine takes no tags and is known by its name.
DEPLOYMENT_TAG = "corral-deployment"
TOKEN_TAG = "corral-token"  # noqa: S105
NODE_TAG = "corral-node"
VM_TAG = "corral-vm"
SPEC_TAG = "corral-spec"
RESERVATION_TAG = "corral-reservation"

# Keys of LaunchRequest.extra: all that settings decide, frozen when the request is prepared.
SSH_KEY = "ssh_public_key"
DISK_TYPE = "os_disk_type"
PUBLIC_ADDRESS, SECURITY_GROUP, INSTANCE_ROLE = "public_address", "security_group", "instance_role"
AVAILABILITY_SET = "availability_set"

_RESERVATION = re.compile(
    r"(?P<group>/subscriptions/[^/]+/resourceGroups/[^/]+/providers/Microsoft\.Compute"
    r"/capacityReservationGroups/[^/]+)/capacityReservations/(?P<name>[^/]+)",
    re.IGNORECASE,
)
_DISK_NAME = re.compile(r"(?P<vm>corral-[0-9a-f]{20}-\d+)-os-[0-9a-f]{8}", re.IGNORECASE)

ADMIN = "corral"
USER_DATA_LIMIT = 65_535  # bytes before base64 (ARM, osProfile.customData)
# Azure documentation, "Use tags to organize your Azure resources"; for virtual machines all tags together.
TAGS_LIMIT, TAG_CHARACTERS_LIMIT = 50, 2_048
_OWN_TAGS, _OWN_TAG_CHARACTERS = 5, 320


def zone_number(zone: str, region: str) -> str | None:
    """The logical zone of a zone key; None for the region itself, a placement without a zone."""
    return None if zone == region else zone.removeprefix(f"{region}-")


def zone_key(region: str, zones: Any) -> str:
    """The other way round, from what a machine shows."""
    return f"{region}-{zones[0]}" if zones else region


def frozen(settings: RegionConfig) -> dict[str, str]:
    """What a region's settings say of its machines, for LaunchRequest.extra."""
    return {
        PUBLIC_ADDRESS: "yes" if settings.public_address else "no",
        SECURITY_GROUP: next(iter(settings.security_groups), ""),
        INSTANCE_ROLE: settings.instance_role or "",
    }


def excess(request: LaunchRequest) -> str | None:
    """What of a request is too large for a virtual machine; None if all of it fits."""
    size = len(request.user_data.encode())
    if size > USER_DATA_LIMIT:
        return f"user data is {size} bytes; Azure's limit is {USER_DATA_LIMIT}"
    if len(request.tags) > TAGS_LIMIT - _OWN_TAGS:
        return f"{len(request.tags)} tags; Azure takes {TAGS_LIMIT}, of which {_OWN_TAGS} are ours"
    characters = sum(len(key) + len(text) for key, text in request.tags.items())
    if characters > TAG_CHARACTERS_LIMIT - _OWN_TAG_CHARACTERS:
        return f"tags of {characters} characters; Azure takes {TAG_CHARACTERS_LIMIT} with ours"
    return None


def body(request: LaunchRequest, node: int) -> dict[str, Any]:
    """The PUT's JSON for one node, always the same for the same prepared request."""
    name, offer = request.names()[node], request.offer
    tags = {**request.tags, TOKEN_TAG: request.token, NODE_TAG: str(node), VM_TAG: name}
    properties: dict[str, Any] = {
        "hardwareProfile": {"vmSize": offer.instance_type},
        "storageProfile": {"imageReference": reference(request.image or ""), "osDisk": _disk(request, name)},
        "osProfile": _os(request, name),
        "networkProfile": _network(request, name, tags),
        "priority": "Regular",
    }
    if offer.capacity_type is CapacityType.SPOT:
        # Delete frees quota and disk; Deallocate, the default, keeps both. A price has at most 5 decimals;
        # above it Azure refuses, and later evicts. -1: pay up to the on-demand price.
        properties |= {
            "priority": "Spot",
            "evictionPolicy": "Delete",
            "billingProfile": {"maxPrice": -1 if request.max_price is None else round(request.max_price, 5)},
        }
    properties |= _reserved(offer)
    if together := request.extra.get(AVAILABILITY_SET):
        properties["availabilitySet"] = {"id": together}
    if found := _RESERVATION.fullmatch(offer.reservation or ""):
        tags[RESERVATION_TAG] = found["name"]
    whole: dict[str, Any] = {"location": offer.region, "tags": tags, "properties": properties}
    zone = zone_number(offer.zone, offer.region)
    if zone is not None:
        whole["zones"] = [zone]
    if role := request.extra[INSTANCE_ROLE]:
        whole["identity"] = {"type": "UserAssigned", "userAssignedIdentities": {role: {}}}
    if plan := _plan(request.extra):
        whole["plan"] = plan
    # What a machine was asked for cannot be read back (customData), so a second send is compared by this.
    whole["tags"] = {**tags, SPEC_TAG: spec(whole)}
    return whole


def group_of(reservation: str) -> str | None:
    """The capacity reservation group of a reservation; None if that is no id of one."""
    found = _RESERVATION.fullmatch(reservation)
    return found["group"] if found else None


def reservation_of(vm: Mapping[str, Any]) -> str | None:
    """The reservation that a machine was made for; its group where the machine is not ours."""
    profile = (vm.get("properties") or {}).get("capacityReservation") or {}
    group = (profile.get("capacityReservationGroup") or {}).get("id")
    name = (vm.get("tags") or {}).get(RESERVATION_TAG)
    return f"{group}/capacityReservations/{name}" if group and name else group


def _reserved(offer: OfferKey) -> dict[str, Any]:
    """Reserved capacity by name or not at all: an open reservation would be eaten by any machine that fits.
    Spot machines have no part in it.
    """
    if offer.reservation is not None:
        return {"capacityReservation": {"capacityReservationGroup": {"id": group_of(offer.reservation)}}}
    if offer.capacity_type is CapacityType.SPOT:
        return {}
    return {"capacityReservation": {"disableCapacityReservationAssignment": True}}


def spec(whole: Mapping[str, Any]) -> str:
    """A digest of all that was asked for."""
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()[:32]


def _disk(request: LaunchRequest, name: str) -> dict[str, Any]:
    return {
        "name": disk_name(name, request.tags.get(DEPLOYMENT_TAG, "")),
        "createOption": "FromImage",
        "deleteOption": "Delete",
        "diskSizeGB": max(request.disk_gib, int(request.extra.get(IMAGE_DISK, "0"))),
        "managedDisk": {"storageAccountType": request.extra.get(DISK_TYPE, "StandardSSD_LRS")},
    }


def disk_name(vm: str, deployment: str) -> str:
    """The OS disk of a machine of ours. Who made it can be told from the name alone."""
    return f"{vm}-os-{hashlib.sha256(deployment.encode()).hexdigest()[:8]}"


def vm_of_disk(name: str) -> str | None:
    """The machine whose OS disk bears a name; None if the name is not of ours."""
    found = _DISK_NAME.fullmatch(name)
    return found["vm"] if found else None


def _os(request: LaunchRequest, name: str) -> dict[str, Any]:
    key = {"path": f"/home/{ADMIN}/.ssh/authorized_keys", "keyData": request.extra[SSH_KEY]}
    return {
        "computerName": name,
        "adminUsername": ADMIN,
        "customData": base64.b64encode(request.user_data.encode()).decode(),
        "linuxConfiguration": {"disablePasswordAuthentication": True, "ssh": {"publicKeys": [key]}},
    }


def _network(request: LaunchRequest, name: str, tags: Mapping[str, str]) -> dict[str, Any]:
    """An inline card: Azure makes it with the machine, so a refused create leaves none behind."""
    address: dict[str, Any] = {
        "name": "primary",
        "properties": {"primary": True, "subnet": {"id": request.subnet}},
    }
    if request.extra[PUBLIC_ADDRESS] == "yes":
        address["properties"]["publicIPAddressConfiguration"] = {
            "name": f"{name}-ip",
            "sku": {"name": "Standard", "tier": "Regional"},
            "tags": dict(tags),
            "properties": {"deleteOption": "Delete", "publicIPAllocationMethod": "Static"},
        }
    card: dict[str, Any] = {
        "name": f"{name}-nic",
        "tags": dict(tags),
        "properties": {"primary": True, "deleteOption": "Delete", "ipConfigurations": [address]},
    }
    if group := request.extra[SECURITY_GROUP]:
        card["properties"]["networkSecurityGroup"] = {"id": group}
    return {"networkApiVersion": "2022-11-01", "networkInterfaceConfigurations": [card]}


def _plan(extra: Mapping[str, str]) -> dict[str, str]:
    """The terms of a marketplace image, which an operator has accepted."""
    if PLAN_NAME not in extra:
        return {}
    return {
        "name": extra[PLAN_NAME],
        "product": extra[PLAN_PRODUCT],
        "publisher": extra[PLAN_PUBLISHER],
    }
