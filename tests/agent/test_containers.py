"""Jobs in a container. The runtime here is a script with docker's command line, which runs what it gets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agent.machine import Machine
from tests.agent.service import Service, wait_for

# Knows: info, pull, image inspect, run, commit, rm. An image is a file in $STATE; `run` starts the command
# after the image with the variables named by --env. When that ends, all that is left of it is killed, as in a
# container.
RUNTIME = r"""#!/bin/bash
STATE=@STATE@
echo "$*" >> $STATE/calls
case "$1" in
  info) [ -e $STATE/engine ] || { echo "Cannot connect to the Docker daemon" >&2; exit 1; } ;;
  pull)
    [ -e $STATE/full ] && { echo "write /layer: no space left on device" >&2; exit 1; }
    [ -e $STATE/known ] && touch "$STATE/image-${2//\//_}"
    echo "pulled at 98%"; exit 1 ;;
  image) [ -e "$STATE/image-${3//\//_}" ] ;;
  commit) touch "$STATE/image-${3//\//_}" ;;
  rm) exit 0 ;;
  run)
    shift
    pass=()
    while [ $# -gt 0 ]; do
      case "$1" in
        --init) shift ;;
        --env) case "$2" in *=*) pass+=("$2") ;; *) pass+=("$2=${!2}") ;; esac; shift 2 ;;
        --workdir) work=$2; shift 2 ;;
        --entrypoint) entry=$2; shift 2 ;;
        --*) shift 2 ;;
        *) break ;;
      esac
    done
    echo "image $1"
    shift
    cd "$work"
    trap : TERM
    env -i PATH="$PATH" "${pass[@]}" "$entry" "$@" &
    main=$!
    while kill -0 $main 2> /dev/null; do wait $main; done  # TERM interrupts a wait
    wait $main; code=$?
    for stat in /proc/[0-9]*/stat; do
      read -r pid _ _ _ group _ < $stat && [ "$group" = $$ ] && [ "$pid" != $$ ] && kill -KILL $pid
    done 2> /dev/null
    exit $code ;;
esac
"""


@pytest.fixture
def state(tmp_path: Path, machine: Machine, service: Service) -> Path:
    """The runtime's state; it is first on the machine's PATH, and the job wants a container."""
    place, programs = tmp_path / "docker-state", tmp_path / "bin"
    place.mkdir()
    programs.mkdir()
    script = programs / "docker"
    script.write_text(RUNTIME.replace("@STATE@", str(place)))
    script.chmod(0o755)
    (place / "engine").touch()
    (place / "known").touch()
    machine.environment["PATH"] = f"{programs}:{machine.environment['PATH']}"
    service.assignment["container"] = "registry.example/team/train:1"
    return place


def test_AGE_04_image_that_is_there_counts_whatever_the_pull_has_said(
    machine: Machine, service: Service, state: Path
) -> None:
    service.assignment["run"] = "echo in it; exit 3"
    machine.start()
    assert service.wait_exit()["exit_code"] == 3
    assert "in it" in service.log_text()
    assert "image registry.example/team/train:1" in service.log_text()


def test_AGE_04_image_that_does_not_fit_is_a_full_disk_and_the_job_is_not_run(
    machine: Machine, service: Service, state: Path
) -> None:
    (state / "full").touch()
    service.assignment["run"] = "echo in it"
    machine.start()
    said = service.wait_exit()
    assert said["reason"] == "disk_full"
    assert "registry.example/team/train:1" in said["detail"]
    assert "bytes are free at" in said["detail"]
    assert "in it" not in service.log_text()


def test_image_that_does_not_exist_fails_the_setup(machine: Machine, service: Service, state: Path) -> None:
    (state / "known").unlink()
    machine.start()
    said = service.wait_exit()
    assert said["reason"] == "setup_failed"
    assert "is not there after a pull" in said["detail"]


def test_engine_that_is_not_up_is_named(machine: Machine, service: Service, state: Path) -> None:
    (state / "engine").unlink()
    machine.start()
    said = service.wait_exit()
    assert said["reason"] == "setup_failed"
    assert "Cannot connect" in said["detail"]


def test_run_starts_from_what_the_setup_has_made(machine: Machine, service: Service, state: Path) -> None:
    service.assignment |= {"setup": "echo set up", "run": "echo ran"}
    machine.start()
    assert service.wait_exit()["exit_code"] == 0
    images = [line.split()[1] for line in service.log_text().splitlines() if line.startswith("image ")]
    assert images == ["registry.example/team/train:1", "localhost/corral/attempt-1-0:prepared"]


def test_variables_and_secrets_reach_the_job_and_no_secret_is_on_a_command_line(
    machine: Machine, service: Service, state: Path
) -> None:
    service.assignment |= {
        "env": {"COLOUR": "blue", "PATH": "/opt/bin:/usr/bin:/bin"},
        "secrets": {"TOKEN": "s3cr3t-value"},
        "checkpoint": {
            "path": "/checkpoints",
            "grace_seconds": 25,
            "store": {"url": (state / "store").as_uri(), "options": {}},
            "prefix": "p",
        },
        "run": 'echo "$COLOUR $PATH ${#TOKEN} $CORRAL_CHECKPOINT_DIR $CORRAL_NODE_RANK"',
    }
    machine.start()
    assert service.wait_exit()["exit_code"] == 0
    assert "blue /opt/bin:/usr/bin:/bin 12 /checkpoints 0" in service.log_text()
    calls = (state / "calls").read_text()
    assert "s3cr3t-value" not in calls
    assert f"--volume {machine.root}/checkpoints:/checkpoints" in calls
    assert "--network host" in calls


def test_command_inside_gets_its_grace_and_the_next_line_is_not_run(
    machine: Machine, service: Service, state: Path
) -> None:
    trainer = 'trap "sleep 0.1; echo saved; exit 0" TERM; echo up; while :; do sleep 0.01; done'
    service.assignment["run"] = f"sh -c '{trainer}'\necho next line"
    machine.start()
    wait_for(lambda: "up" in service.log_text(), "the job")
    service.directive = {"directive": "drain", "grace_seconds": 60, "reason": "notice"}
    assert service.wait_exit()["reason"] == "preempted"
    assert "saved" in service.log_text()
    assert "next line" not in service.log_text()


def test_stopping_reaches_the_job_inside_and_the_container_is_removed(
    machine: Machine, service: Service, state: Path
) -> None:
    service.assignment["run"] = "trap 'echo told; exit 9' TERM; echo up; while :; do sleep 0.01; done"
    machine.start()
    wait_for(lambda: "up" in service.log_text(), "the job")
    service.directive = {"directive": "stop", "grace_seconds": 20, "reason": "cancelled"}
    said = service.wait_exit()
    assert (said["reason"], said["exit_code"]) == ("stopped", 9)
    assert "told" in service.log_text()
    assert "rm --force corral-attempt-1-0-run" in (state / "calls").read_text()
