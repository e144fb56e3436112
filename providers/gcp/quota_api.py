"""The Cloud Quotas API over HTTP.

Google's client library for it would bring gRPC into the service for four calls; the REST form is the same
API (Cloud Quotas API v1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from providers.config import AccountConfig
from providers.errors import ErrorKind, ProviderError
from providers.gcp.calls import Calls
from providers.gcp.clients import Clients
from providers.gcp.errors import Where, of_answer, of_exception

SERVICE = "cloudquotas.googleapis.com"
COMPUTE = "compute.googleapis.com"

_BASE = f"https://{SERVICE}"
_MOST_PAGES = 200

Json = Mapping[str, Any]


class QuotaApi:
    """Calls of one project. Whatever goes wrong is raised as ProviderError."""

    def __init__(self, clients: Clients, calls: Calls, config: AccountConfig) -> None:
        self._clients = clients
        self._calls = calls
        self._config = config
        self._parent = f"/v1/projects/{config.project}/locations/global"

    def infos(self) -> list[Json]:
        """Every QuotaInfo of Compute Engine. Not tried again."""
        return list(self._list(f"services/{COMPUTE}/quotaInfos", "quotaInfos"))

    def preferences(self) -> list[Json]:
        """Every QuotaPreference of the project, for whatever service. Not tried again."""
        return list(self._list("quotaPreferences", "quotaPreferences"))

    def create(self, preference_id: str, body: Json) -> Json:
        """A new QuotaPreference. Sent once."""
        return self._send("POST", "quotaPreferences", {"quotaPreferenceId": preference_id}, body)

    def update(self, preference_id: str, mask: str, body: Json) -> Json:
        """Change the fields of `mask` (comma-separated) of a QuotaPreference. Sent once."""
        return self._send("PATCH", f"quotaPreferences/{preference_id}", {"updateMask": mask}, body)

    def _list(self, path: str, field: str) -> Iterator[Json]:
        token = ""
        for _ in range(_MOST_PAGES):
            page = self._send("GET", path, {"pageToken": token} if token else {}, None)
            yield from page.get(field) or ()
            token = page.get("nextPageToken", "")
            if not token:
                return
        raise ProviderError(ErrorKind.UNKNOWN, f"the list of {field} has more than {_MOST_PAGES} pages")

    def _send(self, verb: str, path: str, params: Mapping[str, str], body: Json | None) -> Json:
        where = Where(self._config.name)
        try:
            answer = self._answer(verb, f"{self._parent}/{path}", params, body)
            if answer.status_code == 200:
                return _object(answer.content)
        except Exception as error:
            raise of_exception(error, where, self._calls.clock.now()) from error
        raise of_answer(answer.status_code, answer.content, where, self._calls.clock.now())

    def _answer(self, verb: str, path: str, params: Mapping[str, str], body: Json | None) -> Any:
        import orjson

        url = (self._config.endpoint or _BASE).rstrip("/") + path
        headers = self._clients.authorization(_BASE + path)
        content = None if body is None else orjson.dumps(body)
        if content is not None:
            headers["Content-Type"] = "application/json"
        return self._clients.http.request(verb, url, params=params, headers=headers, content=content)


def _object(content: bytes) -> Json:
    import orjson

    found = orjson.loads(content)
    if not isinstance(found, dict):
        raise ProviderError(ErrorKind.TRANSIENT, "the answer is no JSON object", ambiguous=True)
    return found
