"""Images by ARM id or URN, pinned to one version so that every send of a launch asks for the same."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from providers.azure.arm import Arm, same_place
from providers.azure.versions import COMPUTE, GALLERIES
from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import Scope

# Keys of LaunchRequest.extra that pinning fills in.
IMAGE_DISK = "image_disk_gib"
PLAN_NAME, PLAN_PRODUCT, PLAN_PUBLISHER = "plan_name", "plan_product", "plan_publisher"

_GALLERY = re.compile(r"^(?P<image>/.+/galleries/[^/]+/images/[^/]+)(?:/versions/(?P<version>[^/]+))?$", re.I)
_MANAGED = re.compile(r"^/.+/providers/Microsoft\.Compute/images/[^/]+$", re.IGNORECASE)
_ARCHITECTURES = {"x64": "x86_64", "arm64": "arm64"}


@dataclass(frozen=True, slots=True)
class Image:
    """What one version of an image is. `plan` is empty unless its terms must be named in the launch."""

    reference: str
    generation: str | None = None
    architecture: str | None = None
    disk_gib: int = 0
    plan: tuple[tuple[str, str], ...] = ()

    def extra(self) -> dict[str, str]:
        """For LaunchRequest.extra."""
        size = {IMAGE_DISK: str(self.disk_gib)} if self.disk_gib else {}
        return {**size, **dict(self.plan)}


def reference(image: str) -> dict[str, str]:
    """An image as ARM's imageReference: `publisher:offer:sku:version`, or an id."""
    if image.startswith("/"):
        return {"id": image}
    publisher, offer, sku, version = image.split(":")
    return {"publisher": publisher, "offer": offer, "sku": sku, "version": version}


class Images:
    """Looks images up for one account."""

    def __init__(self, arm: Arm) -> None:
        self._arm = arm

    def resolve(self, image: str, region: str) -> Image:
        """The image with its version pinned. ProviderError image_missing where it is not in the region."""
        if image.startswith("/"):
            gallery = _GALLERY.match(image)
            if gallery is not None:
                return self._gallery(gallery["image"], gallery["version"], region)
            if _MANAGED.match(image):
                return self._managed(image, region)
        elif image.count(":") == 3 and all(image.split(":")):
            return self._marketplace(image, region)
        raise ProviderError(
            ErrorKind.INVALID_REQUEST,
            f"image {image!r}: expected publisher:offer:sku:version, a gallery image id or an image id",
            code="ImageReference",
            scope=Scope("azure", self._arm.account, region, image=image),
        )

    def _marketplace(self, urn: str, region: str) -> Image:
        publisher, offer, sku, version = urn.split(":")
        path = (
            f"{self._arm.subscription}/providers/Microsoft.Compute/locations/{region}/publishers/{publisher}"
            f"/artifacttypes/vmimage/offers/{offer}/skus/{sku}/versions"
        )
        if version.lower() == "latest":
            version = self._newest(path, urn, region)
        found = self._get(f"{path}/{version}", COMPUTE, urn, region)
        facts, plan = found.get("properties") or {}, (found.get("properties") or {}).get("plan")
        size = ((facts.get("osDiskImage") or {}).get("sizeInGb")) or 0
        return Image(
            f"{publisher}:{offer}:{sku}:{version}",
            facts.get("hyperVGeneration"),
            _ARCHITECTURES.get(str(facts.get("architecture")).lower()),
            int(size),
            (
                (PLAN_NAME, plan["name"]),
                (PLAN_PRODUCT, plan["product"]),
                (PLAN_PUBLISHER, plan["publisher"]),
            )
            if plan
            else (),
        )

    def _newest(self, path: str, urn: str, region: str) -> str:
        # A bare array, not the `value` envelope of other listings.
        answer: Any = self._get(path, COMPUTE, urn, region, top_="1", orderby_="name desc")
        rows = answer if isinstance(answer, list) else answer.get("value") or []
        if not rows:
            raise self._missing(urn, region, "no version of it")
        return str(max((row["name"] for row in rows), key=_version_order))

    def _gallery(self, image: str, version: str | None, region: str) -> Image:
        about = self._get(image, GALLERIES, image, region).get("properties") or {}
        if version is None:
            version = self._newest_in(image, region)
        path = f"{image}/versions/{version}"
        found = self._get(path, GALLERIES, path, region).get("properties") or {}
        if not _published_in(found, region):
            raise self._missing(path, region, "the version is not replicated there")
        disk = ((found.get("storageProfile") or {}).get("osDiskImage") or {}).get("sizeInGB") or 0
        return Image(
            path,
            about.get("hyperVGeneration"),
            _ARCHITECTURES.get(str(about.get("architecture")).lower()),
            int(disk),
        )

    def _newest_in(self, image: str, region: str) -> str:
        """The newest version that is replicated to the region and meant for `latest`."""
        rows = self._arm.pages(f"{image}/versions", GALLERIES)
        fit = [
            row["name"]
            for row in rows
            if _published_in(row.get("properties") or {}, region)
            and not (row["properties"].get("publishingProfile") or {}).get("excludeFromLatest")
        ]
        if not fit:
            raise self._missing(image, region, "no version of it is replicated there")
        return str(max(fit, key=_version_order))

    def _managed(self, image: str, region: str) -> Image:
        found = self._get(image, COMPUTE, image, region)
        if not same_place(str(found.get("location")), region):
            raise self._missing(image, region, f"it is in {found.get('location')}")
        facts = found.get("properties") or {}
        disk = ((facts.get("storageProfile") or {}).get("osDisk") or {}).get("diskSizeGB") or 0
        return Image(image, facts.get("hyperVGeneration"), None, int(disk))

    def _get(self, path: str, version: str, image: str, region: str, **query: str) -> dict[str, Any]:
        try:
            return self._arm.get(path, version, **query)
        except ProviderError as error:
            if error.kind in {ErrorKind.NOT_FOUND, ErrorKind.IMAGE_MISSING}:
                raise self._missing(image, region, error.message) from error
            raise

    def _missing(self, image: str, region: str, why: str) -> ProviderError:
        return ProviderError(
            ErrorKind.IMAGE_MISSING,
            f"image {image} in {region}: {why}",
            code="ImageNotFound",
            scope=Scope("azure", self._arm.account, region, image=image),
        )


def _published_in(version: dict[str, Any], region: str) -> bool:
    targets = (version.get("publishingProfile") or {}).get("targetRegions") or ()
    return any(same_place(str(target.get("name")), region) for target in targets)


def _version_order(version: str) -> tuple[int, ...]:
    return tuple(int(part) if part.isdigit() else 0 for part in version.split("."))
