"""A disk that is full is named as such, with figures."""

from __future__ import annotations

import resource
import signal
import threading

from agent.checkpoints.objects import Objects
from agent.checkpoints.store import CheckpointStore
from tests.agent.machine import Machine
from tests.agent.service import Service

LIMIT = 2 << 20


def small_files() -> None:
    """Writing a file beyond 2 MiB fails, as on a full disk (setrlimit(2): RLIMIT_FSIZE)."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))


def test_files_that_do_not_fit_are_a_full_disk(machine: Machine, service: Service) -> None:
    service.assignment |= {
        "files": [{**service.blob(b"x" * (LIMIT + 1)), "path": "model.bin"}],
        "run": "echo ran",
    }
    machine.start(limit=small_files)
    said = service.wait_exit()
    assert said["reason"] == "disk_full"
    assert "bytes are free at" in said["detail"]
    machine.wait_end()
    assert "ran\n" not in service.log_text()


def test_checkpoint_that_does_not_fit_is_a_full_disk(machine: Machine, service: Service) -> None:
    store = machine.root.parent / "store"
    place = machine.root.parent / "earlier" / "step-1"
    place.mkdir(parents=True)
    (place / "model.bin").write_bytes(b"x" * (LIMIT + 1))
    earlier = CheckpointStore(Objects(store.as_uri(), {}), "p", rank=0, num_nodes=1, epoch=0)
    name, sequence = earlier.reserve("step-1")
    earlier.upload(place, name, sequence, threading.Event())
    service.assignment |= {
        "checkpoint": {
            "path": "/checkpoints",
            "grace_seconds": 25,
            "store": {"url": store.as_uri(), "options": {}},
            "prefix": "p",
        },
        "run": "echo ran",
    }
    machine.start(limit=small_files)
    said = service.wait_exit()
    assert said["reason"] == "disk_full"
    assert "checkpoint" in said["detail"]
    assert service.heard.started == []


def test_log_that_finds_no_room_is_dropped_and_the_job_runs_on(machine: Machine, service: Service) -> None:
    service.assignment["run"] = f"head -c {LIMIT * 2} /dev/zero | tr '\\0' y; echo done > marker"
    machine.start(limit=small_files)
    said = service.wait_exit()
    assert (said["reason"], said["exit_code"]) == ("exited", 0)
    assert (machine.paths.work / "marker").exists()
    assert machine.wait_end() == 0
    assert len(service.log) == LIMIT


def test_job_that_fails_on_a_full_disk_says_so(machine: Machine, service: Service) -> None:
    service.assignment["run"] = f"head -c {LIMIT * 2} /dev/zero | tr '\\0' y; exit 1"
    machine.start(limit=small_files)
    said = service.wait_exit()
    assert (said["reason"], said["exit_code"]) == ("disk_full", 1)
    assert "bytes are free" in said["detail"]


def test_store_that_cannot_be_read_is_no_fresh_start(machine: Machine, service: Service) -> None:
    blocked = machine.root.parent / "store"
    blocked.write_text("a file, where a folder should be")
    service.assignment |= {
        "checkpoint": {
            "path": "/checkpoints",
            "grace_seconds": 25,
            "store": {"url": blocked.as_uri(), "options": {}},
            "prefix": "p",
        },
        "run": "echo ran",
    }
    machine.start()
    said = service.wait_exit()
    assert said["reason"] == "restore_failed"
    assert service.heard.started == []
