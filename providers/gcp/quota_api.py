"""The Cloud Quotas API over HTTP.

Google's client library for it would bring gRPC into the service for four calls; the REST form is the same
API (Cloud Quotas API v1).
"""

from __future__ import annotations

from collections.abc import Iterator

from providers.config import AccountConfig
from providers.errors import ErrorKind, ProviderError
from providers.gcp.calls import Calls
from providers.gcp.clients import Clients
from providers.gcp.rest import Json, Rest

SERVICE = "cloudquotas.googleapis.com"
COMPUTE = "compute.googleapis.com"

_MOST_PAGES = 200


class QuotaApi:
    """Calls of one project. Whatever goes wrong is raised as ProviderError."""

    def __init__(self, clients: Clients, calls: Calls, config: AccountConfig) -> None:
        self._rest = Rest(clients, calls, config, f"https://{SERVICE}")
        self._parent = f"/v1/projects/{config.project}/locations/global"

    def infos(self) -> list[Json]:
        """Every QuotaInfo of Compute Engine. Not tried again."""
        return list(self._list(f"services/{COMPUTE}/quotaInfos", "quotaInfos"))

    def preferences(self) -> list[Json]:
        """Every QuotaPreference of the project, for whatever service. Not tried again."""
        return list(self._list("quotaPreferences", "quotaPreferences"))

    def create(self, preference_id: str, body: Json) -> Json:
        """A new QuotaPreference. Sent once."""
        return self._rest.send(
            "POST", f"{self._parent}/quotaPreferences", {"quotaPreferenceId": preference_id}, body
        )

    def update(self, preference_id: str, mask: str, body: Json) -> Json:
        """Change the fields of `mask` (comma-separated) of a QuotaPreference. Sent once."""
        return self._rest.send(
            "PATCH", f"{self._parent}/quotaPreferences/{preference_id}", {"updateMask": mask}, body
        )

    def _list(self, path: str, field: str) -> Iterator[Json]:
        token = ""
        for _ in range(_MOST_PAGES):
            page = self._rest.send("GET", f"{self._parent}/{path}", {"pageToken": token} if token else {})
            yield from page.get(field) or ()
            token = page.get("nextPageToken", "")
            if not token:
                return
        raise ProviderError(ErrorKind.UNKNOWN, f"the list of {field} has more than {_MOST_PAGES} pages")
