"""The Google adapter keeps the promises of a provider, over HTTP with the real SDK."""

from __future__ import annotations

from tests.providers.contract import ProviderContract
from tests.providers.reservation_contract import ReservationContract


class TestGcp(ReservationContract, ProviderContract):
    """The whole contract."""
