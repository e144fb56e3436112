"""The SDK's clients of one account, made on first use and sharing one session."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from providers.config import AccountConfig
from providers.gcp import credentials
from providers.gcp.sdk import load_slim

if TYPE_CHECKING:
    import httpx
    from google.cloud.compute_v1.services.accelerator_types import AcceleratorTypesClient
    from google.cloud.compute_v1.services.images import ImagesClient
    from google.cloud.compute_v1.services.instances import InstancesClient
    from google.cloud.compute_v1.services.machine_types import MachineTypesClient
    from google.cloud.compute_v1.services.projects import ProjectsClient
    from google.cloud.compute_v1.services.regions import RegionsClient
    from google.cloud.compute_v1.services.subnetworks import SubnetworksClient
    from google.cloud.compute_v1.services.zone_operations import ZoneOperationsClient

C = TypeVar("C")

BILLING = "https://cloudbilling.googleapis.com"


class Clients:
    """Every client of an account. Safe to share between threads.

    All of them use one requests session with as many connections as the account may have calls in flight,
    so that proxy, CA bundle and endpoint of the settings hold for tokens and calls alike.
    """

    def __init__(self, config: AccountConfig) -> None:
        self._config = config
        self._lock = threading.RLock()
        self._made: dict[type, Any] = {}
        self._session: Any = None
        self._token_session: Any = None
        self._http: httpx.Client | None = None

    @property
    def instances(self) -> InstancesClient:
        load_slim()
        from google.cloud.compute_v1.services.instances import InstancesClient

        return self._client(InstancesClient)

    @property
    def operations(self) -> ZoneOperationsClient:
        load_slim()
        from google.cloud.compute_v1.services.zone_operations import ZoneOperationsClient

        return self._client(ZoneOperationsClient)

    @property
    def machine_types(self) -> MachineTypesClient:
        load_slim()
        from google.cloud.compute_v1.services.machine_types import MachineTypesClient

        return self._client(MachineTypesClient)

    @property
    def accelerator_types(self) -> AcceleratorTypesClient:
        load_slim()
        from google.cloud.compute_v1.services.accelerator_types import AcceleratorTypesClient

        return self._client(AcceleratorTypesClient)

    @property
    def images(self) -> ImagesClient:
        load_slim()
        from google.cloud.compute_v1.services.images import ImagesClient

        return self._client(ImagesClient)

    @property
    def subnetworks(self) -> SubnetworksClient:
        load_slim()
        from google.cloud.compute_v1.services.subnetworks import SubnetworksClient

        return self._client(SubnetworksClient)

    @property
    def regions(self) -> RegionsClient:
        load_slim()
        from google.cloud.compute_v1.services.regions import RegionsClient

        return self._client(RegionsClient)

    @property
    def projects(self) -> ProjectsClient:
        load_slim()
        from google.cloud.compute_v1.services.projects import ProjectsClient

        return self._client(ProjectsClient)

    @property
    def http(self) -> httpx.Client:
        """For APIs that google-cloud-compute does not cover; its base URL is Cloud Billing's."""
        with self._lock:
            if self._http is None:
                self._http = self._open_http()
            return self._http

    def authorization(self, url: str) -> dict[str, str]:
        """Headers that authorise a GET of `url` with the account's credentials."""
        headers: dict[str, str] = {}
        session = self._authorized()
        session.credentials.before_request(session._auth_request, "GET", url, headers)
        return headers

    def close(self) -> None:
        """Let connections go. What is asked for later opens new ones."""
        with self._lock:
            for session in (self._session, self._token_session, self._http):
                if session is not None:
                    session.close()
            self._made.clear()
            self._session = self._token_session = self._http = None

    def _client(self, kind: type[C]) -> C:
        with self._lock:
            made: C | None = self._made.get(kind)
            if made is None:
                made = self._made[kind] = self._make(kind)
            return made

    def _make(self, kind: Callable[..., Any]) -> Any:
        from google.api_core.client_options import ClientOptions

        session = self._authorized()
        client = kind(
            credentials=session.credentials,
            client_options=ClientOptions(api_endpoint=self._config.endpoint),
        )
        # The SDK has no public way to hand a session in, and the one it makes itself knows neither the
        # proxy nor the CA bundle nor how many connections we need.
        client.transport._session.close()
        client.transport._session = session
        return client

    def _authorized(self) -> Any:
        """The session that all clients share."""
        with self._lock:
            if self._session is None:
                from google.auth.transport.requests import AuthorizedSession, Request

                self._token_session = self._plain_session()
                request = Request(self._token_session)
                loaded = credentials.load(self._config, request)
                session = AuthorizedSession(  # type: ignore[no-untyped-call]
                    loaded, auth_request=request
                )
                self._session = self._configured(session)
            return self._session

    def _plain_session(self) -> Any:
        import requests

        return self._configured(requests.Session())

    def _configured(self, session: Any) -> Any:
        from requests.adapters import HTTPAdapter

        config = self._config
        calls = config.max_concurrent_calls
        session.mount("https://", HTTPAdapter(pool_connections=4, pool_maxsize=calls))
        session.mount("http://", HTTPAdapter(pool_connections=4, pool_maxsize=calls))
        # A local cloud is reached directly, whatever proxy this machine uses for the world.
        session.trust_env = config.endpoint is None
        if config.proxy:
            session.proxies = {"http": config.proxy, "https": config.proxy}
        if config.ca_bundle:
            session.verify = config.ca_bundle
        return session

    def _open_http(self) -> httpx.Client:
        import httpx

        config = self._config
        return httpx.Client(
            base_url=config.endpoint or BILLING,
            proxy=config.proxy,
            verify=_tls(config.ca_bundle),
            trust_env=config.endpoint is None,
            timeout=httpx.Timeout(20.0, connect=5.0),
        )


def _tls(ca_bundle: str | None) -> Any:
    """httpx's `verify`: the usual roots, or only those of the file."""
    if ca_bundle is None:
        return True
    import ssl

    return ssl.create_default_context(cafile=ca_bundle)
