"""Which directories are brought to the store, when, and in which order."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.checkpoints.manifest import Manifest
from agent.checkpoints.objects import Objects, StoreError
from agent.checkpoints.store import CheckpointStore
from agent.checkpoints.uploader import Uploader
from clock import ScaledClock
from tests.agent.service import wait_for

CLOCK = ScaledClock(0.0, 500.0)


class GatedObjects(Objects):
    """Content waits until the gate is open; `broken` makes every write fail."""

    def __init__(self, url: str) -> None:
        super().__init__(url, {})
        self.gate = threading.Event()
        self.gate.set()
        self.broken = False
        self.waiting = threading.Event()

    def put_stream(self, key: str, chunks: Iterator[bytes], size: int) -> None:
        self.waiting.set()
        assert self.gate.wait(20)
        if self.broken:
            raise StoreError(f"{key}: no such bucket")
        super().put_stream(key, chunks, size)


class Bench:
    """An uploader on a folder, and what it said."""

    def __init__(self, folder: Path, *, gang: bool = False) -> None:
        self.job = folder / "job"
        self.job.mkdir(exist_ok=True)
        self.objects = GatedObjects((folder / "store").as_uri())
        self.uploaded: list[str] = []
        self.warnings: list[str] = []
        self._folder = folder
        self._gang = gang
        self.uploader = self.make()

    def make(self) -> Uploader:
        return Uploader(
            CheckpointStore(self.objects, "p", rank=0, num_nodes=1, epoch=1),
            self.job,
            self._folder / "uploads.json",
            CLOCK,
            random.Random(1),
            gang=self._gang,
            uploaded=self._note,
            warn=self.warnings.append,
        )

    def write(self, name: str, *, text: str = "x") -> Path:
        draft = self.job / f".{name}"
        draft.mkdir()
        (draft / "file").write_text(text)
        return draft.rename(self.job / name)

    def finish(self) -> None:
        self.uploader.finish(10_000, lambda: False)

    def _note(self, manifest: Manifest) -> None:
        self.uploaded.append(manifest.name)


@pytest.fixture
def make_bench(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    made: list[Bench] = []

    def make(*, gang: bool = False) -> Bench:
        made.append(Bench(tmp_path, gang=gang))
        return made[-1]

    yield make
    for bench in made:
        bench.objects.gate.set()
        bench.uploader.cancel()


def test_only_whole_directories_are_uploaded_and_each_once(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    bench.write("step-1")
    for unfinished in ("step-2.tmp", ".step-3", "empty"):
        (bench.job / unfinished).mkdir()
    (bench.job / "step-2.tmp/file").touch()
    (bench.job / "a-file").touch()
    bench.uploader.start()
    wait_for(lambda: bench.uploaded, "an upload")
    bench.finish()
    assert bench.uploaded == ["step-1"]
    assert bench.uploader.newest == "step-1"


def test_directory_that_is_replaced_is_a_new_checkpoint(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    bench.uploader.start()
    first = bench.write("latest")
    wait_for(lambda: bench.uploaded == ["latest"], "the first")
    first.rename(bench.job / ".old")
    bench.write("latest", text="newer")
    wait_for(lambda: bench.uploaded == ["latest", "latest@2"], "the second")
    bench.finish()
    assert bench.uploader.newest == "latest@2"


def test_single_node_that_cannot_keep_up_uploads_the_newest(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    bench.objects.gate.clear()
    bench.write("step-1")
    bench.uploader.start()
    assert bench.objects.waiting.wait(20)
    for step in (2, 3, 4):
        bench.write(f"step-{step}")
    bench.objects.gate.set()
    bench.finish()
    assert bench.uploaded == ["step-1", "step-4"]


def test_gang_uploads_each_one_in_order(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(gang=True)
    bench.objects.gate.clear()
    bench.uploader.start()
    for step in (1, 2, 3):
        bench.write(f"step-{step}")
    assert bench.objects.waiting.wait(20)
    bench.objects.gate.set()
    wait_for(lambda: len(bench.uploaded) == 3, "three uploads")
    assert bench.uploaded == ["step-1", "step-2", "step-3"]


def test_store_that_fails_is_tried_again_and_warned_of_once(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    bench.objects.broken = True
    bench.write("step-1")
    bench.uploader.start()
    wait_for(lambda: bench.warnings, "a warning")
    CLOCK.wait(threading.Event(), 60)
    bench.objects.broken = False
    wait_for(lambda: bench.uploaded, "the upload")
    assert len(bench.warnings) == 1
    assert "no such bucket" in bench.warnings[0]


def test_finish_returns_in_time_and_the_cut_upload_has_no_manifest(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    bench.objects.gate.clear()
    bench.write("step-1")
    bench.uploader.start()
    assert bench.objects.waiting.wait(20)
    begun = CLOCK.monotonic()
    bench.uploader.finish(50, lambda: False)
    assert CLOCK.monotonic() - begun >= 50
    bench.objects.gate.set()
    CLOCK.wait(threading.Event(), 50)
    assert bench.uploaded == []
    assert bench.objects.list("p") == {}


def test_restored_directory_is_not_uploaded_again_nor_after_a_restart(
    make_bench: Callable[..., Bench],
) -> None:
    bench = make_bench()
    bench.uploader.skip(bench.write("step-1"))
    bench.uploader = bench.make()  # as after a restart of the agent
    bench.uploader.start()
    bench.write("step-2")
    wait_for(lambda: bench.uploaded, "an upload")
    bench.finish()
    assert bench.uploaded == ["step-2"]


def test_job_that_writes_in_place_is_told_once_how_to_do_it_right(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench()
    place = bench.job / "in-place"
    place.mkdir()
    bench.objects.gate.clear()
    (place / "first").write_text("1")
    bench.uploader.start()
    assert bench.objects.waiting.wait(20)
    (place / "second").write_text("2")
    bench.objects.gate.set()
    wait_for(lambda: bench.uploaded, "the upload, once it is quiet")
    assert bench.uploaded == ["in-place"]
    assert len(bench.warnings) == 1
    assert "rename" in bench.warnings[0]
    assert set(bench.objects.list("p")) == {
        "p/in-place/manifest-0.json",
        "p/in-place/rank-0/first",
        "p/in-place/rank-0/second",
    }
