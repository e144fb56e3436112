"""The connections of one account, for all sessions of the SDK."""

from __future__ import annotations

from typing import Any

from requests import PreparedRequest, Response
from requests.adapters import HTTPAdapter

from providers.config import AccountConfig

_HOSTS = 4  # kept apart: compute, tokens, impersonation, and one to spare


class Pool(HTTPAdapter):
    """As many connections as the account may have calls in flight, by the proxy and CA of its settings.

    requests lets REQUESTS_CA_BUNDLE and HTTPS_PROXY of the environment win over what a session is told; here
    the settings win, and the environment holds where they are silent.
    """

    def __init__(self, config: AccountConfig) -> None:
        super().__init__(pool_connections=_HOSTS, pool_maxsize=config.max_concurrent_calls)
        self._ca_bundle = config.ca_bundle
        self._proxies = {"http": config.proxy, "https": config.proxy} if config.proxy else None

    def send(
        self,
        request: PreparedRequest,
        stream: bool = False,
        timeout: Any = None,
        verify: bool | str = True,
        cert: Any = None,
        proxies: dict[str, str] | None = None,
    ) -> Response:
        return super().send(
            request,
            stream=stream,
            timeout=timeout,
            verify=self._ca_bundle or verify,
            cert=cert,
            proxies=self._proxies or proxies,
        )
