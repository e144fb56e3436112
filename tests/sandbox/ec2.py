"""How the tests launch through the EC2 face, and what they look for in its answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.sandbox.worlds import Clouds


def image(client: Any) -> str:
    """The account's own image."""
    return str(client.describe_images(Owners=["self"])["Images"][0]["ImageId"])


def request(client: Any, **changes: Any) -> dict[str, Any]:
    """A spot launch of one g5.xlarge in us-east-1a, as an adapter would send it. A change to None leaves the
    parameter out.
    """
    tags = [{"Key": "corral-deployment", "Value": "d1"}]
    params: dict[str, Any] = {
        "ImageId": image(client),
        "InstanceType": "g5.xlarge",
        "MinCount": 1,
        "MaxCount": 1,
        "ClientToken": "token-1",
        "Placement": {"AvailabilityZone": "us-east-1a"},
        "InstanceInitiatedShutdownBehavior": "terminate",
        "InstanceMarketOptions": {"MarketType": "spot", "SpotOptions": {"SpotInstanceType": "one-time"}},
        "TagSpecifications": [
            {"ResourceType": kind, "Tags": tags} for kind in ("instance", "spot-instances-request")
        ],
    }
    params |= changes
    return {key: value for key, value in params.items() if value is not None}


def on_demand(**changes: Any) -> dict[str, Any]:
    """Changes that make the request one for on-demand."""
    tags = [{"ResourceType": "instance", "Tags": [{"Key": "corral-deployment", "Value": "d1"}]}]
    return {"InstanceMarketOptions": None, "TagSpecifications": tags, **changes}


def run(client: Any, **changes: Any) -> list[dict[str, Any]]:
    """The instances of a launch."""
    made: list[dict[str, Any]] = client.run_instances(**request(client, **changes))["Instances"]
    return made


def ids(instances: list[dict[str, Any]]) -> list[str]:
    """Their ids."""
    return [instance["InstanceId"] for instance in instances]


def refused(call: Callable[[], Any]) -> tuple[str, int, str]:
    """Code, HTTP status and message of a call that fails."""
    with pytest.raises(ClientError) as caught:
        call()
    answer = caught.value.response
    error = answer["Error"]
    return error["Code"], answer["ResponseMetadata"]["HTTPStatusCode"], error["Message"]


def described(client: Any, **params: Any) -> list[dict[str, Any]]:
    """The instances of one DescribeInstances."""
    answer = client.describe_instances(**params)
    return [instance for group in answer["Reservations"] for instance in group["Instances"]]


def made(clouds: Clouds) -> int:
    """How many instances were ever made, on the world's word."""
    return int(clouds.world.ledger()["objects"]["instance"]["made"])
