"""`resources.network`: which types a gang may have, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.api.service import H100, SPEC, Service


def _gang(**resources: Any) -> dict[str, Any]:
    return {**SPEC, "spot": "never", "resources": {"gpu": "H100:8", "nodes": 2, **resources}}


@pytest.mark.parametrize("resources", [{"network": "fast"}, {"network_tier": "best"}])
def test_a_fast_network_leaves_only_types_with_an_interconnect(
    service: Service, resources: dict[str, str]
) -> None:
    service.offer(replace(H100, name="plain"), price=10.0)
    service.offer(replace(H100, name="fast", fabric="efa"), price=20.0)
    plan = service.post("/v1/jobs:plan", _gang(**resources)).json()
    assert [one["instance_type"] for one in plan["offers"]] == ["fast"]
    assert plan["counts"]["no_fast_network"] == 1


@pytest.mark.parametrize("resources", [{}, {"network": "any"}, {"network_tier": "standard"}])
def test_without_it_any_type_will_do(service: Service, resources: dict[str, str]) -> None:
    service.offer(replace(H100, name="plain"), price=10.0)
    plan = service.post("/v1/jobs:plan", _gang(**resources)).json()
    assert [one["instance_type"] for one in plan["offers"]] == ["plain"]


@pytest.mark.parametrize(
    "resources",
    [
        {"network": "fast", "nodes": 1},
        {"network": "infiniband"},
        {"network": True},
        {"network_tier": "faster"},
        {"network_tier": ["best"]},
        {"network_tier": "best", "network": "any"},
    ],
)
def test_what_cannot_be_meant_is_refused(service: Service, resources: dict[str, Any]) -> None:
    answer = service.post("/v1/jobs", _gang(**resources))
    assert answer.status_code == 422
    assert "network" in answer.text


def test_a_fast_network_for_one_node_says_what_to_do(service: Service) -> None:
    answer = service.post("/v1/jobs", _gang(network="fast", nodes=1))
    assert "ask for 2 nodes or more" in answer.text
