"""The agent replaces itself only by what its maker has signed, and only before a job starts."""

from __future__ import annotations

import base64
import io
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from agent import __version__, update
from agent.client import ServiceClient
from agent.paths import Paths
from agent.update import UpdateRefusedError
from tests.agent.machine import Machine
from tests.agent.service import Service, problem, wait_for
from tests.clocks import FakeClock

NEWER = "99.0.1"


@pytest.fixture(scope="module")
def key() -> Ed25519PrivateKey:
    return Ed25519PrivateKey.generate()


@pytest.fixture(scope="module")
def newer(zipapp: Path) -> bytes:
    """This agent, as a later version."""
    return _with_version(zipapp.read_bytes(), NEWER)


def _with_version(zipapp: bytes, version: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(zipapp)) as old, zipfile.ZipFile(packed, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "agent/__init__.py":
                data = data.replace(f'"{__version__}"'.encode(), f'"{version}"'.encode())
            if name != "agent/__init__.pyc":
                new.writestr(name, data)
    return packed.getvalue()


def public(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def offer(service: Service, data: bytes, key: Ed25519PrivateKey, version: str = NEWER) -> None:
    signature = base64.b64encode(key.sign(data)).decode()
    service.update = {"version": version, **service.blob(data), "signature": signature}


def install(machine: Machine, key: Ed25519PrivateKey) -> None:
    machine.paths.update_key.parent.mkdir(parents=True, exist_ok=True)
    machine.paths.update_key.write_bytes(public(key))


def test_signed_update_is_taken_before_the_job_and_the_new_agent_runs_it(
    machine: Machine, service: Service, key: Ed25519PrivateKey, newer: bytes
) -> None:
    install(machine, key)
    offer(service, newer, key)
    machine.start()
    assert service.wait_exit()["exit_code"] == 0
    assert machine.wait_end() == 0
    assert machine.zipapp.read_bytes() == newer
    assert len(service.heard.hellos) == 1  # the new agent is the same instance
    assert len(service.heard.started) == 1
    calls = service.heard.calls
    assert calls.index("GET update") < calls.index("GET assignment")
    done = subprocess.run(
        [sys.executable, str(machine.zipapp), "version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == NEWER


def test_update_with_a_foreign_signature_is_refused_and_the_job_runs_all_the_same(
    machine: Machine, service: Service, key: Ed25519PrivateKey, newer: bytes
) -> None:
    before = machine.zipapp.read_bytes()
    install(machine, key)
    offer(service, newer, Ed25519PrivateKey.generate())
    machine.start()
    assert service.wait_exit()["exit_code"] == 0
    assert machine.zipapp.read_bytes() == before
    assert "signature" in machine.output.read_text()


def test_update_is_not_looked_at_while_a_job_runs(
    machine: Machine, service: Service, key: Ed25519PrivateKey, newer: bytes
) -> None:
    install(machine, key)
    service.assignment["run"] = "while [ ! -e go ]; do sleep 0.01; done"
    machine.start()
    wait_for(lambda: service.heard.started, "the start")
    offer(service, newer, key)
    machine.kill_agent()
    machine.start()
    (machine.paths.work / "go").touch()
    service.wait_exit()
    assert service.heard.calls.count("GET update") == 1


@pytest.fixture
def client(service: Service) -> Iterator[ServiceClient]:
    client = ServiceClient(service.url, FakeClock())
    client.session = service.session = "session"
    yield client
    client.close()


@pytest.fixture
def place(tmp_path: Path, zipapp: Path, key: Ed25519PrivateKey) -> tuple[Paths, Path]:
    """An image with a key, and its zipapp."""
    paths = Paths(tmp_path / "root")
    paths.update_key.parent.mkdir(parents=True)
    paths.update_key.write_bytes(public(key))
    copy = tmp_path / "agent.pyz"
    copy.write_bytes(zipapp.read_bytes())
    return paths, copy


def test_service_that_knows_no_updates_is_no_obstacle(machine: Machine, service: Service) -> None:
    service.overrides["update"] = 404, problem(404, "no such page")
    machine.start()
    assert service.wait_exit()["exit_code"] == 0


@pytest.mark.parametrize(
    "harm",
    ["no signature", "empty signature", "not base64", "bytes changed", "no key", "no version", "hash"],
)
def test_anything_wrong_with_an_update_leaves_the_agent_as_it_is(
    client: ServiceClient,
    service: Service,
    place: tuple[Paths, Path],
    key: Ed25519PrivateKey,
    newer: bytes,
    harm: str,
) -> None:
    paths, zipapp = place
    before = zipapp.read_bytes()
    offer(service, newer, key)
    assert service.update is not None
    if harm == "no signature":
        del service.update["signature"]
    elif harm == "empty signature":
        service.update["signature"] = ""
    elif harm == "not base64":
        service.update["signature"] = "%%%"
    elif harm == "bytes changed":
        service.update |= service.blob(newer + b"\0")
    elif harm == "no key":
        paths.update_key.unlink()
    elif harm == "no version":
        service.update["version"] = "newest"
    else:
        service.blobs[service.update["sha256"]] = newer[:-1]
    assert update.take(client, paths, zipapp) is False
    assert zipapp.read_bytes() == before


def test_signature_on_an_older_agent_is_no_licence_to_go_back(
    client: ServiceClient, service: Service, place: tuple[Paths, Path], key: Ed25519PrivateKey
) -> None:
    paths, zipapp = place
    before = zipapp.read_bytes()
    offer(service, _with_version(before, "0.0.1"), key, version=NEWER)
    assert update.take(client, paths, zipapp) is False
    assert zipapp.read_bytes() == before
    with pytest.raises(UpdateRefusedError, match="not newer"):
        update.check_newer(_with_version(before, "0.0.1"))


def test_no_offer_the_same_version_and_an_agent_in_a_folder_change_nothing(
    client: ServiceClient, service: Service, place: tuple[Paths, Path], key: Ed25519PrivateKey, newer: bytes
) -> None:
    paths, zipapp = place
    before = zipapp.read_bytes()
    assert update.take(client, paths, zipapp) is False
    offer(service, newer, key, version=__version__)
    assert update.take(client, paths, zipapp) is False
    offer(service, newer, key)
    assert update.take(client, paths, None) is False
    assert zipapp.read_bytes() == before
