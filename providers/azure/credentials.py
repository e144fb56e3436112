"""Which azure-identity credential the settings mean. Values are read from where they point, never kept."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from providers.config import AccountConfig
from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import Scope

if TYPE_CHECKING:
    from azure.core.credentials import AccessToken, TokenCredential

# What each form of a credentials file calls the three values: that of `az ad sp create-for-rbac`, and the
# older one of its `--sdk-auth`.
_FILE_FORMS = (("tenant", "appId", "password"), ("tenantId", "clientId", "clientSecret"))
_DAY = 86_400


class LoopbackCredential:
    """A token that means nothing, for local clouds, which ask for none."""

    def get_token(self, *scopes: str, **_options: Any) -> AccessToken:
        """A token valid for a day; `scopes` make no difference."""
        import time

        from azure.core.credentials import AccessToken

        return AccessToken("loopback", int(time.time()) + _DAY)


def credential(config: AccountConfig, environment: Mapping[str, str] = os.environ) -> TokenCredential:
    """The credential for an account: a local cloud's, a managed identity (`role` is its client id), a
    service principal from prefixed environment variables or a file, else azure-identity's own chain.

    Raises ProviderError (auth) where the reference leads nowhere.
    """
    if config.endpoint is not None:
        return LoopbackCredential()
    import azure.identity as identity

    refers, network = config.credentials, _network(config)
    if refers.role is not None:
        # The identity endpoint is on the machine itself: never through a proxy.
        return identity.ManagedIdentityCredential(client_id=refers.role)
    if refers.environment is not None:
        return _from_environment(config, environment, network)
    if refers.file is not None:
        tenant, client, secret = _read_file(config, refers.file)
        return identity.ClientSecretCredential(tenant, client, secret, **network)
    return identity.DefaultAzureCredential(**network)


def _network(config: AccountConfig) -> dict[str, Any]:
    """Proxy and authorities as azure-core's pipelines take them."""
    network: dict[str, Any] = {}
    if config.proxy is not None:
        network["proxies"] = {"http": config.proxy, "https": config.proxy}
    if config.ca_bundle is not None:
        network["connection_verify"] = config.ca_bundle
    return network


def _from_environment(
    config: AccountConfig, environment: Mapping[str, str], network: dict[str, Any]
) -> TokenCredential:
    import azure.identity as identity

    prefix = config.credentials.environment or ""

    def value(name: str) -> str | None:
        return environment.get(f"{prefix}AZURE_{name}") or None

    tenant, client = value("TENANT_ID"), value("CLIENT_ID")
    if not tenant or not client:
        raise _refused(config, f"{prefix}AZURE_TENANT_ID and {prefix}AZURE_CLIENT_ID are not both set")
    if secret := value("CLIENT_SECRET"):
        return identity.ClientSecretCredential(tenant, client, secret, **network)
    if certificate := value("CLIENT_CERTIFICATE_PATH"):
        return identity.CertificateCredential(tenant, client, certificate, **network)
    if token_file := value("FEDERATED_TOKEN_FILE"):
        return identity.WorkloadIdentityCredential(
            tenant_id=tenant, client_id=client, token_file_path=token_file, **network
        )
    names = "CLIENT_SECRET, CLIENT_CERTIFICATE_PATH, FEDERATED_TOKEN_FILE"
    raise _refused(config, f"one of {names} must be set, each after {prefix}AZURE_")


def _read_file(config: AccountConfig, path: str) -> tuple[str, str, str]:
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise _refused(config, f"credentials file {path}: {type(error).__name__}") from error
    for form in _FILE_FORMS:
        if isinstance(content, dict) and all(isinstance(content.get(name), str) for name in form):
            tenant, client, secret = (content[name] for name in form)
            return tenant, client, secret
    forms = " or ".join(", ".join(form) for form in _FILE_FORMS)
    raise _refused(config, f"credentials file {path}: expected {forms}")


def _refused(config: AccountConfig, message: str) -> ProviderError:
    return ProviderError(
        ErrorKind.AUTH,
        f"account {config.name}: {message}",
        code="CredentialUnavailable",
        scope=Scope("azure", config.name),
    )
