"""What a PUT of a virtual machine asks for, with the checks that the compute provider makes at once."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sandbox.catalogue import catalogue
from sandbox.faces.arm.call import ArmError

_CUSTOM_DATA_LIMIT = 65_535
_TAG_LIMIT = 50
_PRIORITIES = {"regular": "on_demand", "spot": "spot", "low": "spot"}


@dataclass(frozen=True, slots=True)
class Card:
    """The inline network card: what it and its address are called, and which of them outlive the machine."""

    name: str
    tags: dict[str, str]
    subnet: str
    keep: bool
    address: str | None
    address_tags: dict[str, str]
    keep_address: bool


@dataclass(frozen=True, slots=True)
class Wanted:
    """A create. `zone` is the catalogue's key, the region itself where none was named; `max_price` None is
    up to the on-demand price. reservation_group: the id of the one that it names; takes_open: whether it may
    take the slots of open reservations. availability_set: the id of one, empty for none.
    """

    location: str
    zone: str
    size: str
    capacity_type: Any
    tags: dict[str, str]
    user_data: str
    image: dict[str, str]
    disk: str
    keep_disk: bool
    card: Card
    deallocate: bool
    max_price: float | None
    reservation_group: str | None
    takes_open: bool
    availability_set: str


def wanted(name: str, body: Mapping[str, Any]) -> Wanted:
    """Read a PUT's body; ArmError as the service would refuse it."""
    location = str(body.get("location") or "").replace(" ", "").lower()
    if not location:
        raise ArmError(400, "LocationRequired", "The location property is required for this definition.")
    table = catalogue("azure")
    if location not in table.regions:
        text = (
            f"The provided location '{location}' is not available for resource type "
            f"'Microsoft.Compute/virtualMachines'. List of available regions for the resource type is "
            f"'{','.join(table.regions)}'."
        )
        raise ArmError(400, "LocationNotAvailableForResourceType", text)
    properties = _mapping(body, "properties")
    size = str(_mapping(properties, "hardwareProfile").get("vmSize") or "")
    if size not in table.types:
        text = f"The requested VM size {size} is not available in the current region. The sizes available in "
        raise ArmError(400, "InvalidParameter", f"{text}the current region are: ...", target="vmSize")
    storage = _mapping(properties, "storageProfile")
    disk = _mapping(storage, "osDisk")
    if disk.get("createOption") != "FromImage":
        raise _invalid("osDisk.createOption", "Required parameter 'osDisk.createOption' is missing (null).")
    capacity_type, deallocate, max_price = _spot(properties)
    return Wanted(
        location=location,
        zone=_zone(body, location),
        size=size,
        capacity_type=capacity_type,
        tags=_tags(body.get("tags")),
        user_data=_os(properties),
        image={key: str(value) for key, value in _mapping(storage, "imageReference").items()},
        disk=str(disk.get("name") or f"{name}_OsDisk_1"),
        keep_disk=disk.get("deleteOption") != "Delete",
        card=_card(name, properties),
        deallocate=deallocate,
        max_price=max_price,
        **_reserved(properties, capacity_type),
        availability_set=str(_mapping(properties, "availabilitySet", needed=False).get("id") or ""),
    )


def _zone(body: Mapping[str, Any], location: str) -> str:
    zones = body.get("zones") or []
    if not zones:
        return location
    key = f"{location}-{zones[0]}"
    if len(zones) > 1 or key not in catalogue("azure").zones:
        named = ",".join(map(str, zones))
        text = f"The zone(s) '{named}' for the resource are not supported in location '{location}'."
        raise ArmError(400, "InvalidAvailabilityZone", text, target="zones")
    return key


def _spot(properties: Mapping[str, Any]) -> tuple[str, bool, float | None]:
    priority = str(properties.get("priority") or "Regular")
    if priority.lower() not in _PRIORITIES:
        raise _invalid("priority", f"The value '{priority}' of parameter 'priority' is invalid.")
    kind, policy = _PRIORITIES[priority.lower()], properties.get("evictionPolicy")
    price = _mapping(properties, "billingProfile", needed=False).get("maxPrice")
    if kind != "spot" and policy is not None:
        code = "EvictionPolicyCanBeSetOnlyOnAzureSpotVirtualMachines"
        raise ArmError(409, code, "Eviction policy can be set only on Azure Spot Virtual Machines.")
    if kind != "spot" and price is not None:
        code = "MaxPriceIsSupportedOnlyForAzureSpotVirtualMachines"
        raise ArmError(409, code, "Max price is supported only for Azure Spot Virtual Machines.")
    if price is not None and price != -1 and not price > 0:
        raise ArmError(409, "MaxPriceValueInvalid", "The max price must be -1 or above 0 USD.")
    return kind, kind == "spot" and policy != "Delete", None if price in (None, -1) else float(price)


def _reserved(properties: Mapping[str, Any], capacity_type: str) -> dict[str, Any]:
    """Reserved capacity that is asked for, or declined; spot machines have no part in it."""
    profile = _mapping(properties, "capacityReservation", needed=False)
    group = _mapping(profile, "capacityReservationGroup", needed=False).get("id")
    declined = profile.get("disableCapacityReservationAssignment") is True
    if group and (capacity_type == "spot" or declined):
        what = "Azure Spot Virtual Machines" if capacity_type == "spot" else "a machine that declines it"
        raise _invalid("capacityReservation", f"Capacity reservation is not supported for {what}.")
    takes_open = capacity_type != "spot" and not group and not declined
    return {"reservation_group": str(group) if group else None, "takes_open": takes_open}


def _os(properties: Mapping[str, Any]) -> str:
    """The user data, decoded."""
    profile = _mapping(properties, "osProfile")
    if not profile.get("adminUsername") or profile.get("adminUsername") in {"admin", "root", "user", "test"}:
        raise _invalid("adminUsername", "The Admin Username specified is not allowed.")
    linux = _mapping(profile, "linuxConfiguration", needed=False)
    keys = _mapping(linux, "ssh", needed=False).get("publicKeys") or []
    if not profile.get("adminPassword") and not keys:
        text = (
            "Authentication using either SSH or by user name and password must be enabled in Linux profile."
        )
        raise _invalid("linuxConfiguration", text)
    if any(not str(key.get("keyData") or "").startswith("ssh-") for key in keys):
        text = "The value of parameter linuxConfiguration.ssh.publicKeys.keyData is invalid."
        raise _invalid("linuxConfiguration.ssh.publicKeys.keyData", text)
    try:
        data = base64.b64decode(str(profile.get("customData") or ""), validate=True)
        text = data.decode()
    except (binascii.Error, UnicodeDecodeError) as error:
        raise _invalid("customData", "Custom data in OSProfile must be in Base64 encoding.") from error
    if len(data) > _CUSTOM_DATA_LIMIT:
        raise _invalid("customData", f"Custom data in OSProfile must be at most {_CUSTOM_DATA_LIMIT} bytes.")
    return text


def _card(name: str, properties: Mapping[str, Any]) -> Card:
    profile = _mapping(properties, "networkProfile")
    cards = profile.get("networkInterfaceConfigurations") or []
    if not cards or not profile.get("networkApiVersion"):
        text = "The sandbox makes network cards with the machine: networkInterfaceConfigurations and "
        raise _invalid("networkProfile", f"{text}networkApiVersion are required.")
    facts = _mapping(cards[0], "properties")
    configurations = facts.get("ipConfigurations") or []
    if not configurations:
        raise _invalid("ipConfigurations", "Network card has no IP configuration.")
    inner = _mapping(configurations[0], "properties")
    public = _mapping(inner, "publicIPAddressConfiguration", needed=False)
    return Card(
        name=str(cards[0].get("name") or f"{name}-nic"),
        tags=_tags(cards[0].get("tags")),
        subnet=str(_mapping(inner, "subnet").get("id") or ""),
        keep=facts.get("deleteOption") != "Delete",
        address=str(public.get("name") or f"{name}-ip") if public else None,
        address_tags=_tags(public.get("tags")) if public else {},
        keep_address=bool(public) and _mapping(public, "properties").get("deleteOption") != "Delete",
    )


def _tags(value: Any) -> dict[str, str]:
    tags = {str(key): str(text) for key, text in (value or {}).items()}
    if len(tags) > _TAG_LIMIT:
        raise ArmError(400, "TooManyTags", f"A resource can have at most {_TAG_LIMIT} tags.")
    for key, text in tags.items():
        if set(key) & set("<>%&\\?/") or len(key) > 512 or len(text) > 256:
            raise ArmError(400, "InvalidTagNameCharacters", f"The tag {key!r} is not allowed.")
    return tags


def _mapping(body: Mapping[str, Any], name: str, *, needed: bool = True) -> Mapping[str, Any]:
    value = body.get(name)
    if isinstance(value, Mapping):
        return value
    if needed or value is not None:
        raise _invalid(name, f"Required parameter '{name}' is missing (null).")
    return {}


def _invalid(target: str, text: str) -> ArmError:
    return ArmError(400, "InvalidParameter", text, target=target)
