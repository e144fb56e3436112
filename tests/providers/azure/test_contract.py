"""The Azure adapter keeps the promises of a provider."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.providers.azure.bench import bench as opened
from tests.providers.contract import Bench, ProviderContract


@pytest.fixture
def bench() -> Iterator[Bench]:
    with opened() as one:
        yield one


class TestAzure(ProviderContract):
    """The whole contract."""
