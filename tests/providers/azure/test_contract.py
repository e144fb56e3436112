"""The Azure adapter keeps the promises of a provider."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.providers.azure.bench import bench as opened
from tests.providers.contract import ProviderContract
from tests.providers.reservation_contract import ReservationBench, ReservationContract


@pytest.fixture
def bench() -> Iterator[ReservationBench]:
    with opened() as one:
        yield one


class TestAzure(ReservationContract, ProviderContract):
    """The whole contract."""
