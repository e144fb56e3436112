"""How fast Azure may be asked: the token buckets that a call is counted in, each at half of Azure's own size.

Resource Manager counts per subscription, principal and kind of call; the compute provider counts again, per
subscription, region and policy (Azure documentation, "Understand how Azure Resource Manager throttles
requests", "Compute throttling limits": buckets refilled by the minute). The other half is left to everyone
else who works in the subscription.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from clock import Clock
from providers.rate_limit import Rate, RateLimiter
from providers.vocabulary import Scope

EVERYWHERE = "all regions"
"""Where Resource Manager's own buckets stand, and the region of a call that names none."""

READS, WRITES, DELETES = "reads", "writes", "deletes"
PUT_VM, DELETE_VM = "PutVM", "DeleteVM"
LOW_COST_GET, HIGH_COST_GET, GET_OPERATION = "LowCostGet", "HighCostGet", "GetOperation"
SKUS, GRAPH, QUOTA, SCORES = "Skus", "ResourceGraph", "Quota", "PlacementScores"

RATES: dict[str, Rate] = {
    READS: Rate(12.5, 125),
    WRITES: Rate(5, 100),
    DELETES: Rate(5, 100),
    PUT_VM: Rate(250 / 60, 750),
    DELETE_VM: Rate(250 / 60, 750),
    LOW_COST_GET: Rate(4_000 / 60, 12_000),
    HIGH_COST_GET: Rate(150 / 60, 450),
    GET_OPERATION: Rate(2_500 / 60, 7_500),
    # Listing the sizes of a region keeps the service busy for half a minute.
    SKUS: Rate(0.5, 20),
    # 15 questions in 5 seconds ("Guidance for throttled requests in Azure Resource Graph").
    GRAPH: Rate(1.5, 7),
    # Neither service publishes a figure.
    QUOTA: Rate(0.5, 10),
    SCORES: Rate(0.2, 10),
}


@dataclass(frozen=True, slots=True)
class _Row:
    method: str
    path: re.Pattern[str]
    bucket: str


def _row(method: str, path: str, bucket: str) -> _Row:
    return _Row(method, re.compile(path, re.IGNORECASE), bucket)


_COMPUTE = r".*/providers/Microsoft\.Compute"
# First match counts; calls that fit none are counted by Resource Manager alone.
_POLICIES: tuple[_Row, ...] = (
    _row("PUT", rf"{_COMPUTE}/virtualMachines/[^/]+", PUT_VM),
    _row("DELETE", rf"{_COMPUTE}/virtualMachines/[^/]+", DELETE_VM),
    _row("GET", rf"{_COMPUTE}/virtualMachines/[^/]+", LOW_COST_GET),
    _row("GET", rf"{_COMPUTE}/virtualMachines", HIGH_COST_GET),
    _row("GET", rf"{_COMPUTE}/locations/[^/]+/operations/[^/]+", GET_OPERATION),
    _row("GET", rf"{_COMPUTE}/skus", SKUS),
    _row("POST", rf"{_COMPUTE}/locations/[^/]+/placementScores/.*", SCORES),
    _row("POST", r".*/providers/Microsoft\.ResourceGraph/resources", GRAPH),
    _row("(GET|PUT)", r".*/providers/Microsoft\.Quota/.*", QUOTA),
)
_KINDS = {"GET": READS, "DELETE": DELETES}  # everything else is a write, questions by POST among them
_LOCATION = re.compile(r"/locations/(?P<region>[^/]+)", re.IGNORECASE)


def buckets(method: str, url: str, region: str | None = None) -> tuple[tuple[str, str], ...]:
    """(region, bucket) of each bucket that a call takes from. region: of what the call is about, where its
    path does not say.
    """
    path = urlsplit(url).path.rstrip("/")
    found = [(EVERYWHERE, _KINDS.get(method, WRITES))]
    for row in _POLICIES:
        if re.fullmatch(row.method, method) and row.path.fullmatch(path):
            named = _LOCATION.search(path)
            found.append((named["region"].lower() if named else region or EVERYWHERE, row.bucket))
            break
    return tuple(found)


def limiter(clock: Clock, account: str) -> RateLimiter:
    """The buckets of one account."""
    return RateLimiter(clock, RATES, RATES[READS], scope=Scope("azure", account))
