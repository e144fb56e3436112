"""The SDK's clients of one account, made on first use and sharing their connections."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from providers.config import AccountConfig
from providers.gcp import credentials
from providers.gcp.sdk import load_slim

if TYPE_CHECKING:
    import httpx
    from google.cloud.compute_v1.services.accelerator_types import AcceleratorTypesClient
    from google.cloud.compute_v1.services.advice import AdviceClient
    from google.cloud.compute_v1.services.disks import DisksClient
    from google.cloud.compute_v1.services.future_reservations import FutureReservationsClient
    from google.cloud.compute_v1.services.images import ImagesClient
    from google.cloud.compute_v1.services.instances import InstancesClient
    from google.cloud.compute_v1.services.machine_types import MachineTypesClient
    from google.cloud.compute_v1.services.projects import ProjectsClient
    from google.cloud.compute_v1.services.region_operations import RegionOperationsClient
    from google.cloud.compute_v1.services.regions import RegionsClient
    from google.cloud.compute_v1.services.reservations import ReservationsClient
    from google.cloud.compute_v1.services.resource_policies import ResourcePoliciesClient
    from google.cloud.compute_v1.services.routers import RoutersClient
    from google.cloud.compute_v1.services.subnetworks import SubnetworksClient
    from google.cloud.compute_v1.services.zone_operations import ZoneOperationsClient

C = TypeVar("C")

BILLING = "https://cloudbilling.googleapis.com"


@dataclass(frozen=True, slots=True)
class Access:
    """google.auth credentials, the transport request and session for their tokens, and the connections."""

    credentials: Any
    request: Any
    session: Any
    pool: Any


class Clients:
    """Every client of an account. Safe to share between threads.

    All of them use one pool of as many connections as the account may have calls in flight, and proxy, CA
    bundle and endpoint of the settings hold for tokens and calls alike.
    """

    def __init__(self, config: AccountConfig) -> None:
        self._config = config
        self._lock = threading.RLock()
        self._made: dict[type, Any] = {}
        self._access: Access | None = None
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
    def resource_policies(self) -> ResourcePoliciesClient:
        load_slim()
        from google.cloud.compute_v1.services.resource_policies import ResourcePoliciesClient

        return self._client(ResourcePoliciesClient)

    @property
    def region_operations(self) -> RegionOperationsClient:
        load_slim()
        from google.cloud.compute_v1.services.region_operations import RegionOperationsClient

        return self._client(RegionOperationsClient)

    @property
    def disks(self) -> DisksClient:
        load_slim()
        from google.cloud.compute_v1.services.disks import DisksClient

        return self._client(DisksClient)

    @property
    def advice(self) -> AdviceClient:
        load_slim()
        from google.cloud.compute_v1.services.advice import AdviceClient

        return self._client(AdviceClient)

    @property
    def routers(self) -> RoutersClient:
        load_slim()
        from google.cloud.compute_v1.services.routers import RoutersClient

        return self._client(RoutersClient)

    @property
    def reservations(self) -> ReservationsClient:
        load_slim()
        from google.cloud.compute_v1.services.reservations import ReservationsClient

        return self._client(ReservationsClient)

    @property
    def future_reservations(self) -> FutureReservationsClient:
        load_slim()
        from google.cloud.compute_v1.services.future_reservations import FutureReservationsClient

        return self._client(FutureReservationsClient)

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
        access = self._authorized()
        access.credentials.before_request(access.request, "GET", url, headers)
        return headers

    def close(self) -> None:
        """Let connections go. What is asked for later opens new ones."""
        with self._lock:
            for client in self._made.values():
                client.transport.close()
            if self._access is not None:
                self._access.session.close()
            if self._http is not None:
                self._http.close()
            self._made.clear()
            self._access = self._http = None

    def _client(self, kind: type[C]) -> C:
        with self._lock:
            made: C | None = self._made.get(kind)
            if made is None:
                made = self._made[kind] = self._make(kind)
            return made

    def _make(self, kind: Callable[..., Any]) -> Any:
        from google.api_core.client_options import ClientOptions

        access = self._authorized()
        client = kind(
            credentials=access.credentials,
            client_options=ClientOptions(api_endpoint=self._config.endpoint),
        )
        # The SDK makes a session of its own and has no public way to hand one in or to set it up.
        session = client.transport._session
        self._set_up(session, access.pool)
        session._auth_request = access.request
        return client

    def _authorized(self) -> Access:
        """The credentials, loaded on first use, and what their tokens are fetched with."""
        with self._lock:
            if self._access is None:
                import requests
                from google.auth.transport.requests import Request

                from providers.gcp.connections import Pool

                pool = Pool(self._config)
                session = requests.Session()
                self._set_up(session, pool)
                request = Request(session)
                loaded = credentials.load(self._config, request)
                self._access = Access(loaded, request, session, pool)
            return self._access

    def _set_up(self, session: Any, pool: Any) -> None:
        session.mount("https://", pool)
        session.mount("http://", pool)
        # A local cloud is reached directly, whatever proxy this machine uses for the world.
        session.trust_env = self._config.endpoint is None

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
