"""The methods of the API that the face serves: id, HTTP method, path, query parameters."""

from __future__ import annotations

from dataclasses import dataclass

_LIST = frozenset({"filter", "maxResults", "orderBy", "pageToken", "returnPartialSuccess"})
_AGGREGATED = _LIST | {"includeAllScopes", "serviceProjectNumber"}
#: Parameters that every method takes.
COMMON = frozenset(
    {"$.xgafv", "access_token", "alt", "callback", "fields", "key", "oauth_token", "prettyPrint", "quotaUser"}
    | {"uploadType", "upload_protocol", "userIp", "$alt"}
)


@dataclass(frozen=True, slots=True)
class Method:
    """`path` is below `/compute/v1/projects/{project}`, or from the root if it starts with a slash."""

    id: str
    verb: str
    path: str
    query: frozenset[str] = frozenset()


_ZONE = "zones/{zone}"
_REGION = "regions/{region}"
_PREFERENCES = "cloudquotas.projects.locations.quotaPreferences"
_PREFERENCES_PATH = "/v1/projects/{project}/locations/global/quotaPreferences"

METHODS: tuple[Method, ...] = (
    Method("projects.get", "GET", ""),
    Method("zones.list", "GET", "zones", _LIST),
    Method("zones.get", "GET", _ZONE),
    Method("regions.list", "GET", "regions", _LIST),
    Method("regions.get", "GET", _REGION),
    Method("instances.insert", "POST", f"{_ZONE}/instances", frozenset({"requestId"})),
    Method("instances.bulkInsert", "POST", f"{_ZONE}/instances/bulkInsert", frozenset({"requestId"})),
    Method("instances.list", "GET", f"{_ZONE}/instances", _LIST),
    Method("instances.get", "GET", f"{_ZONE}/instances/{{instance}}"),
    Method(
        "instances.delete",
        "DELETE",
        f"{_ZONE}/instances/{{instance}}",
        frozenset({"requestId", "noGracefulShutdown"}),
    ),
    Method("instances.aggregatedList", "GET", "aggregated/instances", _AGGREGATED),
    Method("zoneOperations.list", "GET", f"{_ZONE}/operations", _LIST),
    Method("zoneOperations.get", "GET", f"{_ZONE}/operations/{{operation}}"),
    Method("zoneOperations.wait", "POST", f"{_ZONE}/operations/{{operation}}/wait"),
    Method("machineTypes.list", "GET", f"{_ZONE}/machineTypes", _LIST),
    Method("machineTypes.aggregatedList", "GET", "aggregated/machineTypes", _AGGREGATED),
    Method("acceleratorTypes.aggregatedList", "GET", "aggregated/acceleratorTypes", _AGGREGATED),
    Method("reservations.aggregatedList", "GET", "aggregated/reservations", _AGGREGATED),
    Method("resourcePolicies.list", "GET", f"{_REGION}/resourcePolicies", _LIST),
    Method("resourcePolicies.insert", "POST", f"{_REGION}/resourcePolicies", frozenset({"requestId"})),
    Method("resourcePolicies.get", "GET", f"{_REGION}/resourcePolicies/{{policy}}"),
    Method(
        "resourcePolicies.delete",
        "DELETE",
        f"{_REGION}/resourcePolicies/{{policy}}",
        frozenset({"requestId"}),
    ),
    Method("regionOperations.get", "GET", f"{_REGION}/operations/{{operation}}"),
    Method("disks.aggregatedList", "GET", "aggregated/disks", _AGGREGATED),
    Method("disks.delete", "DELETE", f"{_ZONE}/disks/{{disk}}", frozenset({"requestId"})),
    Method("reservations.get", "GET", f"{_ZONE}/reservations/{{reservation}}"),
    Method("futureReservations.aggregatedList", "GET", "aggregated/futureReservations", _AGGREGATED),
    Method("images.getFromFamily", "GET", "global/images/family/{family}"),
    Method("images.get", "GET", "global/images/{image}"),
    Method("subnetworks.listUsable", "GET", "aggregated/subnetworks/listUsable", _LIST | {"serviceProject"}),
    Method("subnetworks.aggregatedList", "GET", "aggregated/subnetworks", _AGGREGATED | {"views"}),
    Method("subnetworks.get", "GET", f"{_REGION}/subnetworks/{{subnetwork}}", frozenset({"views"})),
    Method("advice.capacity", "POST", f"{_REGION}/advice/capacity"),
    Method("routers.list", "GET", f"{_REGION}/routers", _LIST),
    Method(
        "cloudresourcemanager.projects.testIamPermissions",
        "POST",
        "/v1/projects/{project}:testIamPermissions",
    ),
    Method(
        "cloudbilling.services.skus.list",
        "GET",
        "/v1/services/{service}/skus",
        frozenset({"currencyCode", "pageSize", "pageToken", "startTime", "endTime"}),
    ),
    Method(
        "cloudquotas.projects.locations.services.quotaInfos.list",
        "GET",
        "/v1/projects/{project}/locations/global/services/{service}/quotaInfos",
        frozenset({"pageSize", "pageToken"}),
    ),
    Method(
        f"{_PREFERENCES}.list",
        "GET",
        _PREFERENCES_PATH,
        frozenset({"pageSize", "pageToken", "filter", "orderBy"}),
    ),
    Method(
        f"{_PREFERENCES}.create",
        "POST",
        _PREFERENCES_PATH,
        frozenset({"quotaPreferenceId", "ignoreSafetyChecks"}),
    ),
    Method(f"{_PREFERENCES}.get", "GET", f"{_PREFERENCES_PATH}/{{preference}}"),
    Method(
        f"{_PREFERENCES}.patch",
        "PATCH",
        f"{_PREFERENCES_PATH}/{{preference}}",
        frozenset({"updateMask", "allowMissing", "validateOnly", "ignoreSafetyChecks"}),
    ),
)
