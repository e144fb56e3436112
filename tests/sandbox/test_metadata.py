"""The metadata services, spoken to as agents do: over HTTP, each in its vendor's dialect."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import httpx
import pytest

from sandbox.vm import Vm
from tests.sandbox.worlds import Clouds, launch

TTL = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
GOOGLE = {"Metadata-Flavor": "Google"}
AZURE = {"Metadata": "true"}
EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
NAME = "/metadata/instance/compute/name?api-version=2021-02-01&format=text"
PREEMPTED = "/computeMetadata/v1/instance/preempted"


class Guest:
    """An instance's own view of its metadata address."""

    def __init__(self, clouds: Clouds, vm: Vm) -> None:
        self.vm = vm
        base = f"{clouds.sandbox.endpoints['metadata']}/i/{vm.metadata_key}"
        self.http = httpx.Client(base_url=base, timeout=20)

    def get(self, path: str, headers: dict[str, str]) -> httpx.Response:
        return self.http.get(path, headers=headers)

    def ec2(self, path: str) -> httpx.Response:
        """With a fresh token, as IMDSv2 wants it."""
        token = self.http.put("/latest/api/token", headers=TTL).text
        return self.get(f"/latest/{path}", {"X-aws-ec2-metadata-token": token})


PLACES: dict[str, dict[str, Any]] = {
    "aws": {},
    "gcp": {"region": "us-central1", "zone": "us-central1-a", "instance_type": "g2-standard-4"},
    "azure": {"region": "eastus", "zone": "eastus-2", "instance_type": "Standard_NC4as_T4_v3"},
}


class Guests:
    """Running instances of a sandbox."""

    def __init__(self, clouds: Clouds) -> None:
        self.clouds = clouds
        self._made: list[Guest] = []

    def run(self, provider: str, **more: Any) -> Guest:
        (vm,) = launch(self.clouds.world, provider=provider, **(PLACES[provider] | more))
        self.clouds.pass_time(20)
        self._made.append(Guest(self.clouds, vm))
        return self._made[-1]

    def close(self) -> None:
        for guest in self._made:
            guest.http.close()


@pytest.fixture
def guests(clouds: Clouds) -> Iterator[Guests]:
    guests = Guests(clouds)
    yield guests
    guests.close()


# EC2


def test_ec2_answers_nothing_without_a_token(guests: Guests) -> None:
    guest = guests.run("aws")
    assert guest.get("/latest/meta-data/instance-id", {}).status_code == 401
    assert guest.http.put("/latest/api/token").status_code == 400
    too_long = {"X-aws-ec2-metadata-token-ttl-seconds": "21601"}
    assert guest.http.put("/latest/api/token", headers=too_long).status_code == 400
    assert guest.http.get("/latest/api/token", headers=TTL).status_code == 405


def test_ec2_tells_an_instance_who_and_where_it_is(guests: Guests) -> None:
    guest = guests.run("aws", user_data="#cloud-config\n", public_ip=True)
    told = {
        "meta-data/instance-id": guest.vm.id,
        "meta-data/instance-type": "g5.xlarge",
        "meta-data/instance-life-cycle": "spot",
        "meta-data/placement/availability-zone": "us-east-1a",
        "meta-data/placement/availability-zone-id": "use1-az4",
        "meta-data/placement/region": "us-east-1",
        "meta-data/local-ipv4": guest.vm.private_ip,
        "meta-data/public-ipv4": guest.vm.public_ip,
        "user-data": "#cloud-config\n",
    }
    assert {path: guest.ec2(path).text for path in told} == told
    assert guest.ec2("meta-data/no-such-thing").status_code == 404
    assert json.loads(guest.ec2("dynamic/instance-identity/document").text)["instanceId"] == guest.vm.id


def test_ec2_announces_a_preemption_with_its_time(guests: Guests) -> None:
    guest = guests.run("aws")
    assert guest.ec2("meta-data/spot/instance-action").status_code == 404
    assert guest.ec2("meta-data/events/recommendations/rebalance").status_code == 404
    guests.clouds.world.preempt(guest.vm)
    action = guest.ec2("meta-data/spot/instance-action").json()
    assert action["action"] == "terminate"
    deadline = datetime.fromisoformat(action["time"])
    assert (deadline - guests.clouds.clock.now()).total_seconds() == 120
    noticed = guest.ec2("meta-data/events/recommendations/rebalance").json()["noticeTime"]
    assert datetime.fromisoformat(noticed) == guests.clouds.clock.now()


def test_ec2_tokens_end_and_hold_for_one_instance_only(guests: Guests) -> None:
    one, other = guests.run("aws"), guests.run("aws")
    token = {"X-aws-ec2-metadata-token": one.http.put("/latest/api/token", headers=TTL).text}
    path = "/latest/meta-data/instance-id"
    assert one.get(path, token).status_code == 200
    assert other.get(path, token).status_code == 401
    guests.clouds.pass_time(60)
    assert one.get(path, token).status_code == 401


# Compute Engine


def test_gce_wants_its_header_and_sends_it_back(guests: Guests) -> None:
    guest = guests.run("gcp")
    assert guest.get("/computeMetadata/v1/instance/id", {}).status_code == 403
    answer = guest.get("/computeMetadata/v1/instance/id", GOOGLE)
    assert (answer.text, answer.headers["Metadata-Flavor"]) == (guest.vm.id, "Google")
    assert "ETag" in answer.headers


def test_gce_tells_an_instance_who_and_where_it_is(guests: Guests) -> None:
    extra = {"metadata": {"user-data": "#cloud-config\n"}, "project": "research"}
    guest = guests.run("gcp", extra=extra)
    root = "/computeMetadata/v1"

    def text(path: str) -> str:
        return guest.get(f"{root}/{path}", GOOGLE).text

    assert text("instance/name") == "node-0"
    assert text("instance/zone").endswith("/zones/us-central1-a")
    assert text("instance/network-interfaces/0/ip") == guest.vm.private_ip
    assert text("instance/attributes/user-data") == "#cloud-config\n"
    assert text("instance/attributes/") == "user-data\n"
    assert text("instance/scheduling/preemptible") == "TRUE"
    assert text("project/project-id") == "research"
    whole = guest.get(f"{root}/instance/?recursive=true", GOOGLE).json()
    assert whole["attributes"] == {"user-data": "#cloud-config\n"}
    assert guest.get(f"{root}/instance/no-such-thing", GOOGLE).status_code == 404


def test_gce_wakes_who_waits_for_a_preemption(guests: Guests) -> None:
    guest = guests.run("gcp")
    first = guest.get(PREEMPTED, GOOGLE)
    assert first.text == "FALSE"
    heard: list[str] = []

    def wait() -> None:
        path = f"{PREEMPTED}?wait_for_change=true&last_etag={first.headers['ETag']}"
        heard.append(guest.get(path, GOOGLE).text)

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.05)
    assert heard == []
    guests.clouds.world.preempt(guest.vm)
    waiting.join(10)
    assert heard == ["TRUE"]


def test_gce_answers_a_wait_at_once_when_the_value_is_another_by_now(guests: Guests) -> None:
    guest = guests.run("gcp")
    guests.clouds.world.preempt(guest.vm)
    assert guest.get(f"{PREEMPTED}?wait_for_change=true&last_etag=old", GOOGLE).text == "TRUE"


def test_gce_gives_a_waiting_agent_the_old_value_after_its_time_out(guests: Guests) -> None:
    guest = guests.run("gcp")
    heard: list[str] = []

    def wait() -> None:
        heard.append(guest.get(f"{PREEMPTED}?wait_for_change=true&timeout_sec=30", GOOGLE).text)

    waiting = threading.Thread(target=wait)
    waiting.start()
    time.sleep(0.05)
    assert heard == []
    deadline = time.monotonic() + 10
    while waiting.is_alive() and time.monotonic() < deadline:
        guests.clouds.clock.advance(31)
        waiting.join(0.05)
    assert heard == ["FALSE"]


# Azure


def test_azure_wants_its_header_and_an_api_version(guests: Guests) -> None:
    guest = guests.run("azure")
    assert guest.get(NAME, {}).status_code == 400
    refused = guest.get("/metadata/instance", AZURE)
    assert (refused.status_code, refused.json()["newest-versions"][0]) == (400, "2023-07-01")
    assert guest.get("/metadata/scheduledevents?api-version=1999-01-01", AZURE).status_code == 400


def test_azure_tells_a_vm_who_and_where_it_is(guests: Guests) -> None:
    guest = guests.run("azure", extra={"resource_group": "research"})
    assert guest.get(NAME, AZURE).text == "node-0"
    whole = guest.get("/metadata/instance?api-version=2021-02-01", AZURE).json()
    compute = whole["compute"]
    told = (compute["vmId"], compute["location"], compute["zone"], compute["resourceGroupName"])
    assert told == (guest.vm.id, "eastus", "2", "research")
    assert compute["priority"] == "Spot"
    address = whole["network"]["interface"][0]["ipv4"]["ipAddress"][0]
    assert address["privateIpAddress"] == guest.vm.private_ip


def test_azure_announces_a_preemption_as_a_scheduled_event(guests: Guests) -> None:
    guest = guests.run("azure")
    quiet = guest.get(EVENTS, AZURE).json()
    assert quiet["Events"] == []
    guests.clouds.world.preempt(guest.vm)
    document = guest.get(EVENTS, AZURE).json()
    (event,) = document["Events"]
    assert document["DocumentIncarnation"] > quiet["DocumentIncarnation"]
    assert (event["EventType"], event["Resources"]) == ("Preempt", ["node-0"])
    not_before = datetime.strptime(event["NotBefore"], "%a, %d %b %Y %H:%M:%S %Z").replace(
        tzinfo=guests.clouds.clock.now().tzinfo
    )
    assert (not_before - guests.clouds.clock.now()).total_seconds() == 30


def test_azure_takes_the_vm_at_once_when_the_guest_approves(guests: Guests) -> None:
    guest = guests.run("azure")
    guests.clouds.world.preempt(guest.vm)
    event = guest.get(EVENTS, AZURE).json()["Events"][0]["EventId"]
    wrong = guest.http.post(EVENTS, headers=AZURE, json={"StartRequests": [{"EventId": "other"}]})
    assert (wrong.status_code, guest.vm.state) == (400, "running")
    approved = guest.http.post(EVENTS, headers=AZURE, json={"StartRequests": [{"EventId": event}]})
    assert approved.status_code == 200
    assert guest.vm.end_reason == "preempted"


def test_a_key_that_nobody_was_given_or_whose_instance_is_over_opens_nothing(guests: Guests) -> None:
    guest = guests.run("aws")
    strange = httpx.put(
        f"{guests.clouds.sandbox.endpoints['metadata']}/i/guess/latest/api/token", headers=TTL
    )
    assert strange.status_code == 404
    guests.clouds.world.terminate(guest.vm)
    assert guest.http.put("/latest/api/token", headers=TTL).status_code == 404
