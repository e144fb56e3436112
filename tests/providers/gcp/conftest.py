"""A provider on a local Compute Engine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.providers.gcp.bench import GceBench
from tests.sandbox.gce import local_gce


@pytest.fixture
def bench() -> Iterator[GceBench]:
    """A calm, well-stocked cloud whose time stands still."""
    with local_gce({"gcp": {"verdict_seconds": 2, "boot_seconds": 20}}) as gce:
        made = GceBench(gce)
        yield made
        made.provider.close()
