"""Google APIs that are called over HTTP, without a client library of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from providers.config import AccountConfig
from providers.errors import ErrorKind, ProviderError
from providers.gcp.calls import Calls
from providers.gcp.clients import Clients
from providers.gcp.errors import Where, of_answer, of_exception

Json = Mapping[str, Any]


class Rest:
    """One API (`https://cloudquotas.googleapis.com`) with the account's credentials and connections."""

    def __init__(self, clients: Clients, calls: Calls, config: AccountConfig, base: str) -> None:
        self._clients = clients
        self._calls = calls
        self._config = config
        self._base = base

    def send(
        self, verb: str, path: str, params: Mapping[str, str] | None = None, body: Json | None = None
    ) -> Json:
        """The JSON object that a call answers. Sent once; whatever goes wrong is raised as ProviderError."""
        where = Where(self._config.name)
        self._calls.limits.take("", "quotas")
        try:
            answer = self._answer(verb, path, params or {}, body)
            if answer.status_code == 200:
                return _object(answer.content)
        except Exception as error:
            raise of_exception(error, where, self._calls.clock.now()) from error
        raise of_answer(answer.status_code, answer.content, where, self._calls.clock.now())

    def _answer(self, verb: str, path: str, params: Mapping[str, str], body: Json | None) -> Any:
        import orjson

        url = (self._config.endpoint or self._base).rstrip("/") + path
        headers = self._clients.authorization(self._base + path)
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
