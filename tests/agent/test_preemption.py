"""The cloud takes the instance away: its job is told, checkpoints, and the exit says so."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.agent.clouds import Metadata
from tests.agent.machine import Machine
from tests.agent.service import Service, wait_for

# Writes one last checkpoint when it is told to end, as a trainer would.
TRAINER = """
d=$CORRAL_CHECKPOINT_DIR
trap 'mkdir $d/.step-7; echo 7 > $d/.step-7/step; mv $d/.step-7 $d/step-7; exit 0' TERM
echo trains
while :; do sleep 0.01; done
"""


@pytest.fixture
def store(tmp_path: Path, service: Service) -> Path:
    """The job's checkpoint store; the job is a trainer."""
    place = tmp_path / "store"
    service.assignment |= {"run": TRAINER, "checkpoint": checkpoint(place)}
    return place


def checkpoint(store: Path, grace: int = 25) -> dict[str, Any]:
    options: dict[str, str] = {}
    return {
        "path": "/checkpoints",
        "grace_seconds": grace,
        "store": {"url": store.as_uri(), "options": options},
        "prefix": "checkpoints/job-1",
    }


def notify(machine: Machine, metadata: Metadata, provider: str) -> None:
    now = machine.clock.now()
    if provider == "aws":
        metadata.interrupt(now + timedelta(seconds=120))
    elif provider == "gcp":
        metadata.preempted = True
    else:
        metadata.schedule("Preempt", now + timedelta(seconds=30))


@pytest.mark.parametrize("provider", ["aws", "gcp", "azure"])
def test_notice_ends_in_a_last_checkpoint_and_an_exit_as_preempted(
    make_machine: Callable[[str], Machine], service: Service, metadata: Metadata, store: Path, provider: str
) -> None:
    machine = make_machine(provider)
    machine.speed(20)
    machine.start()
    wait_for(lambda: "trains" in service.log_text(), "the job")
    notify(machine, metadata, provider)
    said = service.wait_exit()
    assert machine.wait_end() == 0
    assert (said["reason"], said["exit_code"], said["checkpoint"]) == ("preempted", 0, "step-7")
    notice = service.heard.notices[0]
    assert notice["kind"] == "preemption"
    assert notice["deadline"].endswith("Z")
    assert service.heard.checkpoints == [
        {"epoch": 1, "name": "step-7", "bytes": 2, "manifest": "checkpoints/job-1/step-7/manifest-0.json"}
    ]
    calls = service.heard.calls
    order = [calls.index(f"POST {path}") for path in ("notice", "checkpoint", "exit")]
    assert order == sorted(order)
    manifest = json.loads((store / "checkpoints/job-1/step-7/manifest-0.json").read_text())
    assert [file["path"] for file in manifest["files"]] == ["step"]
    assert (store / "checkpoints/job-1/step-7/rank-0/step").read_text() == "7\n"


def test_replacement_goes_on_from_the_last_checkpoint(
    make_machine: Callable[[str], Machine], service: Service, metadata: Metadata, store: Path
) -> None:
    first = make_machine("aws")
    first.start()
    wait_for(lambda: "trains" in service.log_text(), "the job")
    notify(first, metadata, "aws")
    service.wait_exit()
    first.wait_end()
    service.heard.exits.clear()
    service.log.clear()
    service.epoch = 2
    service.assignment["run"] = 'cat "$CORRAL_RESTORED_CHECKPOINT/step"; ls "$CORRAL_CHECKPOINT_DIR"'
    second = make_machine("gcp")
    second.start()
    assert service.wait_exit()["exit_code"] == 0
    second.wait_end()
    assert service.log_text().split("\n")[-3:] == ["7", "step-7", ""]
    assert service.heard.started[-1] == {"epoch": 2, "restored": "step-7"}
    assert service.heard.checkpoints[-1]["epoch"] == 1  # what was restored is not uploaded again


@pytest.mark.parametrize("seconds", [4, None, -60], ids=["short", "empty", "past"])
def test_PRE_06_short_empty_or_past_deadline_acts_now_and_never_harms_the_last_good_checkpoint(
    make_machine: Callable[[str], Machine],
    service: Service,
    metadata: Metadata,
    store: Path,
    seconds: int | None,
) -> None:
    """The job needs 20 s for a checkpoint, and there is less."""
    machine = make_machine("azure")
    machine.speed(20)
    service.assignment["run"] = (
        "d=$CORRAL_CHECKPOINT_DIR; mkdir $d/.good; echo 1 > $d/.good/step; mv $d/.good $d/good\n"
        "trap 'mkdir $d/.new; for i in 1 2 3 4; do > $d/.new/$i; sleep 0.25; done; mv $d/.new $d/new' TERM\n"
        "while :; do sleep 0.01; done"
    )
    machine.start()
    wait_for(lambda: service.heard.checkpoints, "the first checkpoint")
    noticed = machine.clock.now()
    at = noticed + timedelta(seconds=seconds) if seconds is not None else None
    metadata.schedule("Preempt", at, status="Scheduled" if at else "Started")
    said = service.wait_exit()
    assert (said["reason"], said["checkpoint"]) == ("preempted", "good")
    assert [item["name"] for item in service.heard.checkpoints] == ["good"]
    assert service.heard.calls.index("POST notice") < service.heard.calls.index("POST exit")
    assert (machine.clock.now() - noticed).total_seconds() < 60


def test_azure_maintenance_is_reported_at_once_and_drains_when_its_time_comes(
    make_machine: Callable[[str], Machine], service: Service, metadata: Metadata, store: Path
) -> None:
    machine = make_machine("azure")
    machine.start()
    wait_for(lambda: "trains" in service.log_text(), "the job")
    metadata.schedule("Reboot", machine.clock.now(), name="somebody-else")
    metadata.schedule("Reboot", machine.clock.now() + timedelta(seconds=400))
    wait_for(lambda: service.heard.notices, "the notice")
    noticed = machine.clock.monotonic()
    assert service.heard.notices[0]["kind"] == "maintenance"
    assert "Reboot" in service.heard.notices[0]["source"]
    assert service.wait_exit()["reason"] == "preempted"
    # 145 s ahead: two minutes, and the job's own 25 s. What is left over is the machine's own slowness.
    assert machine.clock.monotonic() - noticed > 200
    assert len(service.heard.notices) == 1


def test_rebalance_recommendation_is_passed_on_and_the_job_runs_on(
    machine: Machine, service: Service, metadata: Metadata, store: Path
) -> None:
    machine.start()
    wait_for(lambda: "trains" in service.log_text(), "the job")
    metadata.rebalance = {"noticeTime": "2026-03-01T12:00:00Z"}
    wait_for(lambda: service.heard.notices, "the notice")
    machine.sleep(60)
    assert machine.job_processes()
    assert [item["kind"] for item in service.heard.notices] == ["maintenance"]
    assert service.heard.notices[0]["deadline"] is None


def test_notice_for_another_node_drains_this_one_too(machine: Machine, service: Service, store: Path) -> None:
    machine.start()
    wait_for(lambda: "trains" in service.log_text(), "the job")
    service.directive = {"directive": "drain", "grace_seconds": 20, "reason": "notice for rank 1"}
    said = service.wait_exit()
    assert (said["reason"], said["checkpoint"]) == ("preempted", "step-7")
    assert "notice for rank 1" in said["detail"]


def test_trainer_in_the_background_gets_its_grace_though_the_shell_is_gone(
    machine: Machine, service: Service, store: Path
) -> None:
    """`wait` returns as soon as the shell is told; what it waited for still writes."""
    service.assignment["run"] = (
        "d=$CORRAL_CHECKPOINT_DIR\n"
        "(trap 'sleep 0.1; mkdir $d/.a; touch $d/.a/x; mv $d/.a $d/a; exit' TERM;"
        " echo trains; while :; do sleep 0.01; done) &\nwait"
    )
    machine.start()
    wait_for(lambda: "trains" in service.log_text(), "the job")
    service.directive = {"directive": "drain", "grace_seconds": 25, "reason": "notice for rank 1"}
    assert service.wait_exit()["checkpoint"] == "a"


def test_service_that_is_away_does_not_delay_the_last_checkpoint(
    machine: Machine, service: Service, metadata: Metadata, store: Path
) -> None:
    machine.start()
    wait_for(lambda: "trains" in service.log_text(), "the job")
    service.down.set()
    notify(machine, metadata, "aws")
    wait_for((store / "checkpoints/job-1/step-7/manifest-0.json").exists, "the last checkpoint")
    service.down.clear()
    assert service.wait_exit()["reason"] == "preempted"
    wait_for(lambda: service.heard.notices, "the notice, late")
    wait_for(lambda: service.heard.checkpoints, "the checkpoint, late")


def test_PRE_15_notice_during_the_setup_ends_it_and_reports(
    machine: Machine, service: Service, metadata: Metadata, store: Path
) -> None:
    service.assignment["setup"] = "echo sets up; sleep 10000"
    machine.start()
    wait_for(lambda: "sets up" in service.log_text(), "the setup")
    notify(machine, metadata, "aws")
    said = service.wait_exit()
    assert (said["reason"], said["exit_code"]) == ("preempted", None)
    assert machine.wait_end() == 0
    assert machine.job_processes() == []


def test_PRE_15_notice_while_it_waits_for_the_others_reports(
    machine: Machine, service: Service, metadata: Metadata, store: Path
) -> None:
    service.start_when = lambda: False
    machine.start()
    service.wait_state("ready")
    notify(machine, metadata, "aws")
    assert service.wait_exit()["reason"] == "preempted"


def test_PRE_02_machine_that_is_switched_off_without_a_notice_still_checkpoints(
    machine: Machine, service: Service, store: Path
) -> None:
    machine.speed(20)
    machine.start()
    wait_for(lambda: "trains" in service.log_text(), "the job")
    machine.signal(signal.SIGTERM)
    said = service.wait_exit()
    assert (said["reason"], said["checkpoint"]) == ("preempted", "step-7")
    assert "shutting down" in said["detail"]


def test_PRE_02_job_that_the_same_shutdown_ends_first_has_not_failed(
    machine: Machine, service: Service
) -> None:
    machine.speed(5)
    service.assignment["run"] = "echo runs; sleep 10000"
    machine.start()
    wait_for(lambda: "runs" in service.log_text(), "the job")
    machine.terminate_job()
    machine.sleep(0.7)
    machine.signal(signal.SIGTERM)
    assert service.wait_exit()["reason"] == "preempted"


def test_PRE_04_job_runs_without_metadata_and_the_heartbeat_says_that_notices_go_unseen(
    machine: Machine, service: Service, metadata: Metadata
) -> None:
    service.assignment["run"] = "sleep 10000"
    machine.start()
    service.wait_state("running")
    assert "degraded" not in service.heard.heartbeats[0]
    metadata.faults.extend([503, 0] * 500)
    wait_for(lambda: "degraded" in service.heard.heartbeats[-1], "the flag")
    assert service.heard.heartbeats[-1]["degraded"] == ["notice_channel_down"]
    assert machine.job_processes()
    metadata.faults.clear()
    wait_for(lambda: "degraded" not in service.heard.heartbeats[-1], "the flag's end")
    notify(machine, metadata, "aws")
    assert service.wait_exit()["reason"] == "preempted"
