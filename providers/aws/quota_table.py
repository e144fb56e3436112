"""EC2's vCPU quotas, as data: which instance types, bought in which way, count against which.

Codes and names: Amazon EC2 User Guide, "On-Demand Instance quotas" and "Spot Instance quotas"; Amazon EC2
instance types guide, "Service quotas". AWS has renamed and split quotas before, so a region's own list is
searched by name first, and by code where the name is a new one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from providers.aws.instance_types import quota_family
from providers.vocabulary import CapacityType

_GENERATION = re.compile(r"[a-z]+(\d+)")


@dataclass(frozen=True, slots=True)
class Limit:
    """A quota that AWS may have. name: a pattern for the whole of its QuotaName.

    since: it counts only generations of the family from this one on, and only where the region has it; the
    family's other quota counts the rest then.
    """

    family: str
    capacity_type: CapacityType
    code: str
    name: str
    since: int = 0


_STANDARD = r"Standard \([A-Z, ]+\)"

LIMITS: tuple[Limit, ...] = (
    *(
        Limit(family, CapacityType.ON_DEMAND, code, f"Running On-Demand {called} instances")
        for family, code, called in (
            ("P", "L-417A185B", "P"),
            ("G", "L-DB2E81BA", "G and VT"),
            ("Trn", "L-2C3B7624", "Trn"),
            ("Inf", "L-1945791B", "Inf"),
            ("DL", "L-6E869C2A", "DL"),
            ("F", "L-74FC7D96", "F"),
            ("Standard", "L-1216C47A", _STANDARD),
        )
    ),
    *(
        Limit(family, CapacityType.SPOT, code, f"All {called} Spot Instance Requests", since)
        for family, code, called, since in (
            ("P", "L-7212CCBC", r"P(?:4, P3 and P2)?", 0),
            ("P", "L-C4BD4855", r"P5", 5),
            ("G", "L-3819A6DF", "G and VT", 0),
            ("Trn", "L-6B0D517C", "Trn", 0),
            ("Inf", "L-B5D1601B", "Inf", 0),
            ("DL", "L-85EED4F7", "DL", 0),
            ("F", "L-88CF9481", "F", 0),
            ("Standard", "L-34B43A08", _STANDARD, 0),
        )
    ),
)


_CODES = frozenset(limit.code for limit in LIMITS)


def is_known(entry: Mapping[str, Any]) -> bool:
    """Whether a vendor's entry, which has QuotaCode and QuotaName, is about a quota of this table."""
    name = entry.get("QuotaName", "")
    return entry["QuotaCode"] in _CODES or any(re.fullmatch(limit.name, name) for limit in LIMITS)


def limit_of(type_name: str, capacity_type: CapacityType, present: frozenset[Limit]) -> Limit | None:
    """The quota that a type counts against, of those that a region has; None if it has none of them."""
    family, number = quota_family(type_name), generation(type_name)
    fitting = [
        limit
        for limit in present
        if (limit.family, limit.capacity_type) == (family, capacity_type) and number >= limit.since
    ]
    return max(fitting, key=lambda limit: limit.since, default=None)


def is_split(limit: Limit, present: frozenset[Limit]) -> bool:
    """True if another quota of the region counts a part of the same family."""
    return any(
        other != limit and (other.family, other.capacity_type) == (limit.family, limit.capacity_type)
        for other in present
    )


def generation(type_name: str) -> int:
    """The number after a type's first letters: 5 of `p5en.48xlarge`; 0 where there is none."""
    number = _GENERATION.match(type_name)
    return int(number.group(1)) if number else 0
