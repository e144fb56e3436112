"""Where a job may and may not run, as people write it, to canonical places: `aws`, `aws/us-east-1`, …"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from providers.regions import canonical_region
from service.context import STANDING
from service.jobs.draft import Draft, Reader

CLOUDS = ("aws", "gcp", "azure")
_EC2_ZONE_ID = re.compile(r"-az\d+$")


def _names(value: Any) -> list[str]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("is a name, or a list of names")
    return [name.strip() for name in names]


def place(text: str) -> str:
    """A place with its region in the cloud's own spelling. ValueError says what is wrong with it."""
    cloud, *below = text.strip().strip("/").split("/")
    if cloud in ("memory", STANDING):
        return text.strip()
    if cloud not in CLOUDS:
        raise ValueError(f"{cloud!r} is not a cloud; allowed: {', '.join((*CLOUDS, STANDING))}")
    if len(below) > 2:
        raise ValueError(f"{text!r} has too many parts; write cloud/region/zone")
    if cloud == "aws" and len(below) == 2 and not _EC2_ZONE_ID.search(below[1]):
        raise ValueError(
            f"{below[1]!r} is a zone's name, which accounts share out differently; write its id: use1-az4"
        )
    return "/".join([cloud, *(canonical_region(cloud, region) for region in below[:1]), *below[1:]])


def _of_region(text: str) -> str:
    """The place of a region that is written without its cloud: the spellings of the three differ."""
    if "/" in text:
        return place(text)
    for cloud in CLOUDS:
        try:
            return f"{cloud}/{canonical_region(cloud, text)}"
        except ValueError:
            continue
    raise ValueError(f"{text!r} is not a region of {', '.join(CLOUDS)}; write cloud/region")


def _places(target: str) -> Reader:
    def put(draft: Draft, value: Any, origin: str) -> None:
        draft.put(target, [place(name) for name in _names(value)], origin)

    return put


def _infra(draft: Draft, value: Any, origin: str) -> None:
    """SkyPilot's `aws/us-east-1`, where `*` is anything."""
    text = str(value).strip().strip("/")
    parts = [part for part in text.split("/") if part]
    while parts and parts[-1] == "*":
        parts.pop()
    if not parts:
        return
    if parts[0] == "*":
        if len(parts) != 2:
            raise ValueError("after '*' for the cloud write one region")
        draft.put("allow", [_of_region(parts[1])], origin)
        return
    if "*" in parts:
        raise ValueError("'*' may stand for the cloud or for the end only")
    draft.put("allow", [place("/".join(parts))], origin)


def _by_list(read: Any) -> Reader:
    """`clouds: [aws]` and `regions: [us-east-1]` limit together: regions of other clouds are refused."""

    def put(draft: Draft, value: Any, origin: str) -> None:
        if isinstance(value, Mapping):
            unknown = set(value) - {"allow", "deny"}
            if unknown:
                raise ValueError("as a mapping it has allow and deny")
            if value.get("deny") is not None:
                _add(draft, "deny", [read(name) for name in _names(value["deny"])], f"{origin}.deny")
            if value.get("allow") is None:
                return
            value, origin = value["allow"], f"{origin}.allow"
        _narrow(draft, [read(name) for name in _names(value)], origin)

    return put


def _add(draft: Draft, target: str, places: list[str], origin: str) -> None:
    if target in draft.values and draft.origins[target] != target:
        draft.values[target] = [*draft.values[target], *places]
        return
    draft.put(target, places, origin)


def _narrow(draft: Draft, places: list[str], origin: str) -> None:
    """Combine clouds and regions that are given apart."""
    before = draft.values.get("allow")
    if before is None or draft.origins["allow"] in ("allow", "infra", "resources.infra"):
        draft.put("allow", places, origin)
        return
    wide, narrow = sorted((before, places), key=lambda each: max(place.count("/") for place in each))
    outside = [
        one for one in narrow if not any(one == cloud or one.startswith(f"{cloud}/") for cloud in wide)
    ]
    if outside:
        raise ValueError(f"{outside[0]} is outside of {draft.origins['allow']}, which is {', '.join(before)}")
    draft.values["allow"] = narrow


PLACES: Mapping[str, Reader] = {
    "allow": _places("allow"),
    "deny": _places("deny"),
    "infra": _infra,
    "cloud": _by_list(place),
    "clouds": _by_list(place),
    "backends": _by_list(place),
    "region": _by_list(_of_region),
    "regions": _by_list(_of_region),
}
