"""The part of Cloud Quotas' API that is served, in the form of a discovery document.

google-api-python-client ships none of it; names and types are those of google-cloud-quotas 0.6
(`cloudquotas_v1.types.QuotaInfo`, `QuotaPreference`) in proto3's JSON form.
"""

from __future__ import annotations

from typing import Any

_TEXT: dict[str, Any] = {"type": "string"}
_FLAG: dict[str, Any] = {"type": "boolean"}
_TEXTS: dict[str, Any] = {"type": "array", "items": _TEXT}


def _parameter(place: str) -> dict[str, Any]:
    return {"type": "string", "location": place}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


_PARENT = "v1/projects/{projectsId}/locations/{locationsId}/quotaPreferences"


def _preference(method: str, verb: str, path: str, query: tuple[str, ...], **schemas: Any) -> dict[str, Any]:
    return {
        "id": f"cloudquotas.projects.locations.quotaPreferences.{method}",
        "httpMethod": verb,
        "flatPath": path,
        "parameters": {name: _parameter("query") for name in query},
        **{key: {"$ref": name} for key, name in schemas.items()},
    }


_PREFERENCES: dict[str, Any] = {
    "list": _preference(
        "list",
        "GET",
        _PARENT,
        ("pageSize", "pageToken", "filter", "orderBy"),
        response="ListQuotaPreferencesResponse",
    ),
    "create": _preference(
        "create",
        "POST",
        _PARENT,
        ("quotaPreferenceId", "ignoreSafetyChecks"),
        request="QuotaPreference",
        response="QuotaPreference",
    ),
    "get": _preference("get", "GET", f"{_PARENT}/{{quotaPreferencesId}}", (), response="QuotaPreference"),
    "patch": _preference(
        "patch",
        "PATCH",
        f"{_PARENT}/{{quotaPreferencesId}}",
        ("updateMask", "allowMissing", "validateOnly", "ignoreSafetyChecks"),
        request="QuotaPreference",
        response="QuotaPreference",
    ),
}

DOCUMENT: dict[str, Any] = {
    "servicePath": "",
    "parameters": {
        name: _parameter("query") for name in ("$.xgafv", "access_token", "alt", "$alt", "fields", "key")
    },
    "resources": {
        "quotaInfos": {
            "methods": {
                "list": {
                    "id": "cloudquotas.projects.locations.services.quotaInfos.list",
                    "httpMethod": "GET",
                    "flatPath": (
                        "v1/projects/{projectsId}/locations/{locationsId}/services/{servicesId}/quotaInfos"
                    ),
                    "parameters": {name: _parameter("query") for name in ("pageSize", "pageToken")},
                    "response": {"$ref": "ListQuotaInfosResponse"},
                }
            }
        },
        "quotaPreferences": {"methods": _PREFERENCES},
    },
    "schemas": {
        "ListQuotaInfosResponse": _object(
            quotaInfos={"type": "array", "items": {"$ref": "QuotaInfo"}}, nextPageToken=_TEXT
        ),
        "QuotaInfo": _object(
            name=_TEXT,
            quotaId=_TEXT,
            metric=_TEXT,
            service=_TEXT,
            isPrecise=_FLAG,
            refreshInterval=_TEXT,
            containerType={
                "type": "string",
                "enum": ["CONTAINER_TYPE_UNSPECIFIED", "PROJECT", "FOLDER", "ORGANIZATION"],
            },
            dimensions=_TEXTS,
            metricDisplayName=_TEXT,
            quotaDisplayName=_TEXT,
            metricUnit=_TEXT,
            quotaIncreaseEligibility={"$ref": "QuotaIncreaseEligibility"},
            isFixed=_FLAG,
            dimensionsInfos={"type": "array", "items": {"$ref": "DimensionsInfo"}},
            isConcurrent=_FLAG,
            serviceRequestQuotaUri=_TEXT,
        ),
        "QuotaIncreaseEligibility": _object(
            isEligible=_FLAG,
            ineligibilityReason={
                "type": "string",
                "enum": [
                    "INELIGIBILITY_REASON_UNSPECIFIED",
                    "NO_VALID_BILLING_ACCOUNT",
                    "OTHER",
                    "NOT_SUPPORTED",
                    "NOT_ENOUGH_USAGE_HISTORY",
                ],
            },
        ),
        "DimensionsInfo": _object(
            dimensions={"type": "object", "additionalProperties": _TEXT},
            details={"$ref": "QuotaDetails"},
            applicableLocations=_TEXTS,
        ),
        "QuotaDetails": _object(
            value={"type": "string", "format": "int64"}, rolloutInfo={"$ref": "RolloutInfo"}
        ),
        "RolloutInfo": _object(ongoingRollout=_FLAG),
        "ListQuotaPreferencesResponse": _object(
            quotaPreferences={"type": "array", "items": {"$ref": "QuotaPreference"}},
            nextPageToken=_TEXT,
            unreachable=_TEXTS,
        ),
        "QuotaPreference": _object(
            name=_TEXT,
            dimensions={"type": "object", "additionalProperties": _TEXT},
            quotaConfig={"$ref": "QuotaConfig"},
            etag=_TEXT,
            createTime=_TEXT,
            updateTime=_TEXT,
            service=_TEXT,
            quotaId=_TEXT,
            reconciling=_FLAG,
            justification=_TEXT,
            contactEmail=_TEXT,
        ),
        "QuotaConfig": _object(
            preferredValue={"type": "string", "format": "int64"},
            stateDetail=_TEXT,
            grantedValue={"type": "string", "format": "int64"},
            traceId=_TEXT,
            annotations={"type": "object", "additionalProperties": _TEXT},
            requestOrigin={
                "type": "string",
                "enum": ["ORIGIN_UNSPECIFIED", "CLOUD_CONSOLE", "AUTO_ADJUSTER"],
            },
        ),
    },
}
