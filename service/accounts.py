"""From an account in the settings to the adapter that speaks to its cloud; imports what is configured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from clock import Clock
from providers.config import AccountConfig
from providers.interface import Provider

# provider -> module, class
ADAPTERS: Mapping[str, tuple[str, str]] = {
    "aws": ("providers.aws.adapter", "AwsProvider"),
    "gcp": ("providers.gcp.adapter", "GcpProvider"),
    "azure": ("providers.azure.adapter", "AzureProvider"),
}


class NoAdapterError(Exception):
    """The settings name a provider that cannot be run from settings."""


def make_provider(account: AccountConfig, clock: Clock) -> Provider:
    """The adapter of one account."""
    if account.provider not in ADAPTERS:
        raise NoAdapterError(
            f"account {account.name}: provider {account.provider} cannot be used from settings "
            f"(allowed: {', '.join(sorted(ADAPTERS))})"
        )
    module, name = ADAPTERS[account.provider]
    build: Callable[[AccountConfig, Clock], Provider] = getattr(import_module(module), name)
    return build(account, clock)
