"""What the agent does when the service is away, says no, or listens to somebody else."""

from __future__ import annotations

import itertools
import json
import time
from pathlib import Path

from tests.agent.machine import Machine
from tests.agent.service import Service, problem, wait_for

COUNT = "for i in $(seq 1 200); do echo line $i; sleep 0.005; done"


def test_AGE_01_job_runs_on_while_the_service_is_away_and_no_byte_is_lost_or_doubled(
    machine: Machine, service: Service
) -> None:
    service.assignment["run"] = COUNT
    machine.start()
    wait_for(lambda: service.log, "the first lines")
    service.down.set()
    wait_for(lambda: (machine.paths.spool.read_bytes()).count(b"\n") > 150, "lines written meanwhile")
    assert machine.job_processes()
    service.down.clear()
    assert service.wait_exit()["exit_code"] == 0
    assert machine.wait_end() == 0
    assert service.log_text().splitlines() == [f"line {i}" for i in range(1, 201)]


def test_AGE_08_heartbeats_are_back_within_two_periods_of_the_services_return(
    machine: Machine, service: Service
) -> None:
    service.assignment["run"] = "sleep 10000"
    machine.start()
    service.wait_state("running")
    service.down.set()
    machine.sleep(90)
    service.down.clear()
    back = machine.clock.monotonic()
    before = len(service.heard.heartbeats)
    wait_for(lambda: len(service.heard.heartbeats) > before, "a heartbeat")
    # One second of grace: a call that was being cut at the very moment of the return.
    assert machine.clock.monotonic() - back <= 2 * service.heartbeat_seconds + 1
    assert machine.job_processes()


def test_exit_is_delivered_when_the_service_returns_after_the_job_has_ended(
    machine: Machine, service: Service
) -> None:
    service.assignment["run"] = "while [ ! -e go ]; do sleep 0.01; done; echo last words; exit 4"
    machine.start()
    service.wait_state("running")
    service.down.set()
    (machine.paths.work / "go").touch()
    wait_for(machine.paths.result.exists, "the job's end")
    service.down.clear()
    assert service.wait_exit()["exit_code"] == 4
    assert service.log_text() == "last words\n"
    assert machine.wait_end() == 0


def test_exit_that_nobody_takes_is_left_beside_the_checkpoint_and_ends_the_instance_after_an_hour(
    machine: Machine, service: Service, tmp_path: Path
) -> None:
    machine.speed(1500)
    store = tmp_path / "store"
    service.assignment |= {
        "run": "while [ ! -e go ]; do sleep 0.01; done; exit 4",
        "checkpoint": {
            "path": "/checkpoints",
            "grace_seconds": 25,
            "store": {"url": store.as_uri(), "options": {}},
            "prefix": "checkpoints/job-1",
        },
    }
    machine.start()
    wait_for(lambda: service.heard.started, "the start")
    service.down.set()
    (machine.paths.work / "go").touch()
    wait_for(machine.paths.result.exists, "the job's end")
    ended = machine.clock.monotonic()
    assert machine.wait_end() == 0
    assert machine.clock.monotonic() - ended >= 3500
    assert machine.powered_off
    left = json.loads((store / "checkpoints/job-1/exit-1-rank-0.json").read_text())
    assert (left["reason"], left["exit_code"], left["epoch"]) == ("exited", 4, 1)


def test_instance_without_a_job_ends_after_half_an_hour_of_silence(
    machine: Machine, service: Service
) -> None:
    machine.speed(1000)
    service.start_when = lambda: False
    machine.start()
    service.wait_state("ready")
    service.down.set()
    silent = machine.clock.monotonic()
    assert machine.wait_end() == 0
    assert machine.powered_off
    assert machine.clock.monotonic() - silent >= 1790


def test_instance_with_a_job_outlives_the_silence(machine: Machine, service: Service) -> None:
    machine.speed(2000)
    service.assignment["run"] = "sleep 10000"
    machine.start()
    service.wait_state("running")
    service.down.set()
    machine.sleep(2 * 1800)
    assert not machine.powered_off
    assert machine.job_processes()


def test_hello_is_repeated_until_the_service_knows_the_instance(machine: Machine, service: Service) -> None:
    answers: list[float] = []

    def not_yet() -> tuple[int, dict[str, object]]:
        answers.append(machine.clock.monotonic())
        if len(answers) == 3:
            del service.overrides["hello"]
        return 503, {**problem(503, "not known yet"), "retry_after": 20}

    service.overrides["hello"] = not_yet
    machine.start()
    assert service.wait_exit()["exit_code"] == 0
    assert len(answers) == 3
    assert all(later - earlier >= 20 for earlier, later in itertools.pairwise(answers))


def test_instance_whose_claim_is_refused_ends_at_once(machine: Machine, service: Service) -> None:
    service.overrides["hello"] = 403, problem(403, "claim code is not for this instance")
    machine.start()
    assert machine.wait_end() == 0
    assert machine.powered_off
    assert service.heard.calls == ["POST hello"]


def test_outdated_epoch_stops_the_job_at_once_and_nothing_more_is_said(
    machine: Machine, service: Service, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    service.assignment |= {
        "run": "d=$CORRAL_CHECKPOINT_DIR; trap 'sleep 0.2; mkdir $d/late; touch $d/late/x' TERM;"
        "while :; do sleep 0.01; done",
        "checkpoint": {
            "path": "/checkpoints",
            "grace_seconds": 1000,
            "store": {"url": store.as_uri(), "options": {}},
            "prefix": "p",
        },
    }
    machine.start()
    wait_for(machine.job_processes, "the job")
    wait_for(lambda: service.heard.started, "the start")
    service.epoch = 2
    assert machine.wait_end() == 0
    assert machine.powered_off
    assert machine.job_processes() == []
    assert service.heard.exits == []
    assert service.heard.checkpoints == []
    assert not list(store.rglob("*late*"))


def test_reply_with_a_later_epoch_counts_as_outdated(machine: Machine, service: Service) -> None:
    service.assignment["run"] = "sleep 10000"
    machine.start()
    service.wait_state("running")
    service.directive = {"directive": "continue", "epoch": 7}
    assert machine.wait_end() == 0
    assert service.heard.exits == []


def test_revoked_session_stops_the_job_and_ends_the_instance(machine: Machine, service: Service) -> None:
    service.assignment["run"] = "sleep 10000"
    machine.start()
    service.wait_state("running")
    service.session = "somebody else's"
    assert machine.wait_end() == 0
    assert machine.powered_off
    assert machine.job_processes() == []


def test_instance_that_is_told_only_later_that_it_is_over_ends_then(
    machine: Machine, service: Service
) -> None:
    service.overrides["exit"] = 200, {"directive": "wait"}
    machine.start()
    service.wait_state("exited")
    assert not machine.powered_off
    service.overrides["heartbeat"] = 410, problem(410, "the attempt is over", "gone")
    assert machine.wait_end() == 0
    assert machine.powered_off


def test_answer_that_makes_no_sense_silences_nobody(machine: Machine, service: Service) -> None:
    service.assignment["run"] = "while [ ! -e go ]; do sleep 0.01; done"
    machine.start()
    wait_for(lambda: service.heard.started, "the start")
    service.overrides["heartbeat"] = 200, {"directive": 7, "heartbeat_seconds": "soon", "node_ips": 3}
    service.overrides["logs"] = 200, {"next_offset": "here"}
    machine.sleep(100)
    service.overrides.clear()
    before = len(service.heard.heartbeats)
    wait_for(lambda: len(service.heard.heartbeats) > before, "a heartbeat")
    (machine.paths.work / "go").touch()
    assert service.wait_exit()["exit_code"] == 0


def test_attempt_that_is_over_while_it_prepares_ends_the_instance(machine: Machine, service: Service) -> None:
    service.overrides["assignment"] = 410, problem(410, "the attempt is over", "gone")
    machine.start()
    assert machine.wait_end() == 0
    assert machine.powered_off
    assert service.heard.exits == []


def test_service_that_speaks_no_longer_this_version_is_not_asked_forever(
    machine: Machine, service: Service
) -> None:
    service.overrides["hello"] = 426, problem(426, "protocol 1 is not spoken here", "upgrade")
    machine.start()
    assert machine.wait_end() == 0
    assert machine.powered_off


def test_proxy_is_used_for_the_service_and_never_for_the_metadata(machine: Machine, service: Service) -> None:
    """The proxy is the service itself, which sees absolute targets; a proxied metadata call would fail."""
    machine.environment["HTTP_PROXY"] = service.url
    machine.environment["NO_PROXY"] = ""
    machine.configure(service_url="http://corral.invalid")
    seen: list[str] = []
    plain = service.answer

    def answer(method: str, target: str, headers: object, body: bytes) -> tuple[int, object]:
        seen.append(target)
        return plain(method, target.removeprefix("http://corral.invalid"), headers, body)

    service.answer = answer  # type: ignore[method-assign]
    machine.start()
    assert service.wait_exit()["exit_code"] == 0
    assert all(target.startswith("http://corral.invalid/agent/v1/") for target in seen)


def test_first_call_comes_quickly(machine: Machine, service: Service) -> None:
    begun = time.monotonic()
    machine.start()
    wait_for(lambda: service.heard.hellos, "hello")
    assert machine.cpu_seconds() < 0.35
    assert time.monotonic() - begun < 5
