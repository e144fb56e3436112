"""Which machine image a launch uses, and what must be known of it to launch without leaving a disk behind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from providers.aws.api import Api
from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import Scope

DEFAULT_IMAGE = "self/corral-*"

_ID = re.compile(r"ami-[0-9a-f]{8,17}")
_OWNED = re.compile(r"(self|amazon|aws-marketplace|\d{12})/(.{3,128})")
_FORMS = (
    "ami-ID, ssm:PARAMETER, or OWNER/NAME where OWNER is self, amazon or an account id and NAME may hold *"
)


@dataclass(frozen=True, slots=True)
class Image:
    """An AMI. `root_device` is what its root disk must be called in a launch: a mapping under another name
    makes a second disk and leaves the root's own settings in force. `data_devices` are its further disks.
    """

    id: str
    root_device: str
    root_gib: int
    data_devices: tuple[str, ...]


def resolve(api: Api, region: str, wanted: str) -> Image:
    """The image that a setting means in a region: an id, an SSM parameter that holds one, or the newest of
    an owner's by name. Raises ProviderError (image_missing, invalid_request).
    """
    subject = _subject(api, region, wanted)
    if wanted.startswith("ssm:"):
        name = wanted.removeprefix("ssm:")
        wanted = str(api.read("ssm", region, "get_parameter", subject, Name=name)["Parameter"]["Value"])
    if _ID.fullmatch(wanted):
        found = api.read("ec2", region, "describe_images", subject, ImageIds=[wanted])["Images"]
    elif owned := _OWNED.fullmatch(wanted):
        found = _by_name(api, region, subject, *owned.groups())
    else:
        message = f"image {wanted!r}: expected {_FORMS}"
        raise ProviderError(ErrorKind.INVALID_REQUEST, message, scope=subject)
    if not found:
        message = f"no available image {wanted} in {region}"
        raise ProviderError(ErrorKind.IMAGE_MISSING, message, code="InvalidAMIID.NotFound", scope=subject)
    return parse(max(found, key=lambda image: (image.get("CreationDate", ""), image["ImageId"])))


def parse(raw: Mapping[str, Any]) -> Image:
    """From DescribeImages. The root disk can be no smaller than its snapshot."""
    disks = {
        mapping["DeviceName"]: mapping["Ebs"] for mapping in raw["BlockDeviceMappings"] if "Ebs" in mapping
    }
    root = raw["RootDeviceName"]
    return Image(
        raw["ImageId"],
        root,
        int(disks.get(root, {}).get("VolumeSize", 0)),
        tuple(sorted(device for device in disks if device != root)),
    )


def _by_name(api: Api, region: str, subject: Scope, owner: str, name: str) -> list[dict[str, Any]]:
    """Owners are always given: anyone may publish an image under any name."""
    found: list[dict[str, Any]] = api.read(
        "ec2",
        region,
        "describe_images",
        subject,
        Owners=[owner],
        Filters=[{"Name": "name", "Values": [name]}, {"Name": "state", "Values": ["available"]}],
    )["Images"]
    return found


def _subject(api: Api, region: str, wanted: str) -> Scope:
    account = api.account
    return Scope(provider=account.provider, account=account.account, region=region, image=wanted)
