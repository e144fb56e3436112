"""An adapter in front of a scripted server. The clock is moved by whoever waits, so nothing really waits."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from providers.aws.adapter import AwsProvider
from providers.config import AccountConfig
from providers.vocabulary import CapacityType, LaunchRequest, OfferKey
from tests.clocks import FakeClock
from tests.providers.aws.stub import StubServer

ENVIRONMENT = {"LAB_AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "LAB_AWS_SECRET_ACCESS_KEY": "not-a-secret"}
REGION = "us-east-1"
TOKEN = "0123456789abcdef0123456789abcdef"


def account(endpoint: str, **more: Any) -> AccountConfig:
    settings = {
        "name": "lab",
        "provider": "aws",
        "credentials": {"environment": "LAB_"},
        "endpoint": endpoint,
        "image": "ami-0abcdef1234567890",
        "regions": {REGION: {}},
        **more,
    }
    return AccountConfig.model_validate(settings)


def prepared(
    capacity_type: CapacityType = CapacityType.ON_DEMAND, *, nodes: int = 1, **more: Any
) -> LaunchRequest:
    """A request as `prepare` leaves it."""
    extra = {
        "zone_name": "us-east-1b",
        "root_device": "/dev/sda1",
        "data_devices": "",
        "security_groups": "sg-1,sg-2",
        "public_address": "yes",
        "instance_role": "",
        **more,
    }
    return LaunchRequest(
        token=TOKEN,
        offer=OfferKey("aws", "lab", REGION, "use1-az4", "g6.xlarge", capacity_type),
        nodes=nodes,
        user_data="#cloud-config\n",
        tags={"corral-deployment": "d", "corral-job": "j"},
        disk_gib=100,
        image="ami-0abcdef1234567890",
        subnet="subnet-1",
        extra=extra,
    )


@pytest.fixture(scope="module")
def _server() -> Iterator[StubServer]:
    with StubServer() as server:
        yield server


@pytest.fixture(scope="module")
def _adapter(_server: StubServer) -> Iterator[tuple[AwsProvider, FakeClock]]:
    clock = FakeClock(waits_advance=True)
    config = account(_server.url, regions={REGION: {}, "eu-west-1": {}})
    adapter = AwsProvider(config, clock, environment=ENVIRONMENT, chance=random.Random(7))
    yield adapter, clock
    adapter.close()


@pytest.fixture
def stub(_server: StubServer) -> StubServer:
    _server.reset()
    return _server


@pytest.fixture
def provider(_adapter: tuple[AwsProvider, FakeClock]) -> AwsProvider:
    return _adapter[0]


@pytest.fixture
def clock(_adapter: tuple[AwsProvider, FakeClock]) -> FakeClock:
    return _adapter[1]
