"""The sandbox as a whole: where it listens, the control API, the accounts section, and its own time."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from clock import ScaledClock
from providers.config import AccountConfig
from sandbox import guest
from sandbox.scenario import Scenario
from sandbox.server import FACES, Sandbox
from tests.clocks import FakeClock
from tests.sandbox.worlds import Clouds, launch, until


@pytest.fixture
def control(clouds: Clouds) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{clouds.sandbox.endpoints['control']}/control", timeout=20) as client:
        yield client


def test_everything_listens_on_loopback_only(clouds: Clouds) -> None:
    assert all(url.startswith("http://127.0.0.1:") for url in clouds.sandbox.endpoints.values())
    ports = {int(url.rpartition(":")[2]) for url in clouds.sandbox.endpoints.values()}
    listening = set()
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        address, port = line.split()[1].split(":")
        if line.split()[3] == "0A" and int(port, 16) in ports:
            listening.add(address)
    assert listening == {"0100007F"}


def test_a_base_port_gives_each_face_its_place(tmp_path: Path) -> None:
    for base in range(21_000, 29_000, 97):  # below the ports that the system gives out by itself
        with contextlib.suppress(OSError):
            sandbox = Sandbox(
                Scenario(), tmp_path, ["/bin/true"], FakeClock(), base_port=base, clouds=["aws"]
            )
            break
    wanted = {name: f"http://127.0.0.1:{base + index}" for index, name in enumerate(FACES)}
    assert sandbox.endpoints == {name: wanted[name] for name in ("aws", "metadata", "control")}
    sandbox.stop()


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"port {port} on 127.0.0.1"):
            Sandbox(Scenario(), tmp_path, ["/bin/true"], FakeClock(), base_port=port, clouds=["aws"])


def test_the_accounts_section_is_what_the_settings_take(clouds: Clouds) -> None:
    (account,) = [AccountConfig.model_validate(row) for row in clouds.sandbox.accounts()]
    assert (account.provider, account.endpoint) == ("aws", clouds.sandbox.endpoints["aws"])
    assert set(account.regions) == {"us-east-1", "us-west-2", "eu-west-1"}
    assert account.credentials.file is not None
    assert Path(account.credentials.file).stat().st_mode & 0o777 == 0o600


def test_time_moves_by_itself_on_the_sandboxs_clock(tmp_path: Path) -> None:
    clock = ScaledClock(time.time(), 100)
    with Sandbox(Scenario(), tmp_path, ["/bin/true"], clock, clouds=["aws"]) as sandbox:
        (vm,) = launch(sandbox.world)
        deadline = time.monotonic() + 10
        while vm.state != "running" and time.monotonic() < deadline:
            time.sleep(0.005)
    assert vm.running_at is not None
    assert (vm.running_at - vm.created_at).total_seconds() == pytest.approx(20, abs=10)  # 0.1 s of ours


def test_stopping_ends_every_instance_and_lets_go_of_who_waits(tmp_path: Path) -> None:
    agent = ["/bin/sh", "-c", "trap '' TERM; echo $$ > unit; while :; do sleep 0.05; done"]
    sandbox = Sandbox(Scenario(), tmp_path, agent, FakeClock(), ticking=False, clouds=["aws"]).start()
    user_data = "#cloud-config\nwrite_files: [{path: /etc/corral/agent.json, content: '{}'}]\n"
    (vm,) = launch(sandbox.world, user_data=user_data)
    gcp = {"region": "us-central1", "zone": "us-central1-a", "instance_type": "g2-standard-4"}
    (quiet,) = launch(sandbox.world, provider="gcp", **gcp)  # type: ignore[arg-type]
    sandbox.machines.start(vm)
    unit = sandbox.machines.folder(vm) / "root/unit"
    until(lambda: unit.exists() and unit.read_text().endswith("\n"))
    address = urlsplit(sandbox.endpoints["metadata"]).netloc
    path = f"/i/{quiet.metadata_key}/computeMetadata/v1/instance/preempted?wait_for_change=true"
    with contextlib.closing(HTTPConnection(address, timeout=20)) as waiting:
        waiting.request("GET", path, headers={"Metadata-Flavor": "Google"})
        time.sleep(0.1)
        pid = int(unit.read_text())
        sandbox.stop()
        assert waiting.getresponse().read() == b"FALSE"
    assert guest.look(pid)[0] in "ZX"


def test_no_id_is_given_twice_in_one_folder_and_a_new_folder_repeats_them(tmp_path: Path) -> None:
    def first_id(root: Path) -> str:
        sandbox = Sandbox(Scenario(), root, ["/bin/true"], FakeClock(), ticking=False, clouds=["aws"])
        (vm,) = launch(sandbox.world)
        sandbox.stop()
        return vm.id

    first, second, third = (first_id(tmp_path / "one") for _ in range(3))
    assert len({first, second, third}) == 3
    assert first_id(tmp_path / "two") == first


def test_stopping_leaves_no_thread_behind(tmp_path: Path) -> None:
    before = threading.active_count()
    sandbox = Sandbox(Scenario(), tmp_path, ["/bin/true"], ScaledClock(0, 1), clouds=["aws"]).start()
    sandbox.stop()
    sandbox.stop()
    assert threading.active_count() <= before


def test_the_ledger_shows_what_is_made_live_called_and_billed(clouds: Clouds, control: httpx.Client) -> None:
    clouds.client().describe_instances()
    launch(clouds.world, 2)
    clouds.pass_time(20 + 3600)
    ledger = control.get("ledger").json()
    assert ledger["objects"]["instance"] == {"made": 2, "live": 2}
    assert ledger["calls"] == {"aws": {"DescribeInstances": 1}}
    assert ledger["bill"]["total"] == "0.804000000"
    assert [event["what"] for event in ledger["events"]] == ["created", "created", "running", "running"]


def test_endpoints_and_instances_can_be_looked_up(clouds: Clouds, control: httpx.Client) -> None:
    (vm,) = launch(clouds.world)
    assert control.get("endpoints").json() == clouds.sandbox.endpoints
    (row,) = control.get("instances").json()
    assert (row["id"], row["state"], row["zone"]) == (vm.id, "pending", "use1-az4")
    assert vm.metadata_key not in control.get("instances").text
    assert control.get(f"console/aws/{vm.id}").text == ""
    assert control.get("console/aws/i-nobody").status_code == 404


def test_orders_change_the_market(clouds: Clouds, control: httpx.Client) -> None:
    where = {"provider": "aws", "instance_type": "g5.xlarge", "capacity_type": "spot"}
    assert control.post("capacity", json={**where, "count": 0}).status_code == 200
    assert control.post("price", json={**where, "price": 0.7}).status_code == 200
    quota = {"provider": "aws", "region": "us-east-1", "name": "P/spot", "limit": 3}
    assert control.post("quota", json=quota).status_code == 200

    def now() -> tuple[int, float | None, float]:
        pool = ("aws", "us-east-1", "use1-az4", "g5.xlarge")
        limits = {row.name: row.limit for row in clouds.world.quotas("aws", "us-east-1")}
        return clouds.world.free(*pool, "spot"), clouds.world.price(*pool, "spot"), limits["P/spot"]

    assert now() == (0, 0.7, 3)
    control.post("restore", json={"where": {"provider": "aws"}})
    assert now() == (8, 0.402, 2304)


def test_orders_take_instances_away(clouds: Clouds, control: httpx.Client) -> None:
    first, second = launch(clouds.world, 2)
    control.post("preempt", json={"provider": "aws", "id": first.id, "seconds": 9})
    assert first.notice_deadline is not None
    control.post("kill", json={"provider": "aws", "id": second.id})
    assert second.end_reason == "host_failure"
    assert control.post("kill", json={"provider": "aws", "id": "i-nobody"}).status_code == 404


def test_events_can_be_added_and_time_told_to_pass(clouds: Clouds, control: httpx.Client) -> None:
    (vm,) = launch(clouds.world)
    added = control.post("events", json=[{"do": "preempt", "at": 30, "notice": False}])
    assert added.status_code == 200
    clouds.clock.advance(30)
    assert vm.end_reason is None
    control.post("tick")
    assert vm.end_reason == "preempted"


@pytest.mark.parametrize(
    ("order", "body", "status", "said"),
    [
        ("capacity", {"provider": "aws", "zone": "mars", "count": 1}, 422, "zone 'mars' is in no catalogue"),
        ("capacity", {"provider": "aws"}, 422, "count: Field required"),
        ("events", [{"do": "explode", "at": 1}], 422, "expected tags"),
        (
            "fault",
            {"provider": "aws", "call": "X", "action": "error", "colour": 1},
            422,
            "colour: unknown key",
        ),
        ("fault", [], 422, "the body is no JSON object"),
        ("dance", {}, 404, "no such order; there are capacity, price"),
    ],
)
def test_an_order_that_makes_no_sense_is_refused_with_the_reason(
    control: httpx.Client, order: str, body: Any, status: int, said: str
) -> None:
    answer = control.post(order, json=body)
    assert answer.status_code == status
    assert said in answer.json()["detail"]
