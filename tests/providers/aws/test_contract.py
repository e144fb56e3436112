"""The AWS adapter keeps the promises of a provider, against the local EC2."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.providers.aws.bench import AwsBench, opened
from tests.providers.contract import ProviderContract
from tests.providers.reservation_contract import ReservationContract


@pytest.fixture
def bench() -> Iterator[AwsBench]:
    with opened() as one:
        yield one


class TestAws(ReservationContract, ProviderContract):
    """The whole contract."""
