"""`GET /v1/capacity-waits`: how long jobs waited for capacity."""

from __future__ import annotations

from providers.vocabulary import CapacityType
from service.market.model import Observation, Outcome
from tests.api.service import Service


def observe(service: Service, outcome: Outcome, seconds: float, region: str = "us-east-1") -> None:
    row = Observation(
        at=service.clock.now(),
        outcome=outcome,
        provider="aws",
        account="main",
        region=region,
        zone=f"{region}a",
        instance_type="p5.48xlarge",
        capacity_type=CapacityType.SPOT,
        gpu="H100",
        gpus_per_node=8,
        seconds=seconds,
        attempt_id="a-1",
    )
    service.ctx.database.write(lambda session: session.add(row))


def test_waits_are_told_per_market_with_the_number_they_rest_on(service: Service) -> None:
    for seconds in (60.0, 120.0, 3600.0):
        observe(service, Outcome.GRANTED, seconds)
    observe(service, Outcome.REFUSED, 5.0)
    observe(service, Outcome.LOST, 7200.0)
    observe(service, Outcome.REFUSED, 5.0, region="us-west-2")
    east, west = service.get("/v1/capacity-waits").json()["items"]
    assert east == {
        "provider": "aws",
        "region": "us-east-1",
        "gpu": "H100",
        "capacity_type": "spot",
        "p50_seconds": 120.0,
        "p90_seconds": 3600.0,
        "n": 3,
        "refused": 1,
        "lost": 1,
        "lasted_p50_seconds": 7200.0,
    }
    assert (west["n"], west["p50_seconds"]) == (0, None), "never granted is no wait of zero"
    narrowed = service.get("/v1/capacity-waits?region=us-west-2&gpu=H100").json()["items"]
    assert [item["region"] for item in narrowed] == ["us-west-2"]
