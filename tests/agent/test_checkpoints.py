"""Checkpoints: whatever happens to an upload, what comes back is the newest that was whole."""

from __future__ import annotations

import json
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.checkpoints.manifest import file_key
from agent.checkpoints.objects import MissingError, Objects, StoreError, forget_inherited_credentials
from agent.checkpoints.store import (
    CancelledError,
    ChangedError,
    CheckpointStore,
    GangDamageError,
    NoRoomError,
)

PREFIX = "checkpoints/job-1"
NEVER = threading.Event()


class PowerCutError(BaseException):
    """The machine is gone; nothing may catch this."""


class FragileObjects(Objects):
    """A real store whose user loses power after so many steps: before an effect, amid it, or after it."""

    def __init__(self, url: str, *, operations: int | None = None) -> None:
        super().__init__(url, {})
        self.left = operations
        self.count = 0
        self._lock = threading.Lock()

    def put(self, key: str, data: bytes) -> None:
        self._spend()
        super().put(key, data)
        self._spend()

    def put_stream(self, key: str, chunks: Iterator[bytes], size: int) -> None:
        self._spend()
        super().put_stream(key, self._cut(chunks), size)
        self._spend()

    def delete(self, key: str) -> None:
        self._spend()
        super().delete(key)
        self._spend()

    def _cut(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self._spend()
            yield chunk

    def _spend(self) -> None:
        with self._lock:
            self.count += 1
            if self.left is not None and self.count > self.left:
                raise PowerCutError


@pytest.fixture
def url(tmp_path: Path) -> str:
    return (tmp_path / "store").as_uri()


def store(url: str, *, rank: int = 0, nodes: int = 1, epoch: int = 1) -> CheckpointStore:
    return CheckpointStore(Objects(url, {}), PREFIX, rank=rank, num_nodes=nodes, epoch=epoch)


def write(folder: Path, name: str, step: int, *, files: int = 3) -> Path:
    """A checkpoint as a trainer would leave it: its step, and some state."""
    place = folder / name
    (place / "optimizer").mkdir(parents=True)
    (place / "step").write_text(str(step))
    for number in range(files):
        (place / "optimizer" / f"part {number}#.bin").write_bytes(bytes([step % 251]) * (1000 + number))
    return place


def save(store: CheckpointStore, place: Path) -> str:
    name, sequence = store.reserve(place.name)
    store.upload(place, name, sequence, NEVER)
    return name


def restore(store: CheckpointStore, into: Path) -> tuple[str | None, int, list[str]]:
    """Name, step and warnings."""
    into.mkdir(parents=True, exist_ok=True)
    warnings: list[str] = []
    found = store.restore(into, warnings.append, NEVER)
    if found is None:
        return None, 0, warnings
    step = int((found[1] / "step").read_text())
    for part in (found[1] / "optimizer").iterdir():
        assert set(part.read_bytes()) == {step % 251}
    return found[0], step, warnings


def test_checkpoint_comes_back_as_it_was(url: str, tmp_path: Path) -> None:
    place = write(tmp_path / "job", "step-5", 5)
    (place / "empty").touch()
    (place / "名前 %41.bin").write_bytes(b"odd name")
    (place / os.fsdecode(b"no-utf8-\xff")).write_bytes(b"odder")
    save(store(url), place)
    assert restore(store(url, epoch=2), tmp_path / "back")[:2] == ("step-5", 5)
    back = tmp_path / "back/step-5"
    assert _tree(back) == _tree(place)


def test_nothing_stored_is_a_first_run(url: str, tmp_path: Path) -> None:
    assert restore(store(url), tmp_path / "back") == (None, 0, [])


def test_large_file_comes_back_in_ranges(url: str, tmp_path: Path) -> None:
    place = tmp_path / "job" / "big"
    place.mkdir(parents=True)
    data = random.Random(1).randbytes(20 << 20)
    (place / "model.bin").write_bytes(data)
    save(store(url), place)
    back = tmp_path / "back"
    back.mkdir()
    store(url).restore(back, lambda text: None, NEVER)
    assert (back / "big/model.bin").read_bytes() == data


def _steps_of_an_upload(tmp_path: Path) -> int:
    """How many points there are at which the upload below can be cut."""
    objects = FragileObjects((tmp_path / "count").as_uri())
    counted = CheckpointStore(objects, PREFIX, rank=0, num_nodes=1, epoch=1)
    for step in (1, 2):
        save(counted, write(tmp_path / "count-job", f"step-{step}", step))
    before = objects.count
    save(counted, write(tmp_path / "count-job", "step-3", 3))
    counted.prune()
    return objects.count - before


def test_AGE_07_upload_cut_at_every_point_leaves_the_newest_whole_checkpoint(tmp_path: Path) -> None:
    points = _steps_of_an_upload(tmp_path)
    assert points >= 20
    seen = set()
    for point in range(points + 1):
        url = (tmp_path / f"store-{point}").as_uri()
        job = tmp_path / f"job-{point}"
        for step in (1, 2):
            save(store(url), write(job, f"step-{step}", step))
        objects = FragileObjects(url, operations=point)
        doomed = CheckpointStore(objects, PREFIX, rank=0, num_nodes=1, epoch=1)
        try:
            save(doomed, write(job, "step-3", 3))
            doomed.prune()
        except PowerCutError:
            pass
        name, step, warnings = restore(store(url, epoch=2), tmp_path / f"back-{point}")
        assert (name, step) in (("step-2", 2), ("step-3", 3)), point
        assert _looks_whole_but_is_not(url) == []
        assert warnings == []
        seen.add(step)
        # The next attempt goes on as if nothing had happened, and clears away what was cut off.
        following = store(url, epoch=2)
        assert save(following, write(job, f"step-{step + 1}-again", step + 1))
        following.prune()
        assert restore(store(url, epoch=3), tmp_path / f"more-{point}")[1] == step + 1
    assert seen == {2, 3}


def test_AGE_07_random_lives_never_lose_the_newest_whole_checkpoint(tmp_path: Path) -> None:
    """Attempts that are cut anywhere, one after the other, on one store; the same names again and again."""
    for seed in range(25):
        chance = random.Random(seed)
        url = (tmp_path / f"store-{seed}").as_uri()
        newest = 0
        for epoch in range(1, 6):
            into = tmp_path / f"life-{seed}-{epoch}"
            _, step, _ = restore(store(url, epoch=epoch), into)
            assert step >= newest
            newest = step
            objects = FragileObjects(url, operations=chance.randint(0, 60))
            living = CheckpointStore(objects, PREFIX, rank=0, num_nodes=1, epoch=epoch)
            try:
                while True:
                    step += 1
                    place = write(into / f"w{step}", chance.choice(["latest", "best"]), step)
                    save(living, place)
                    newest = step
                    living.prune()
            except PowerCutError:
                continue


@pytest.mark.parametrize("harm", ["truncated", "flipped", "missing", "manifest"])
def test_AGE_07_damaged_checkpoint_is_passed_over_with_a_warning(url: str, tmp_path: Path, harm: str) -> None:
    for step in (1, 2):
        save(store(url), write(tmp_path / "job", f"step-{step}", step))
    folder = tmp_path / "store" / PREFIX / "step-2"
    victim = folder / "rank-0" / "step"
    if harm == "truncated":
        os.truncate(folder / "rank-0/optimizer/part%200%23.bin", 10)
    elif harm == "flipped":
        victim.write_text("9")
    elif harm == "missing":
        victim.unlink()
    else:
        (folder / "manifest-0.json").write_text('{"name": "step-2", "files": [')
    name, step, warnings = restore(store(url, epoch=2), tmp_path / "back")
    assert (name, step) == ("step-1", 1)
    assert len(warnings) == 1
    assert "step-2 is damaged" in warnings[0]
    assert not (tmp_path / "back/step-2").exists()


def test_last_two_whole_ones_are_kept_and_a_name_may_be_used_again(url: str, tmp_path: Path) -> None:
    keeper = store(url)
    for step in range(1, 6):
        save(keeper, write(tmp_path / f"job-{step}", "latest", step))
        keeper.prune()
        kept = [stored.name for stored in keeper.catalogue()]
        assert len(kept) == min(step, 2)
    assert kept == ["latest@5", "latest@4"]
    name, step, _ = restore(store(url, epoch=2), tmp_path / "back")
    assert (name, step) == ("latest@5", 5)
    assert (tmp_path / "back/latest/step").exists()
    assert sorted(path.name for path in (tmp_path / "store" / PREFIX).iterdir()) == ["latest@4", "latest@5"]


def test_what_a_damaged_checkpoint_leaves_does_not_push_out_a_good_one(url: str, tmp_path: Path) -> None:
    for step in (1, 2):
        save(store(url), write(tmp_path / "job", f"step-{step}", step))
    (tmp_path / "store" / PREFIX / "step-2/rank-0/step").write_text("x")
    following = store(url, epoch=2)
    assert restore(following, tmp_path / "back")[0] == "step-1"
    save(following, write(tmp_path / "job2", "step-2", 2))
    following.prune()
    assert [item.name for item in following.catalogue() if item.whole] == ["step-2@2", "step-1"]


def test_outdated_writer_cannot_make_its_checkpoint_the_newest(url: str, tmp_path: Path) -> None:
    outdated = store(url, epoch=1)
    for step in (1, 2):
        save(outdated, write(tmp_path / "a", f"step-{step}", step))
    save(store(url, epoch=2), write(tmp_path / "b", "step-3", 3))
    for step in (10, 11, 12):
        save(outdated, write(tmp_path / "a", f"step-{step}", step))
    assert restore(store(url, epoch=3), tmp_path / "back")[:2] == ("step-3", 3)


def test_two_writers_of_one_name_can_only_damage_that_one(url: str, tmp_path: Path) -> None:
    save(store(url), write(tmp_path / "job", "step-1", 1))
    first, second = store(url, epoch=1), store(url, epoch=2)
    mine, theirs = first.reserve("step-2"), second.reserve("step-2")
    assert mine == theirs
    first.upload(write(tmp_path / "a", "step-2", 2), *mine, NEVER)
    second.upload(write(tmp_path / "b", "step-2", 3), *theirs, NEVER)
    (tmp_path / "store" / PREFIX / "step-2/rank-0/step").write_text("2")  # the first one's last put came late
    name, step, warnings = restore(store(url, epoch=3), tmp_path / "back")
    assert (name, step) == ("step-1", 1)
    assert len(warnings) == 1


def test_cancelled_upload_leaves_no_manifest(url: str, tmp_path: Path) -> None:
    place = write(tmp_path / "job", "step-1", 1)
    cancelled = threading.Event()
    cancelled.set()
    with pytest.raises(CancelledError):
        store(url).upload(place, "step-1", 1, cancelled)
    assert restore(store(url), tmp_path / "back")[0] is None


def test_restore_that_is_told_to_stop_leaves_nothing_behind(url: str, tmp_path: Path) -> None:
    save(store(url), write(tmp_path / "job", "step-1", 1))
    (tmp_path / "back").mkdir()
    told = threading.Event()
    told.set()
    with pytest.raises(CancelledError):
        store(url, epoch=2).restore(tmp_path / "back", lambda text: None, told)
    assert list((tmp_path / "back").iterdir()) == []
    assert restore(store(url, epoch=2), tmp_path / "back")[0] == "step-1"


def test_directory_that_changes_while_it_is_uploaded_is_not_taken_for_whole(url: str, tmp_path: Path) -> None:
    place = write(tmp_path / "job", "step-1", 1)

    class Writing(Objects):
        def put_stream(self, key: str, chunks: Iterator[bytes], size: int) -> None:
            super().put_stream(key, chunks, size)
            (place / "late").write_text("still writing")

    writing = CheckpointStore(Writing(url, {}), PREFIX, rank=0, num_nodes=1, epoch=1)
    with pytest.raises(ChangedError):
        save(writing, place)
    assert restore(store(url), tmp_path / "back")[0] is None


def test_directory_that_vanishes_while_it_is_uploaded_is_let_go(url: str, tmp_path: Path) -> None:
    place = write(tmp_path / "job", "step-1", 1)

    class Vanishing(Objects):
        def put_stream(self, key: str, chunks: Iterator[bytes], size: int) -> None:
            (place / "step").unlink(missing_ok=True)
            super().put_stream(key, chunks, size)

    vanishing = CheckpointStore(Vanishing(url, {}), PREFIX, rank=0, num_nodes=1, epoch=1)
    with pytest.raises(ChangedError):
        save(vanishing, place)


def test_gang_restores_only_what_all_nodes_have(url: str, tmp_path: Path) -> None:
    nodes = [store(url, rank=rank, nodes=2) for rank in (0, 1)]
    for rank, node in enumerate(nodes):
        save(node, write(tmp_path / f"job-{rank}", "step-1", 1))
    save(nodes[0], write(tmp_path / "job-0", "step-2", 2))  # rank 1 was cut off before it had its part
    for rank in (0, 1):
        node = store(url, rank=rank, nodes=2, epoch=2)
        assert restore(node, tmp_path / f"back-{rank}")[:2] == ("step-1", 1)


def test_nodes_of_a_gang_count_alike_after_an_attempt_that_ended_unevenly(url: str, tmp_path: Path) -> None:
    nodes = [store(url, rank=rank, nodes=2) for rank in (0, 1)]
    for rank, node in enumerate(nodes):
        save(node, write(tmp_path / f"job-{rank}", "latest", 1))
    save(nodes[0], write(tmp_path / "more", "latest", 2))
    nodes = [store(url, rank=rank, nodes=2, epoch=2) for rank in (0, 1)]
    first = nodes[0].reserve("latest")
    nodes[0].upload(write(tmp_path / "c", "latest", 3), *first, NEVER)  # before rank 1 has even looked
    assert nodes[1].reserve("latest") == first
    nodes[1].upload(write(tmp_path / "d", "latest", 3), *first, NEVER)
    assert restore(store(url, rank=1, nodes=2, epoch=3), tmp_path / "back")[1] == 3


def test_node_that_finds_its_part_damaged_makes_the_whole_gang_take_the_one_before(
    url: str, tmp_path: Path
) -> None:
    for rank in (0, 1):
        node = store(url, rank=rank, nodes=2)
        for step in (1, 2):
            save(node, write(tmp_path / f"job-{rank}", f"step-{step}", step))
    (tmp_path / "store" / PREFIX / "step-2/rank-1/step").unlink()
    with pytest.raises(GangDamageError, match="step-2"):
        restore(store(url, rank=1, nodes=2, epoch=2), tmp_path / "back-1")
    for rank in (0, 1):
        node = store(url, rank=rank, nodes=2, epoch=3)
        assert restore(node, tmp_path / f"again-{rank}")[:2] == ("step-1", 1)


def test_only_rank_zero_clears_away(url: str, tmp_path: Path) -> None:
    nodes = [store(url, rank=rank, nodes=2) for rank in (0, 1)]
    for step in (1, 2, 3):
        for rank, node in enumerate(nodes):
            save(node, write(tmp_path / f"job-{rank}", f"step-{step}", step))
    assert nodes[1].prune() == []
    assert nodes[0].prune() == ["step-1"]
    assert not (tmp_path / "store" / PREFIX / "step-1").exists()


def test_leftovers_of_cut_off_uploads_are_cleared_away(url: str, tmp_path: Path) -> None:
    objects = FragileObjects(url, operations=5)
    doomed = CheckpointStore(objects, PREFIX, rank=0, num_nodes=1, epoch=1)
    with pytest.raises(PowerCutError):
        save(doomed, write(tmp_path / "job", "cut", 1))
    following = store(url, epoch=2)
    save(following, write(tmp_path / "job", "whole", 2))
    assert following.prune() == ["cut"]
    assert [path.name for path in (tmp_path / "store" / PREFIX).iterdir()] == ["whole"]


def test_checkpoint_that_does_not_fit_says_how_much_it_needs(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(store(url), write(tmp_path / "job", "step-1", 1))
    monkeypatch.setattr("shutil.disk_usage", lambda path: _Usage())
    with pytest.raises(NoRoomError, match=r"needs 3004 bytes, 100 bytes are free"):
        restore(store(url), tmp_path / "back")


def test_manifest_that_points_outside_is_damaged(url: str, tmp_path: Path) -> None:
    save(store(url), write(tmp_path / "job", "step-1", 1))
    manifest = tmp_path / "store" / PREFIX / "step-1/manifest-0.json"
    value = json.loads(manifest.read_text())
    value["files"][0]["path"] = "../../../escaped"
    manifest.write_text(json.dumps(value))
    assert restore(store(url), tmp_path / "back")[0] is None
    assert not (tmp_path / "escaped").exists()


def test_jobs_own_file_of_the_manifests_name_confuses_nobody(url: str, tmp_path: Path) -> None:
    place = write(tmp_path / "job", "step-1", 1)
    (place / "manifest-0.json").write_text("{}")
    (place / "damaged-0.json").write_text("{}")
    save(store(url), place)
    assert restore(store(url), tmp_path / "back")[0] == "step-1"


def test_store_that_cannot_be_reached_is_an_error_and_not_a_first_run(tmp_path: Path) -> None:
    options = {
        "endpoint": "http://127.0.0.1:9",
        "region": "us-east-1",
        "access_key_id": "a",
        "secret_access_key": "b",
    }
    unreachable = Objects("s3://bucket/prefix", options, retries=0)
    with pytest.raises(StoreError):
        restore(
            CheckpointStore(unreachable, PREFIX, rank=0, num_nodes=1, epoch=1),
            tmp_path / "back",
        )


def test_unknown_kind_of_store_is_named() -> None:
    with pytest.raises(StoreError, match="ftp://host"):
        Objects("ftp://host/path", {})


def test_missing_object_is_told_apart_from_a_store_that_fails(url: str) -> None:
    with pytest.raises(MissingError):
        Objects(url, {}).get("nothing/here")


def test_AGE_10_credentials_of_the_image_are_forgotten() -> None:
    environment = {
        "AWS_ACCESS_KEY_ID": "of another account",
        "GOOGLE_APPLICATION_CREDENTIALS": "/missing.json",
        "AZURE_CLIENT_ID": "x",
        "PATH": "/bin",
    }
    names = forget_inherited_credentials(environment)
    assert sorted(names) == ["AWS_ACCESS_KEY_ID", "AZURE_CLIENT_ID", "GOOGLE_APPLICATION_CREDENTIALS"]
    assert environment == {"PATH": "/bin"}


def _looks_whole_but_is_not(url: str) -> list[str]:
    """Names of checkpoints that a restore would try, and whose content is not all there."""
    there = set(Objects(url, {}).list(PREFIX))
    return [
        stored.name
        for stored in store(url).catalogue()
        for part in stored.parts.values()
        if stored.whole and not {file_key(PREFIX, part.name, 0, file.path) for file in part.files} <= there
    ]


class _Usage:
    free = 100


def _tree(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }
