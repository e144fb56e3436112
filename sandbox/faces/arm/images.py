"""Images: one of each kind that a launch may name, replicated to every region of the catalogue."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse, Response

from sandbox.catalogue import catalogue
from sandbox.faces.arm.call import ArmError, Call, listing, missing
from sandbox.faces.arm.state import GROUP, Face, resource_id

#: The prebuilt image, in gallery `corral` of the group that is there from the start.
GALLERY, IMAGE, VERSIONS = "corral", "corral", ("1.0.0", "1.1.0")
#: The same as a managed image, which exists in one region only.
MANAGED = "corral"
#: A marketplace image with terms to accept, once per subscription.
WITH_TERMS = "acme:gpu-desktop:pro"
#: Marketplace images: publisher:offer:sku -> versions.
MARKETPLACE: Mapping[str, tuple[str, ...]] = {
    WITH_TERMS: ("3.1.0",),
    "microsoft-dsvm:ubuntu-hpc:2204": ("22.04.2025081801", "22.04.2025121501"),
    "canonical:0001-com-ubuntu-server-jammy:22_04-lts-gen2": ("22.04.202508050", "22.04.202512010"),
}
GALLERIES = "Microsoft.Compute/galleries"
_GALLERY_ID = re.compile(
    r"/subscriptions/[^/]+/resourceGroups/(?P<group>[^/]+)/providers/Microsoft\.Compute/galleries/"
    r"(?P<gallery>[^/]+)/images/(?P<image>[^/]+)(?:/versions/(?P<version>[^/]+))?$",
    re.IGNORECASE,
)
_MANAGED_ID = re.compile(
    r"/subscriptions/[^/]+/resourceGroups/(?P<group>[^/]+)/providers/Microsoft\.Compute/images/(?P<image>[^/]+)$",
    re.IGNORECASE,
)


def must_exist(_face: Face, reference: Mapping[str, str], location: str) -> None:
    """ArmError where a machine of that region cannot be made from the image."""
    path = reference.get("id", "")
    if gallery := _GALLERY_ID.match(path):
        known = gallery["version"] is None or gallery["version"] in VERSIONS
        if not known or not _is_ours(gallery["group"], gallery["gallery"], gallery["image"]):
            text = f"The gallery image {path} is not available in {location} region."
            raise ArmError(404, "GalleryImageNotFound", text)
        return
    if managed := _MANAGED_ID.match(path):
        if managed["group"].lower() != GROUP or managed["image"].lower() != MANAGED:
            raise ArmError(404, "NotFound", f"The Image '{path}' cannot be found in '{location}' region.")
        if location != catalogue("azure").regions[0]:
            raise ArmError(404, "NotFound", f"The Image '{path}' cannot be found in '{location}' region.")
        return
    name = ":".join(reference.get(part, "") for part in ("publisher", "offer", "sku")).lower()
    version = reference.get("version", "")
    if version not in (*MARKETPLACE.get(name, ()), "latest") or name not in MARKETPLACE:
        text = f"The platform image '{name}:{version}' is not available. Verify that all fields are correct."
        raise ArmError(404, "PlatformImageNotFound", text)


def terms_must_be_met(face: Face, body: Mapping[str, Any], subscription: str) -> None:
    """ArmError where an image has terms that are not named, or not accepted."""
    reference = body["properties"]["storageProfile"]["imageReference"]
    name = ":".join(str(reference.get(part, "")) for part in ("publisher", "offer", "sku")).lower()
    plan = body.get("plan") or {}
    if name != WITH_TERMS:
        return
    named = ":".join(str(plan.get(part, "")) for part in ("publisher", "product", "name")).lower()
    if named != WITH_TERMS:
        text = "Creating a virtual machine from Marketplace image requires Plan information in the request."
        raise ArmError(400, "VMMarketplaceInvalidInput", text)
    if (subscription.lower(), name) not in face.accepted:
        text = (
            "User failed validation to purchase resources. Error message: 'You have not accepted the legal "
            f"terms on this subscription: '{subscription}' for this plan.'"
        )
        raise ArmError(400, "ResourcePurchaseValidationFailed", text)


def agreement(face: Face, call: Call) -> Response:
    """The terms of a plan (GET), or the same accepted (PUT)."""
    name = ":".join(call.path[part] for part in ("publisher", "offer", "plan")).lower()
    if name != WITH_TERMS:
        raise ArmError(404, "NotFound", f"The plan '{name}' was not found.")
    if (call.body.get("properties") or {}).get("accepted"):
        face.accepted.add((call.subscription.lower(), name))
    kind = "Microsoft.MarketplaceOrdering/offertypes/publishers/offers/plans/agreements"
    facts = {
        "publisher": call.path["publisher"],
        "product": call.path["offer"],
        "plan": call.path["plan"],
        "accepted": (call.subscription.lower(), name) in face.accepted,
        "licenseTextLink": "https://example.org/terms",
    }
    return JSONResponse({"id": call.url, "name": call.path["plan"], "type": kind, "properties": facts})


def _is_ours(group: str, gallery: str, image: str) -> bool:
    return (group.lower(), gallery.lower(), image.lower()) == (GROUP, GALLERY, IMAGE)


def gallery_image(_face: Face, call: Call) -> Response:
    """The definition of a gallery's image."""
    _must_be_ours(call)
    body = _resource(call, f"{GALLERIES}/{GALLERY}/images", IMAGE)
    body["properties"] = {
        "osType": "Linux",
        "osState": "Generalized",
        "hyperVGeneration": "V2",
        "architecture": "x64",
        "identifier": {"publisher": "corral", "offer": "corral", "sku": "gpu"},
        "provisioningState": "Succeeded",
    }
    return JSONResponse(body)


def gallery_versions(_face: Face, call: Call) -> Response:
    """The versions of a gallery's image."""
    _must_be_ours(call)
    return listing(call, [_version(call, version) for version in VERSIONS])


def gallery_version(_face: Face, call: Call) -> Response:
    """One version."""
    _must_be_ours(call)
    if call.path["version"] not in VERSIONS:
        kind = f"{GALLERIES}/{call.path['gallery']}/images/{call.path['image']}/versions"
        raise missing(kind, call.path["version"], call.group)
    return JSONResponse(_version(call, call.path["version"]))


def managed_image(_face: Face, call: Call) -> Response:
    """A managed image."""
    if call.group.lower() != GROUP or call.path["name"].lower() != MANAGED:
        raise missing("Microsoft.Compute/images", call.path["name"], call.group)
    body = _resource(call, "Microsoft.Compute/images", MANAGED)
    disk = {"osType": "Linux", "osState": "Generalized", "diskSizeGB": 30}
    body["properties"] = {
        "hyperVGeneration": "V2",
        "provisioningState": "Succeeded",
        "storageProfile": {"osDisk": disk},
    }
    return JSONResponse(body)


def market_versions(_face: Face, call: Call) -> Response:
    """The versions of a marketplace image: a bare array, newest first if asked for so."""
    versions = list(_market(call))
    if call.query.get("$orderby", "").lower().endswith("desc"):
        versions.reverse()
    top = int(call.query.get("$top") or len(versions))
    location = call.path["location"].lower()
    rows = [{"id": f"{call.url}/{name}", "name": name, "location": location} for name in versions[:top]]
    return JSONResponse(rows)


def market_version(_face: Face, call: Call) -> Response:
    """One version of a marketplace image."""
    version = call.path["version"]
    if version not in _market(call):
        raise ArmError(404, "NotFound", f"Artifact: VMImage was not found: version {version}.")
    facts: dict[str, Any] = {
        "hyperVGeneration": "V2",
        "architecture": "x64",
        "osDiskImage": {"operatingSystem": "Linux"},
        "dataDiskImages": [],
    }
    names = {part: call.path[part] for part in ("publisher", "offer", "sku")}
    if ":".join(names.values()).lower() == WITH_TERMS:
        facts["plan"] = {"publisher": names["publisher"], "product": names["offer"], "name": names["sku"]}
    location = call.path["location"].lower()
    return JSONResponse({"id": call.url, "name": version, "location": location, "properties": facts})


def _market(call: Call) -> tuple[str, ...]:
    name = ":".join(call.path[part] for part in ("publisher", "offer", "sku")).lower()
    if name not in MARKETPLACE or call.path["location"].lower() not in catalogue("azure").regions:
        raise ArmError(404, "NotFound", f"Artifact: VMImage was not found: {name}.")
    return MARKETPLACE[name]


def _must_be_ours(call: Call) -> None:
    if not _is_ours(call.group, call.path["gallery"], call.path["image"]):
        raise missing(f"{GALLERIES}/{call.path['gallery']}/images", call.path["image"], call.group)


def _version(call: Call, version: str) -> dict[str, Any]:
    body = _resource(call, f"{GALLERIES}/{GALLERY}/images/{IMAGE}/versions", version)
    regions = [{"name": region, "regionalReplicaCount": 1} for region in catalogue("azure").regions]
    body["properties"] = {
        "provisioningState": "Succeeded",
        "publishingProfile": {"targetRegions": regions, "excludeFromLatest": False},
        "storageProfile": {"osDiskImage": {"sizeInGB": 30, "hostCaching": "ReadWrite"}},
    }
    return body


def _resource(call: Call, kind: str, name: str) -> dict[str, Any]:
    kinds = re.sub(r"(galleries|images|versions)/[^/]+", r"\1", kind)
    path = resource_id(call.subscription, GROUP, kind, name)
    return {"id": path, "name": name, "type": kinds, "location": catalogue("azure").regions[0]}
