"""The SDK's client for one account, with a pipeline of our own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from providers.config import AccountConfig

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential
    from azure.mgmt.compute import ComputeManagementClient

PUBLIC_CLOUD = "https://management.azure.com"
CONNECT_SECONDS, READ_SECONDS = 10, 60
BLOCK = 65_536  # bytes read at a time; the SDK's 4,096 make a page of sizes 700 pieces


def make(config: AccountConfig, base_url: str, key: TokenCredential) -> ComputeManagementClient:
    """The compute client of an account. It retries, registers and waits for nothing by itself."""
    from azure.core.pipeline.policies import (
        ContentDecodePolicy,
        CustomHookPolicy,
        HeadersPolicy,
        ProxyPolicy,
        RequestIdPolicy,
        RetryPolicy,
        UserAgentPolicy,
    )
    from azure.mgmt.compute import ComputeManagementClient
    from azure.mgmt.core.policies import ARMChallengeAuthenticationPolicy

    local = config.endpoint is not None
    proxies = {"http": config.proxy, "https": config.proxy} if config.proxy and not local else None
    # Our own chain: the SDK's would register resource providers, and wait for it without end, when a
    # subscription lacks one, and would send a create again.
    chain: list[Any] = [
        RequestIdPolicy(),
        HeadersPolicy(),
        UserAgentPolicy(base_user_agent="corral"),
        ProxyPolicy(proxies),
        ContentDecodePolicy(),
        RetryPolicy(retry_total=0),
        ARMChallengeAuthenticationPolicy(key, f"{PUBLIC_CLOUD}/.default"),
        CustomHookPolicy(),
    ]
    if local:
        chain.insert(0, _plain_http())
    return ComputeManagementClient(
        key,
        config.subscription or "",
        base_url=base_url,
        policies=chain,
        connection_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        connection_data_block_size=BLOCK,
        connection_verify=config.ca_bundle or True,
        use_env_settings=not local,
    )


def _plain_http() -> Any:
    """Lets a bearer token travel over http, which a local cloud on loopback speaks."""
    from azure.core.pipeline.policies import SansIOHTTPPolicy

    class PlainHttp(SansIOHTTPPolicy[Any, Any]):
        def on_request(self, request: Any) -> None:
            request.context.options.setdefault("enforce_https", False)

    return PlainHttp()
