"""The agent dies and comes back; the machine reboots."""

from __future__ import annotations

import json
import stat
from pathlib import Path

from tests.agent.clouds import EC2_ID, Metadata
from tests.agent.machine import Machine
from tests.agent.service import Service, wait_for

OLD_BOOT = "00000000-0000-0000-0000-00000000b007"


def test_restarted_agent_goes_on_with_the_job_and_the_log(machine: Machine, service: Service) -> None:
    service.assignment["run"] = "for i in $(seq 1 200); do echo line $i; sleep 0.005; done; exit 6"
    machine.start()
    wait_for(lambda: service.log, "the first lines")
    machine.kill_agent()
    assert machine.job_processes()
    machine.start()
    said = service.wait_exit()
    assert (said["reason"], said["exit_code"]) == ("exited", 6)
    assert machine.wait_end() == 0
    assert service.log_text().splitlines() == [f"line {i}" for i in range(1, 201)]
    assert len(service.heard.hellos) == 1
    assert len(service.heard.started) == 1
    assert "preparing" not in service.heard.states[service.heard.states.index("running") :]


def test_restarted_agent_reports_a_job_that_ended_meanwhile(machine: Machine, service: Service) -> None:
    service.assignment["run"] = "while [ ! -e go ]; do sleep 0.01; done; echo done; exit 5"
    machine.start()
    wait_for(lambda: service.heard.started, "the start")
    machine.kill_agent()
    (machine.paths.work / "go").touch()
    wait_for(lambda: not machine.job_processes(), "the job's end")
    machine.start()
    assert service.wait_exit()["exit_code"] == 5
    assert service.log_text() == "done\n"


def test_restarted_agent_still_ends_the_job_when_told(machine: Machine, service: Service) -> None:
    service.assignment["run"] = "sleep 10000"
    machine.start()
    wait_for(lambda: service.heard.started, "the start")
    machine.kill_agent()
    machine.start()
    service.directive = {"directive": "stop", "grace_seconds": 5, "reason": "cancelled"}
    assert service.wait_exit()["reason"] == "stopped"
    assert machine.wait_end() == 0
    assert machine.job_processes() == []


def test_agent_restarted_in_the_setup_begins_it_again(machine: Machine, service: Service) -> None:
    service.assignment |= {
        "setup": "echo try >> ../../tries; [ $(wc -l < ../../tries) -gt 1 ] || sleep 10000",
        "run": "echo ran",
    }
    machine.start()
    tries = machine.paths.state / "tries"
    wait_for(tries.exists, "the setup")
    machine.kill_agent()
    machine.start()
    assert service.wait_exit()["exit_code"] == 0
    assert tries.read_text().split() == ["try", "try"]
    assert len(service.heard.hellos) == 1


def test_exit_that_was_not_delivered_is_delivered_by_the_next_start(
    machine: Machine, service: Service
) -> None:
    service.assignment["run"] = "while [ ! -e go ]; do sleep 0.01; done; exit 8"
    machine.start()
    wait_for(lambda: service.heard.started, "the start")
    service.down.set()
    (machine.paths.work / "go").touch()
    wait_for(machine.paths.result.exists, "the job's end")
    machine.kill_agent()
    service.down.clear()
    machine.start()
    assert service.wait_exit()["exit_code"] == 8
    assert machine.wait_end() == 0


def test_AGE_05_after_a_reboot_the_same_instance_says_that_its_job_was_lost(
    machine: Machine, service: Service
) -> None:
    service.assignment["run"] = "echo before; sleep 10000"
    machine.start()
    wait_for(lambda: "before" in service.log_text(), "output")
    machine.lose_power()
    machine.reboot_id(OLD_BOOT)
    machine.start()
    said = service.wait_exit()
    assert (said["reason"], said["exit_code"]) == ("lost_by_reboot", None)
    assert machine.wait_end() == 0
    first, second = service.heard.hellos
    assert first["instance_id"] == second["instance_id"] == EC2_ID
    assert first["claim_code"] == second["claim_code"]
    assert "before\n" in service.log_text()


def test_reboot_before_the_job_started_costs_only_the_preparation(machine: Machine, service: Service) -> None:
    go = False
    service.start_when = lambda: go
    service.assignment["run"] = "echo ran"
    machine.start()
    service.wait_state("ready")
    machine.lose_power()
    machine.reboot_id(OLD_BOOT)
    go = True
    machine.start()
    assert service.wait_exit()["exit_code"] == 0
    assert len(service.heard.hellos) == 2


def test_log_that_a_power_cut_has_shortened_goes_on_where_the_service_stands(
    machine: Machine, service: Service
) -> None:
    service.assignment["run"] = "echo 0123456789; sleep 10000"
    machine.start()
    wait_for(lambda: len(service.log) == 11, "output")
    machine.lose_power()
    machine.paths.spool.write_bytes(b"0123")  # the rest had not reached the disk
    machine.reboot_id(OLD_BOOT)
    machine.start()
    service.wait_exit()
    assert service.log_text().startswith("0123456789\n")
    assert "rebooted" in service.log_text()


def test_identity_and_what_a_restart_needs_are_for_root_only_and_hold_no_secret(
    machine: Machine, service: Service
) -> None:
    service.assignment |= {
        "run": "sleep 10000",
        "secrets": {"TOKEN": "s3cr3t-value"},
        "env": {"A": "e-value"},
    }
    machine.start()
    wait_for(lambda: service.heard.started, "the start")
    for path in (machine.paths.identity, machine.paths.assignment):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    kept = "".join(_texts(machine.root))
    assert "s3cr3t-value" not in kept
    assert "e-value" not in kept


def test_identity_of_another_attempt_is_not_taken_up(machine: Machine, service: Service) -> None:
    service.start_when = lambda: False
    machine.start()
    service.wait_state("ready")
    machine.lose_power()
    machine.configure(claim_code="attempt-2.c0ffee")
    machine.start()
    wait_for(lambda: len(service.heard.hellos) == 2, "a second hello")
    wait_for(lambda: json.loads(machine.paths.identity.read_text())["attempt"] == "attempt-2", "identity")


def test_AGE_05_metadata_that_is_late_only_delays_the_hello(
    machine: Machine, service: Service, metadata: Metadata
) -> None:
    metadata.faults.extend([503, 0, 503, 503, 0])
    machine.start()
    assert service.wait_exit()["exit_code"] == 0
    assert service.heard.hellos[0]["instance_id"] == EC2_ID


def test_agent_waits_for_its_configuration(machine: Machine, service: Service) -> None:
    machine.paths.configuration.parent.mkdir(parents=True)
    machine.paths.configuration.write_text('{"protocol": 1, "service_')  # cloud-init is still writing
    machine.start()
    machine.sleep(30)
    assert service.heard.calls == []
    machine.configure()
    assert service.wait_exit()["exit_code"] == 0


def test_machine_that_is_nobodys_is_left_alone(machine: Machine, service: Service) -> None:
    machine.speed(2000)
    machine.paths.configuration.parent.mkdir(parents=True)
    machine.paths.configuration.write_text("")
    machine.start()
    assert machine.wait_end() == 1
    assert not machine.powered_off
    assert "agent.json" in machine.output.read_text()


def _texts(folder: Path) -> list[str]:
    return [path.read_text(errors="replace") for path in folder.rglob("*") if path.is_file()]
