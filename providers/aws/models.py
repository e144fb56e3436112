"""The parts of AWS's service models that the adapter uses.

botocore builds its clients from JSON descriptions. EC2's has 830 operations and takes 20 MB of memory, and
2 MB more for each client; the few that are called here take a fraction. All else about a client is botocore's
own. STS is left whole: the SDK's credential providers call it too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

OPERATIONS: dict[str, frozenset[str]] = {
    "ec2": frozenset(
        {
            "CancelSpotInstanceRequests",
            "CreatePlacementGroup",
            "DeletePlacementGroup",
            "DeleteVolume",
            "DescribeAvailabilityZones",
            "DescribeCapacityReservations",
            "DescribeImages",
            "DescribeInstanceTypeOfferings",
            "DescribeInstanceTypes",
            "DescribeInstances",
            "DescribePlacementGroups",
            "DescribeRegions",
            "DescribeRouteTables",
            "DescribeSpotInstanceRequests",
            "DescribeSpotPriceHistory",
            "DescribeSubnets",
            "DescribeVolumes",
            "GetSpotPlacementScores",
            "RunInstances",
            "TerminateInstances",
        }
    ),
    "pricing": frozenset({"GetProducts"}),
    "service-quotas": frozenset(
        {
            "GetAWSDefaultServiceQuota",
            "GetServiceQuota",
            "ListAWSDefaultServiceQuotas",
            "ListRequestedServiceQuotaChangeHistory",
            "ListServiceQuotas",
            "RequestServiceQuotaIncrease",
        }
    ),
    "ssm": frozenset({"GetParameter"}),
}


@cache
def loader() -> Any:
    """A botocore loader that gives out reduced models; one for the process, so that each is held once."""
    from botocore.loaders import Loader

    class Reducing(Loader):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self._reduced: dict[str, Any] = {}

        @property
        def search_paths(self) -> list[str]:
            """A copy: each boto3 session adds the folder of its resources, which are not used here."""
            return list(self._search_paths)

        def load_service_model(self, service: str, kind: str, api_version: str | None = None) -> Any:
            if kind != "service-2" or service not in OPERATIONS:
                return super().load_service_model(service, kind, api_version)
            if service not in self._reduced:
                # A loader of its own, since a loader keeps all that it ever read.
                whole = Loader().load_service_model(service, kind, api_version)
                self._reduced[service] = reduced(whole, OPERATIONS[service])
            return self._reduced[service]

    return Reducing()


def reduced(model: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """A service model with these operations only, the shapes that they reach, and no documentation."""
    operations = {name: _undocumented(model["operations"][name]) for name in sorted(names)}
    shapes: dict[str, Any] = {}
    waiting = _shapes_in(operations)
    while waiting:
        name = waiting.pop()
        if name not in shapes:
            shapes[name] = _undocumented(model["shapes"][name])
            waiting.extend(_shapes_in(shapes[name]))
    return {**model, "operations": operations, "shapes": shapes, "documentation": ""}


def _shapes_in(part: Any) -> list[str]:
    """The names under every key `shape`, at any depth."""
    if isinstance(part, list):
        return [name for item in part for name in _shapes_in(item)]
    if not isinstance(part, dict):
        return []
    named = [part["shape"]] if isinstance(part.get("shape"), str) else []
    return named + [name for value in part.values() for name in _shapes_in(value)]


def _undocumented(part: Any) -> Any:
    """A copy without the documentation that stands beside names (a member may itself be called so)."""
    if isinstance(part, list):
        return [_undocumented(item) for item in part]
    if not isinstance(part, dict):
        return part
    return {k: _undocumented(v) for k, v in part.items() if not (k == "documentation" and isinstance(v, str))}
