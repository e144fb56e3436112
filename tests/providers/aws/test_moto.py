"""The adapter against moto, a server that is not ours and holds AWS's own instance-type data.

moto knows neither client tokens nor stock, the Pricing API or EC2's quotas, and cannot terminate an instance
twice once its interface is gone; those promises are tested elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from moto.server import ThreadedMotoServer

from providers.aws.adapter import AwsProvider
from providers.vocabulary import (
    Accelerator,
    CapacityType,
    EndReason,
    InstanceRef,
    InstanceState,
    LaunchRequest,
    Offer,
)
from tests.clocks import FakeClock
from tests.providers.aws.conftest import ENVIRONMENT, REGION, account

TYPES = (
    "g4dn.12xlarge",
    "g5.xlarge",
    "g6f.4xlarge",
    "g6e.48xlarge",
    "m7i.large",
    "p4d.24xlarge",
    "p4de.24xlarge",
    "p5.48xlarge",
    "p6-b200.48xlarge",
)


BEHIND_NAT = {REGION: {"public_address": False}}


@pytest.fixture(scope="module")
def provider() -> Iterator[AwsProvider]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    image = "amazon/amzn2-ami-hvm-2.0.*-x86_64-gp2"
    config = account(f"http://{host}:{port}", image=image, allowed_types=TYPES, regions=BEHIND_NAT)
    adapter = AwsProvider(config, FakeClock(waits_advance=True), environment=ENVIRONMENT)
    yield adapter
    adapter.close()
    server.stop()


@pytest.fixture(scope="module")
def offers(provider: AwsProvider) -> tuple[Offer, ...]:
    return provider.offers(REGION).offers


def test_types_have_the_sizes_that_aws_publishes(offers: tuple[Offer, ...]) -> None:
    types = {offer.type.name: offer.type for offer in offers}
    assert types["p4d.24xlarge"].accelerator == Accelerator("A100", 8, 40, "nvlink")
    assert types["p4de.24xlarge"].accelerator == Accelerator("A100-80GB", 8, 80, "nvlink")
    assert types["p5.48xlarge"].accelerator == Accelerator("H100", 8, 80, "nvlink")
    assert types["p6-b200.48xlarge"].accelerator == Accelerator("B200", 8, 180, "nvlink")
    assert types["g4dn.12xlarge"].accelerator == Accelerator("T4", 4, 16, "pcie")
    assert types["g5.xlarge"].accelerator == Accelerator("A10G", 1, 24)
    assert types["g6e.48xlarge"].accelerator == Accelerator("L40S", 8, 48, "pcie")
    assert types["m7i.large"].accelerator is None
    assert (types["p5.48xlarge"].vcpus, types["p5.48xlarge"].memory_gib) == (192, 2048)
    assert "g6f.4xlarge" not in types


def test_types_have_the_interconnect_that_aws_publishes(
    offers: tuple[Offer, ...], provider: AwsProvider
) -> None:
    fabrics = {offer.type.name: offer.type.fabric for offer in offers}
    assert {name for name, fabric in fabrics.items() if fabric == "efa"} == {
        "g4dn.12xlarge",
        "g6e.48xlarge",
        "p4d.24xlarge",
        "p4de.24xlarge",
        "p5.48xlarge",
        "p6-b200.48xlarge",
    }
    assert fabrics["g5.xlarge"] is None


def test_a_type_is_offered_only_in_the_zones_where_it_exists(offers: tuple[Offer, ...]) -> None:
    zones = {name: {o.key.zone for o in offers if o.type.name == name} for name in TYPES}
    assert zones["p4de.24xlarge"] < zones["m7i.large"]
    assert all(zone.startswith("use1-az") for found in zones.values() for zone in found)


def test_without_a_pricing_api_on_demand_prices_are_the_built_in_ones(offers: tuple[Offer, ...]) -> None:
    on_demand = [o for o in offers if o.key.capacity_type is CapacityType.ON_DEMAND]
    assert {o.price_source for o in on_demand} == {"snapshot"}
    assert next(o.price for o in on_demand if o.type.name == "p5.48xlarge") == 55.04


@pytest.mark.parametrize("capacity_type", [CapacityType.ON_DEMAND, CapacityType.SPOT])
def test_the_life_of_a_gang(
    provider: AwsProvider, offers: tuple[Offer, ...], capacity_type: CapacityType
) -> None:
    offer = next(o for o in offers if o.key.capacity_type is capacity_type and o.type.name == "g5.xlarge")
    token, deployment = f"{capacity_type}-1".ljust(32, "0"), f"d-{capacity_type}"
    tags = {"corral-deployment": deployment, "corral-job": "j"}
    asked = provider.prepare(LaunchRequest(token, offer.key, 2, "#cloud-config\n", tags, 60))
    assert asked.subnet == offer.subnet

    launched = provider.launch(asked)
    refs = [
        InstanceRef(REGION, offer.key.zone, i.provider_id, capacity_type=capacity_type)
        for i in launched.instances
    ]
    listing = provider.list_instances(REGION, deployment)
    assert {i.provider_id for i in listing.instances} == {ref.provider_id for ref in refs}
    for seen in provider.describe(refs):
        assert seen.state is InstanceState.RUNNING
        assert (seen.zone, seen.instance_type) == (offer.key.zone, "g5.xlarge")
        assert seen.capacity_type is capacity_type
        assert tags.items() <= seen.tags.items()
        assert seen.private_ip
        assert seen.name in asked.names()

    provider.terminate(refs)
    for seen in provider.describe(refs):
        assert seen.state in (InstanceState.STOPPING, InstanceState.TERMINATED)
        assert seen.end_reason is EndReason.USER


def test_an_instance_that_never_existed_is_absent(provider: AwsProvider) -> None:
    ref = InstanceRef(REGION, "use1-az4", "i-0123456789abcdef0")
    assert provider.describe([ref])[0].state is InstanceState.ABSENT
    provider.terminate([ref])


def test_check_passes_all_that_moto_has_heard_of(provider: AwsProvider) -> None:
    wrong = [result.subject for result in provider.check() if not result.ok]
    missing = ("way out", "quotas", "quota requests", "reservations", "leftovers", "fabric")
    assert wrong == ["prices", *(f"{REGION} {what}" for what in missing)]


def test_built_in_types_are_as_aws_publishes_them(offers: tuple[Offer, ...], provider: AwsProvider) -> None:
    published = {offer.type.name: offer.type for offer in offers if offer.type.accelerator is not None}
    shipped = {offer.type.name: offer.type for offer in provider.built_in_offers(REGION).offers}
    assert shipped == published
