"""Tags within EC2's limits (EC2 User Guide, "Tag your Amazon EC2 resources")."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sandbox.faces.ec2.errors import AwsError
from sandbox.vm import CapacityType

_MOST_TAGS, _TAG_KEY, _TAG_VALUE = 50, 128, 256
_TAGGED = ("instance", "volume", "network-interface", "spot-instances-request")


def read_tags(specifications: list[Mapping[str, Any]], market: CapacityType) -> dict[str, dict[str, str]]:
    """The tags of each kind of resource that a launch makes."""
    found: dict[str, dict[str, str]] = {}
    for specification in specifications:
        kind = specification.get("ResourceType", "")
        if kind not in _TAGGED or (kind == "spot-instances-request" and market != "spot"):
            raise AwsError("InvalidParameterValue", f"'{kind}' is not a valid taggable resource type here.")
        if kind in found:
            raise AwsError("InvalidParameterValue", f"Duplicate tag specification for '{kind}'.")
        found[kind] = tag_map(specification.get("Tags", []))
    return found


def tag_map(tags: list[Mapping[str, Any]]) -> dict[str, str]:
    """Tags within EC2's limits, by key."""
    if len(tags) > _MOST_TAGS:
        raise AwsError("TagLimitExceeded", f"The maximum number of Tags for a resource is {_MOST_TAGS}.")
    found: dict[str, str] = {}
    for tag in tags:
        key, value = tag.get("Key", ""), tag.get("Value", "")
        if not key or len(key) > _TAG_KEY or len(value) > _TAG_VALUE:
            raise AwsError("InvalidParameterValue", f"Tag '{key[:40]}' exceeds the allowed length")
        if key.lower().startswith("aws:"):
            text = "Tag keys starting with 'aws:' are reserved for internal use"
            raise AwsError("InvalidParameterValue", text)
        if key in found:
            raise AwsError("InvalidParameterValue", f"Duplicate tag key '{key}' specified.")
        found[key] = value
    return found
