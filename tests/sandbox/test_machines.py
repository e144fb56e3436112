"""Instances as processes: what they are given, and that they are really ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from sandbox import guest
from sandbox.machines import ProcessMachines
from sandbox.scenario import Scenario
from sandbox.vm import Vm
from sandbox.world import World
from tests.clocks import FakeClock
from tests.sandbox.worlds import NOWHERE, launch, pass_time, until

USER_DATA = "#cloud-config\n" + yaml.safe_dump(
    {"write_files": [{"path": "/etc/corral/agent.json", "content": "{}", "permissions": "0600"}]}
)


def gone(pid: int) -> bool:
    return guest.look(pid)[0] in "ZX"


class Hall:
    """Machines whose agent is a shell script."""

    def __init__(self, root: Path, clock: FakeClock) -> None:
        self.root, self.clock = root, clock
        self._machines: list[ProcessMachines] = []

    def shell(self, script: str, user_data: str = USER_DATA) -> tuple[World, Vm]:
        """A running instance whose agent is a shell script."""
        machines = ProcessMachines(self.root, ["/bin/sh", "-c", script], NOWHERE, self.clock)
        self._machines.append(machines)
        world = World(Scenario(), self.clock, machines)
        (vm,) = launch(world, user_data=user_data)
        pass_time(world, self.clock, 20)
        return world, vm

    def disk(self, vm: Vm) -> Path:
        return self.root / "machines" / f"aws-{vm.id}" / "root"

    def read(self, vm: Vm, name: str) -> str:
        """A file that the guest writes, once it is there."""
        path = self.disk(vm) / name
        until(lambda: path.exists() and path.read_text().endswith("\n"))
        return path.read_text()

    def close(self) -> None:
        for machines in self._machines:
            machines.close()


@pytest.fixture
def hall(tmp_path: Path, clock: FakeClock) -> Iterator[Hall]:
    hall = Hall(tmp_path / "hall", clock)
    yield hall
    hall.close()


def console(world: World, vm: Vm) -> str:
    return world.machines.console(vm)


def test_the_unit_gets_its_environment_and_nothing_of_ours(
    hall: Hall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "ours")
    world, vm = hall.shell("env > env.tmp && mv env.tmp env.txt; sleep 60")
    lines = hall.read(vm, "env.txt").splitlines()
    given = dict(line.partition("=")[::2] for line in lines)
    disk = str(hall.disk(vm))
    assert {key: given[key] for key in given if key not in ("PWD", "SHLVL", "_", "OLDPWD")} == {
        "CORRAL_ROOT": disk,
        "CORRAL_METADATA_URL": f"{NOWHERE}/i/{vm.metadata_key}",
        "CORRAL_CLOCK": "0:1",
        "PATH": os.environ["PATH"],
        "HOME": disk,
    }
    assert given["PWD"] == disk
    assert vm.metadata_key not in str(world.ledger())


def test_a_directive_that_is_not_honoured_is_on_the_console_and_nothing_runs(hall: Hall) -> None:
    world, vm = hall.shell("echo > started", user_data="#cloud-config\nruncmd: [touch /tmp/evil]\n")
    assert "user data refused: directive 'runcmd' is not honoured" in console(world, vm)
    assert not (hall.disk(vm) / "started").exists()
    assert vm.state == "running"


def test_without_the_agents_file_no_unit_starts(hall: Hall) -> None:
    world, vm = hall.shell("echo > started", user_data="#cloud-config\nwrite_files: []\n")
    assert "no /etc/corral/agent.json: the agent is not started" in console(world, vm)
    assert not (hall.disk(vm) / "started").exists()


def test_a_seed_that_gives_the_same_id_again_gives_no_old_disk(hall: Hall) -> None:
    script = "ls > left.tmp; mv left.tmp left; touch secret; echo done > done"
    first, vm = hall.shell(script)
    hall.read(vm, "done")
    first.kill(vm)
    _, again = hall.shell(script)
    assert again.id == vm.id
    hall.read(again, "done")
    assert "secret" not in hall.read(again, "left").split()


def test_terminating_tells_the_guest_first_then_ends_whatever_is_left(hall: Hall, clock: FakeClock) -> None:
    world, vm = hall.shell("trap 'echo told > told' TERM; echo $$ > pid; while :; do sleep 0.05; done")
    pid = int(hall.read(vm, "pid"))
    world.terminate(vm)
    assert hall.read(vm, "told") == "told\n"
    assert not gone(pid)
    pass_time(world, clock, 5)
    assert gone(pid)
    assert not hall.disk(vm).exists()
    assert (hall.disk(vm).parent / "console.log").exists()


def test_not_even_a_process_in_a_session_of_its_own_outlives_its_machine(hall: Hall) -> None:
    script = """
trap '' TERM
setsid sh -c 'trap "" TERM; echo $$ > own-session; while :; do sleep 0.05; done' &
sh -c '( trap "" TERM; exec sh -c "echo \\$\\$ > orphan; while :; do sleep 0.05; done" ) & exit 0'
echo $$ > unit
while :; do sleep 0.05; done
"""
    world, vm = hall.shell(script)
    pids = [int(hall.read(vm, name)) for name in ("own-session", "orphan", "unit")]
    assert not any(gone(pid) for pid in pids)
    world.kill(vm)
    assert all(gone(pid) for pid in pids)


def test_a_forking_crowd_is_ended_to_the_last(hall: Hall) -> None:
    script = "echo $$ > unit; while :; do (sleep 3 & sleep 3) & sleep 0.01; done"
    world, vm = hall.shell(script)
    hall.read(vm, "unit")
    time.sleep(0.2)
    world.kill(vm)
    root = str(hall.disk(vm))
    assert not [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if _at(pid) == root]


def _at(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/cwd")
    except OSError:
        return ""


def test_a_guest_that_powers_off_ends_its_instance(hall: Hall, clock: FakeClock) -> None:
    world, vm = hall.shell("sleep 60 & echo $! > left; touch run/corral/poweroff; exit 0")
    left = int(hall.read(vm, "left"))

    def over() -> bool:
        world.tick()
        return vm.end_reason == "instance"

    until(over)
    assert gone(left)
    pass_time(world, clock, 5)
    assert vm.state == "terminated"


def test_a_unit_that_fails_is_started_again_but_not_for_ever(hall: Hall) -> None:
    world, vm = hall.shell("echo x >> starts; exit 3")
    until(lambda: "start 5 of 5" in console(world, vm))
    time.sleep(0.25)
    assert (hall.disk(vm) / "starts").read_text().count("x") == 6
    world.tick()
    assert vm.state == "running"


def test_a_unit_that_is_done_is_left_alone_and_the_instance_runs_on(hall: Hall) -> None:
    world, vm = hall.shell("echo x >> starts; exit 0")
    hall.read(vm, "starts")
    time.sleep(0.25)
    world.tick()
    assert (hall.disk(vm) / "starts").read_text() == "x\n"
    assert vm.state == "running"


_OWNER = """
import sys, time
from pathlib import Path
from sandbox.machines import ProcessMachines
from sandbox.scenario import Scenario
from sandbox.world import World
from clock import REAL
agent = ["/bin/sh", "-c", "trap '' TERM; echo $$ > unit; while :; do sleep 0.05; done"]
machines = ProcessMachines(Path(sys.argv[1]), agent, "http://127.0.0.1:9", REAL)
world = World(Scenario(), REAL, machines)
place = {"region": "us-east-1", "zone": "use1-az4", "instance_type": "g5.xlarge", "capacity_type": "spot"}
(vm,) = world.allocate("aws", names=["a"], token="t", tags={}, user_data=sys.argv[2], **place)
machines.start(vm)
time.sleep(600)
"""


def _owner(root: Path) -> tuple[subprocess.Popen[bytes], int]:
    """A sandbox of its own process with one machine: the process, and the machine's unit."""
    owner = subprocess.Popen(
        [sys.executable, "-c", _OWNER, str(root), USER_DATA], cwd=Path(__file__).parents[2]
    )

    def units() -> list[Path]:
        return [path for path in root.glob("machines/*/root/unit") if path.read_text().endswith("\n")]

    until(lambda: units())
    return owner, int(units()[0].read_text())


def test_when_the_sandbox_is_killed_its_machines_lose_their_power(tmp_path: Path) -> None:
    owner, unit = _owner(tmp_path)
    owner.kill()
    owner.wait()
    until(lambda: gone(unit))


def test_machines_that_an_earlier_run_left_behind_are_ended(tmp_path: Path, clock: FakeClock) -> None:
    owner, unit = _owner(tmp_path)
    ProcessMachines(tmp_path, ["/bin/true"], NOWHERE, clock)
    try:
        until(lambda: gone(unit))
    finally:
        owner.kill()
        owner.wait()


def test_a_recorded_number_that_is_another_process_by_now_is_left_alone(
    tmp_path: Path, clock: FakeClock
) -> None:
    other = subprocess.Popen(["/bin/sleep", "60"])
    try:
        folder = tmp_path / "machines/aws-i-old"
        folder.mkdir(parents=True)
        (folder / "machine.json").write_text(f'{{"pid": {other.pid}, "started": 1}}')
        ProcessMachines(tmp_path, ["/bin/true"], NOWHERE, clock)
        assert other.poll() is None
    finally:
        other.send_signal(signal.SIGKILL)
        other.wait()
