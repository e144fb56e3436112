"""One boto3 session per account, one client per service and region; both are made on first use.

The SDK is imported inside the functions: the command line must not pay for one that it does not use.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

from providers.aws.models import loader
from providers.config import AccountConfig
from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import Scope

CONNECT_SECONDS = 5
READ_SECONDS = 60

# What the SDK would have read without the prefix. [boto3 guide "Credentials", environment variables]
KEY_ID, SECRET, TOKEN = "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"


class Clients:
    """Hands out clients; safe for threads, as the clients are."""

    def __init__(self, config: AccountConfig, environment: Mapping[str, str]) -> None:
        self._config = config
        self._environment = environment
        self._session: Any = None
        self._clients: dict[tuple[str, str], Any] = {}
        self._lock = threading.Lock()

    def get(self, service: str, region: str) -> Any:
        """The client of a service in a region. Raises what botocore raises when it finds no credentials."""
        client = self._clients.get((service, region))
        if client is not None:
            return client
        with self._lock:
            if self._session is None:
                self._session = _session(self._config, self._environment)
            client = self._clients.get((service, region))
            if client is None:
                client = _client(self._session, self._config, service, region)
                self._clients[service, region] = client
            return client

    def renew(self, stale: Any) -> None:
        """Forget the session whose client was refused for expired credentials; others may have done so."""
        with self._lock:
            if any(client is stale for client in self._clients.values()):
                self._session = None
                self._clients = {}

    def close(self) -> None:
        """Let connections go. Clients that are in use finish their call."""
        with self._lock:
            for client in self._clients.values():
                client.close()
            self._clients = {}
            self._session = None


def _client(session: Any, config: AccountConfig, service: str, region: str, **keys: Any) -> Any:
    from botocore.config import Config

    proxies: dict[str, str] | None = None
    if config.proxy is not None:
        proxies = {"http": config.proxy, "https": config.proxy}
    elif config.endpoint is not None:
        proxies = {}  # a loopback endpoint is never reached through the environment's proxy
    settings = Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        max_pool_connections=config.max_concurrent_calls,
        tcp_keepalive=True,
        user_agent_extra="corral",
        proxies=proxies,
        # One attempt: RunInstances must not be repeated blindly (a stock-out is HTTP 500 to botocore), and
        # reads are repeated by Api, on the clock that everything else runs on.
        retries={"mode": "standard", "total_max_attempts": 1},
    )
    return session.client(
        service,
        region_name=region,
        endpoint_url=config.endpoint,
        verify=config.ca_bundle,
        config=settings,
        **keys,
    )


def _session(config: AccountConfig, environment: Mapping[str, str]) -> Any:
    import botocore.session

    credentials = config.credentials
    # A profile that is named switches the SDK's own environment variables off, so a file means that file.
    profile = credentials.profile or ("default" if credentials.file is not None else None)
    core = botocore.session.Session(profile=profile)
    core.register_component("data_loader", loader())
    if credentials.file is not None:
        core.set_config_variable("credentials_file", credentials.file)
    if credentials.environment is not None:
        core.set_credentials(*_from_environment(config, credentials.environment, environment))
    return _assuming(core, config) if credentials.role is not None else _boto3(core)


def _boto3(core: Any) -> Any:
    """The session that makes clients, over the botocore session that says how."""
    from boto3.session import Session

    return Session(botocore_session=core)


def _from_environment(
    config: AccountConfig, prefix: str, environment: Mapping[str, str]
) -> tuple[str, str, str | None]:
    missing = [prefix + name for name in (KEY_ID, SECRET) if not environment.get(prefix + name)]
    if missing:
        raise _no_credentials(config, f"{' and '.join(missing)} not set in the environment")
    return environment[prefix + KEY_ID], environment[prefix + SECRET], environment.get(prefix + TOKEN)


def _no_credentials(config: AccountConfig, message: str) -> ProviderError:
    return ProviderError(
        ErrorKind.AUTH,
        f"account {config.name}: {message}",
        code="NoCredentialsError",
        scope=Scope(provider=config.provider, account=config.name),
    )


def _assuming(source: Any, config: AccountConfig) -> Any:
    """A session with the credentials of a role, fetched on first use and again before they end."""
    import botocore.session
    from botocore.credentials import (
        AssumeRoleCredentialFetcher,
        CredentialProvider,
        CredentialResolver,
        DeferredRefreshableCredentials,
    )

    def sts(service: str, **keys: Any) -> Any:
        return _client(_boto3(source), config, service, next(iter(config.regions)), **keys)

    extra = {"RoleSessionName": f"corral-{config.name}"}
    if config.credentials.external_id is not None:
        extra["ExternalId"] = config.credentials.external_id
    credentials = source.get_credentials()
    if credentials is None:
        raise _no_credentials(config, "nothing to assume the role with")
    fetcher = AssumeRoleCredentialFetcher(sts, credentials, config.credentials.role, extra_args=extra)

    class Role(CredentialProvider):  # type: ignore[misc]
        METHOD = "assume-role"

        def load(self) -> Any:
            return DeferredRefreshableCredentials(fetcher.fetch_credentials, self.METHOD)

    session = botocore.session.Session()
    session.register_component("data_loader", loader())
    session.register_component("credential_provider", CredentialResolver([Role()]))
    return _boto3(session)
