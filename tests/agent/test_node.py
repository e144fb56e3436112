"""A standing node: it enrols once, serves attempts one after another, leaves nothing of one to the next."""

from __future__ import annotations

import json
import os
import signal
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.agent.node import CODE, NodeMachine, NodeService
from tests.agent.service import wait_for


@pytest.fixture
def service() -> Iterator[NodeService]:
    made = NodeService()
    yield made
    made.close()


@pytest.fixture
def node(tmp_path: Path, zipapp: Path) -> Iterator[NodeMachine]:
    made = NodeMachine(tmp_path, zipapp)
    yield made
    made.close()


def test_a_node_enrols_once_and_comes_back_with_its_session(node: NodeMachine, service: NodeService) -> None:
    node.start(service.url, CODE)
    wait_for(lambda: service.polls, "a poll")
    assert service.enrolments[0]["cpus"] >= 1
    kept = node.paths.registration
    assert json.loads(kept.read_text())["session"] == "of-the-node"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    node.signal(signal.SIGTERM)
    assert node.wait_end() == 0
    seen = len(service.polls)
    node.start()
    wait_for(lambda: len(service.polls) > seen, "a poll of the second start")
    assert len(service.enrolments) == 1


def test_a_wrong_code_ends_it_and_leaves_nothing(node: NodeMachine, service: NodeService) -> None:
    node.start(service.url, "guess")
    assert node.wait_end() == 1
    assert not node.paths.registration.exists()
    assert "refused the code" in node.output.read_text()


@pytest.mark.parametrize("words", [("nonsense",), ("ftp://x", "code"), ("--ca",), ("a", "b", "c")])
def test_a_wrong_call_says_how_it_is_meant(node: NodeMachine, words: tuple[str, ...]) -> None:
    node.start(*words)
    assert node.wait_end() == 2
    assert "usage: agent.pyz node" in node.output.read_text()


def test_it_serves_one_attempt_after_another_and_is_never_powered_off(
    node: NodeMachine, service: NodeService
) -> None:
    node.start(service.url, CODE)
    for number, use in enumerate(("n-1.first", "n-1.second"), start=1):
        service.give(use, run=f"echo of {use}")
        assert service.wait_exit()["exit_code"] == 0
        service.wait_done(use)
        assert len(service.heard.hellos) == number
        assert service.heard.hellos[-1]["instance_id"] == use
        assert service.heard.hellos[-1]["claim_code"] == f"{use}.c0ffee"
    assert not list(node.root.rglob("poweroff"))


def test_nothing_of_an_attempt_is_left_to_the_next(node: NodeMachine, service: NodeService) -> None:
    node.start(service.url, CODE)
    service.give("n-1.first", run="echo $TOKEN_NAME > kept", secrets={"TOKEN_NAME": "s3cr3t-value"})
    service.wait_done("n-1.first")
    assert not node.paths.attempt.exists()
    service.give("n-1.second", run="ls -A; env", secrets={})
    service.wait_exit()
    assert "kept" not in service.log_text()
    assert "s3cr3t-value" not in service.log_text()
    service.wait_done("n-1.second")


def test_processes_that_a_job_leaves_behind_are_ended_with_it(
    node: NodeMachine, service: NodeService, tmp_path: Path
) -> None:
    node.start(service.url, CODE)
    mark = tmp_path / "pid"
    service.give("n-1.first", run=f"setsid sleep 1000 & echo $! > {mark}; true")
    service.wait_done("n-1.first")
    pid = int(mark.read_text())
    wait_for(lambda: not Path(f"/proc/{pid}").exists(), "the end of what the job left")


def test_the_service_takes_a_node_back(node: NodeMachine, service: NodeService) -> None:
    node.start(service.url, CODE)
    service.give("n-1.first", run="sleep 1000")
    service.wait_state("running")
    service.directive = {"directive": "end"}
    service.wants_back = True
    service.wait_done("n-1.first")
    assert not node.agents()
    assert not node.job_processes()


def test_a_node_that_is_taken_back_before_it_began_says_so_and_runs_nothing(
    node: NodeMachine, service: NodeService
) -> None:
    service.give("n-1.first", run="true")
    service.wants_back = True
    node.start(service.url, CODE)
    service.wait_done("n-1.first")
    assert not service.heard.hellos


def test_a_job_outlives_a_restart_of_the_node_agent(node: NodeMachine, service: NodeService) -> None:
    node.start(service.url, CODE)
    service.give("n-1.first", run="while [ ! -e go ]; do sleep 0.01; done; echo went on")
    service.wait_state("running")
    shell = node.job_processes()[0]
    node.kill()
    assert node.job_processes()[0] == shell
    node.start()
    wait_for(node.agents, "the attempt's agent again")
    (node.attempt.work / "go").touch()
    assert service.wait_exit()["exit_code"] == 0
    assert "went on" in service.log_text()
    assert len(service.heard.hellos) == 1
    service.wait_done("n-1.first")


def test_a_crash_of_the_attempts_agent_costs_the_job_nothing(node: NodeMachine, service: NodeService) -> None:
    node.start(service.url, CODE)
    service.give("n-1.first", run="while [ ! -e go ]; do sleep 0.01; done")
    service.wait_state("running")
    (agent,) = node.agents()
    os.kill(agent, signal.SIGKILL)
    wait_for(lambda: [pid for pid in node.agents() if pid != agent], "another agent")
    (node.attempt.work / "go").touch()
    assert service.wait_exit()["exit_code"] == 0
    service.wait_done("n-1.first")


def test_stopping_the_node_has_the_job_told_as_when_a_machine_shuts_down(
    node: NodeMachine, service: NodeService
) -> None:
    node.start(service.url, CODE)
    service.give("n-1.first", run="trap 'echo told; exit 0' TERM; while :; do sleep 0.01; done")
    service.wait_state("running")
    node.signal(signal.SIGTERM)
    assert service.wait_exit()["reason"] == "preempted"
    assert node.wait_end() == 0
    assert "told" in service.log_text()
    assert not node.job_processes()


def test_a_node_that_was_removed_ends_its_job_and_forgets_its_session(
    node: NodeMachine, service: NodeService
) -> None:
    node.start(service.url, CODE)
    service.give("n-1.first", run="sleep 1000")
    service.wait_state("running")
    service.removed = True
    assert node.wait_end() == 0
    assert not node.job_processes()
    assert not node.agents()
    assert not node.paths.registration.exists()
    assert not node.paths.attempt.exists()


def test_a_service_that_is_away_is_asked_again_and_the_job_runs_on(
    node: NodeMachine, service: NodeService
) -> None:
    node.start(service.url, CODE)
    service.give("n-1.first", run="while [ ! -e go ]; do sleep 0.01; done")
    service.wait_state("running")
    service.down.set()
    shell = node.job_processes()[0]
    wait_for(lambda: "asking again" in node.output.read_text(), "a poll that failed")
    assert node.job_processes()[0] == shell
    service.down.clear()
    (node.attempt.work / "go").touch()
    assert service.wait_exit()["exit_code"] == 0
    service.wait_done("n-1.first")
