"""The part of Cloud Quotas' API that is served, in the form of a discovery document.

google-api-python-client ships none of it; names and types are those of google-cloud-quotas 0.6
(`cloudquotas_v1.types.QuotaInfo`) in proto3's JSON form.
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


DOCUMENT: dict[str, Any] = {
    "servicePath": "",
    "parameters": {name: _parameter("query") for name in ("$.xgafv", "access_token", "alt", "fields", "key")},
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
        }
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
    },
}
