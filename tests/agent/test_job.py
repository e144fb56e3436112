"""A job from hello to its exit, on a healthy instance."""

from __future__ import annotations

import io
import os
import subprocess
import tarfile
from pathlib import Path

from tests.agent.clouds import EC2_ID
from tests.agent.machine import Machine, alive
from tests.agent.service import Service, wait_for


def test_job_runs_and_its_exit_code_and_output_arrive(machine: Machine, service: Service) -> None:
    service.assignment["run"] = "echo to stdout; echo to stderr >&2; exit 3"
    machine.start()
    said = service.wait_exit()
    assert (said["reason"], said["exit_code"], said["signal"]) == ("exited", 3, None)
    assert machine.wait_end() == 0
    assert machine.powered_off
    assert service.log_text() == "to stdout\nto stderr\n"
    assert service.heard.started == [{"epoch": 1, "restored": None}]


def test_hello_says_who_and_what_the_instance_is(machine: Machine, service: Service) -> None:
    machine.start()
    service.wait_exit()
    hello = service.heard.hellos[0]
    assert hello["instance_id"] == EC2_ID
    assert hello["claim_code"] == "attempt-1.c0ffee"
    assert hello["protocol"] == 1
    assert hello["private_ip"] == "127.0.0.1"
    assert hello["cpus"] == os.cpu_count()
    assert hello["memory_bytes"] > 0
    assert hello["boot_id"]


def test_job_gets_its_own_environment_and_nothing_of_the_agents(machine: Machine, service: Service) -> None:
    service.assignment |= {
        "run": "env; pwd",
        "env": {"LEARNING_RATE": "0.1"},
        "secrets": {"TOKEN_NAME": "s3cr3t-value"},
        "checkpoint": _checkpoint(machine),
    }
    machine.environment |= {"AWS_ACCESS_KEY_ID": "of the image", "HTTPS_PROXY": "", "SOMETHING": "else"}
    machine.start()
    service.wait_exit()
    lines = service.log_text().splitlines()
    seen = dict(line.split("=", 1) for line in lines if "=" in line)
    assert seen["LEARNING_RATE"] == "0.1"
    assert seen["CORRAL_JOB_ID"] == "job-1"
    assert seen["CORRAL_ATTEMPT"] == "attempt-1"
    assert seen["CORRAL_NODE_RANK"] == seen["NODE_RANK"] == "0"
    assert seen["CORRAL_NUM_NODES"] == seen["NUM_NODES"] == "1"
    assert seen["CORRAL_NODE_IPS"] == seen["NODE_IPS"] == seen["MASTER_ADDR"] == "127.0.0.1"
    assert seen["MASTER_PORT"] == "29500"
    assert seen["CORRAL_CHECKPOINT_DIR"] == str(machine.root / "checkpoints")
    assert "CORRAL_RESTORED_CHECKPOINT" not in seen
    assert lines[-1] == str(machine.paths.work)
    foreign = {"CORRAL_ROOT", "CORRAL_CLOCK", "CORRAL_METADATA_URL", "AWS_ACCESS_KEY_ID", "SOMETHING"}
    assert not foreign & set(seen)


def test_setup_runs_first_in_the_same_folder(machine: Machine, service: Service) -> None:
    service.assignment |= {"setup": "echo prepared > note", "run": "cat note"}
    machine.start()
    assert service.wait_exit()["exit_code"] == 0
    assert service.log_text() == "prepared\n"


def test_failing_setup_ends_the_attempt_before_the_job(machine: Machine, service: Service) -> None:
    service.assignment |= {"setup": "echo broken; false; echo went on", "run": "echo ran"}
    machine.start()
    said = service.wait_exit()
    assert (said["reason"], said["exit_code"]) == ("setup_failed", 1)
    assert "setup: exit code 1" in said["detail"]
    assert machine.wait_end() == 0
    assert service.log_text().splitlines()[0] == "broken"
    assert "ran" not in service.log_text()
    assert "went on" not in service.log_text()
    assert service.heard.started == []


def test_files_and_workdir_are_in_place_before_the_setup(machine: Machine, service: Service) -> None:
    workdir = service.blob(_tar({"train.py": b"print('trained')", "data/a.txt": b"a"}))
    settings = {**service.blob(b"deep: true\n"), "path": "conf/settings.yaml"}
    service.assignment |= {
        "workdir": workdir,
        "files": [settings],
        "setup": "cat conf/settings.yaml",
        "run": "cat data/a.txt && python3 train.py",
    }
    machine.start()
    assert service.wait_exit()["exit_code"] == 0
    assert service.log_text() == "deep: true\natrained\n"


def test_bytes_that_do_not_have_their_hash_are_never_run(machine: Machine, service: Service) -> None:
    blob = service.blob(b"right")
    service.blobs[blob["sha256"]] = b"wrong"
    service.assignment |= {"files": [{**blob, "path": "a"}], "run": "echo ran"}
    machine.start()
    said = service.wait_exit()
    assert said["reason"] == "files_failed"
    assert blob["sha256"] in said["detail"]
    machine.wait_end()
    assert "ran" not in service.log_text().split()


def test_repository_is_cloned_at_the_commit_asked_for(
    machine: Machine, service: Service, tmp_path: Path
) -> None:
    commit = _repository(tmp_path / "origin")
    url = (tmp_path / "origin").as_uri()
    service.assignment |= {"git": {"url": url, "ref": commit}, "run": "cat version"}
    machine.start()
    assert service.wait_exit()["exit_code"] == 0
    assert service.log_text().splitlines()[-1] == "first"


def test_unknown_ref_fails_with_the_repository_named(
    machine: Machine, service: Service, tmp_path: Path
) -> None:
    _repository(tmp_path / "origin")
    url = (tmp_path / "origin").as_uri()
    service.assignment |= {"git": {"url": url, "ref": "no-such-branch"}, "run": "echo ran"}
    machine.start()
    said = service.wait_exit()
    assert said["reason"] == "files_failed"
    assert url in said["detail"]
    assert "no-such-branch" in said["detail"]


def test_node_of_a_gang_waits_until_it_is_told_to_start(machine: Machine, service: Service) -> None:
    go = False
    service.num_nodes, service.rank = 2, 1
    service.node_ips = ["10.0.0.1", "10.0.0.2"]
    service.start_when = lambda: go
    service.assignment |= {
        "num_nodes": 2,
        "gpus_per_node": 8,
        "run": 'echo "$CORRAL_NODE_RANK/$CORRAL_NUM_NODES x$GPUS_PER_NODE $MASTER_ADDR"; echo "$NODE_IPS"',
    }
    machine.start()
    service.wait_state("ready")
    wait_for(lambda: sum(beat["state"] == "ready" for beat in service.heard.heartbeats) > 5, "heartbeats")
    assert service.heard.started == []
    go = True
    assert service.wait_exit()["exit_code"] == 0
    assert service.log_text().split() == ["1/2", "x8", "10.0.0.1", "10.0.0.1", "10.0.0.2"]


def test_AGE_09_told_to_stop_the_whole_job_gets_sigterm_and_reports_stopped(
    machine: Machine, service: Service
) -> None:
    service.assignment["run"] = "trap 'echo told; exit 9' TERM; sleep 10000 & while :; do sleep 0.01; done"
    machine.start()
    wait_for(lambda: service.heard.started, "the start")
    wait_for(machine.job_processes, "the job's processes")
    service.directive = {"directive": "stop", "grace_seconds": 5, "reason": "rank 2 exit 1"}
    said = service.wait_exit()
    assert (said["reason"], said["exit_code"]) == ("stopped", 9)
    assert "rank 2 exit 1" in said["detail"]
    assert machine.wait_end() == 0
    assert "told" in service.log_text()
    assert machine.job_processes() == []


def test_job_that_ignores_sigterm_is_killed_after_its_grace_with_all_it_started(
    machine: Machine, service: Service
) -> None:
    service.assignment["run"] = (
        "trap '' TERM; setsid sh -c 'trap \"\" TERM; echo $$ > hidden; while :; do sleep 0.01; done' & "
        "while :; do sleep 0.01; done"
    )
    machine.start()
    hidden = machine.paths.work / "hidden"
    wait_for(lambda: hidden.exists() and hidden.read_text().strip(), "the hidden process")
    service.directive = {"directive": "stop", "grace_seconds": 20, "reason": "cancelled"}
    said = service.wait_exit()
    assert (said["reason"], said["signal"]) == ("stopped", 9)
    assert not alive(int(hidden.read_text()))


def test_what_the_job_leaves_running_ends_with_it(machine: Machine, service: Service) -> None:
    service.assignment["run"] = "nohup sleep 10000 > /dev/null 2>&1 & echo $! > left; exit 0"
    machine.start()
    assert service.wait_exit()["exit_code"] == 0
    assert not alive(int((machine.paths.work / "left").read_text()))


def test_service_started_by_the_setup_lives_as_long_as_the_job(machine: Machine, service: Service) -> None:
    service.assignment |= {
        "setup": "(while :; do echo beat; sleep 0.01; done) & echo $! > pid",
        "run": "kill -0 $(cat pid) && echo the helper lives",
    }
    machine.start()
    assert service.wait_exit()["exit_code"] == 0
    machine.wait_end()
    assert "the helper lives" in service.log_text()
    assert not alive(int((machine.paths.work / "pid").read_text()))


def test_signal_that_ended_the_job_is_named(machine: Machine, service: Service) -> None:
    service.assignment["run"] = "kill -SEGV $$"
    machine.start()
    said = service.wait_exit()
    assert (said["reason"], said["exit_code"], said["signal"]) == ("exited", None, 11)
    assert "SIGSEGV" in said["detail"]


def test_agent_itself_ends_a_job_that_exceeds_its_maximum_duration(
    machine: Machine, service: Service
) -> None:
    service.assignment |= {"run": "sleep 10000", "max_duration_seconds": 60}
    machine.start()
    said = service.wait_exit()
    assert said["reason"] == "max_duration"
    assert "60 s" in said["detail"]


def test_instance_ends_its_job_when_it_reaches_its_maximum_age(machine: Machine, service: Service) -> None:
    service.max_age_seconds = 50
    service.assignment["run"] = "sleep 10000"
    machine.start()
    said = service.wait_exit()
    assert said["reason"] == "max_duration"
    assert "maximum age" in said["detail"]


def test_container_without_a_runtime_is_refused_before_anything_runs(
    machine: Machine, service: Service, tmp_path: Path
) -> None:
    (tmp_path / "bin").mkdir()
    machine.environment["PATH"] = str(tmp_path / "bin")
    service.assignment |= {"container": "registry.example/train:1", "setup": "echo setup", "run": "echo ran"}
    machine.start()
    said = service.wait_exit()
    assert said["reason"] == "setup_failed"
    assert "docker" in said["detail"]
    assert "podman" in said["detail"]
    assert machine.wait_end() == 0
    assert "echo" not in service.log_text()


def _checkpoint(machine: Machine) -> dict[str, object]:
    store = {"url": (machine.root.parent / "store").as_uri(), "options": {}}
    return {"path": "/checkpoints", "grace_seconds": 25, "store": store, "prefix": "checkpoints/job-1"}


def _tar(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return packed.getvalue()


def _repository(place: Path) -> str:
    """A repository whose first commit is not its last; the first one's hash."""
    place.mkdir()
    quiet = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull, "PATH": os.environ["PATH"]}

    def git(*words: str) -> str:
        who = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        done = subprocess.run(
            ["git", *who, *words], cwd=place, env=quiet, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

    git("init", "-q")
    for text in ("first", "second"):
        (place / "version").write_text(f"{text}\n")
        git("add", "version")
        git("commit", "-q", "-m", text)
    return git("rev-parse", "HEAD~1")
