from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.build import build
from tests.agent.clouds import Metadata
from tests.agent.machine import Machine
from tests.agent.service import Service


@pytest.fixture(scope="session")
def zipapp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("build") / "agent.pyz")


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()
    yield service
    service.close()


@pytest.fixture
def metadata() -> Iterator[Metadata]:
    metadata = Metadata()
    yield metadata
    metadata.close()


@pytest.fixture
def make_machine(
    tmp_path: Path, zipapp: Path, service: Service, metadata: Metadata
) -> Iterator[Callable[[str], Machine]]:
    made: list[Machine] = []

    def make(provider: str) -> Machine:
        folder = tmp_path / f"machine-{len(made)}"
        folder.mkdir()
        made.append(Machine(folder, zipapp, service, metadata, provider))
        return made[-1]

    yield make
    for machine in made:
        machine.close()


@pytest.fixture
def machine(make_machine: Callable[[str], Machine]) -> Machine:
    return make_machine("aws")


@pytest.fixture
def chance() -> random.Random:
    return random.Random(7)
