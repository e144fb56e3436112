"""Uploading bytes under their own hash."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from service.blobs.model import Blob
from service.blobs.store import blob_key
from service.projects.model import Role
from tests.api.service import SPEC, Service, copied, start

DATA = bytes(range(256)) * 5000
SHA = hashlib.sha256(DATA).hexdigest()


def pieces() -> Iterator[bytes]:
    for start_ in range(0, len(DATA), 100_000):
        yield DATA[start_ : start_ + 100_000]


def test_what_is_uploaded_is_there_for_a_job_of_the_project(service: Service) -> None:
    assert service.call("HEAD", f"/v1/blobs/{SHA}").status_code == 404
    first = service.call("PUT", f"/v1/blobs/{SHA}", content=pieces())
    assert (first.status_code, first.json()) == (201, {"sha256": SHA, "bytes": len(DATA)})
    assert service.call("PUT", f"/v1/blobs/{SHA}", content=DATA).status_code == 200
    head = service.call("HEAD", f"/v1/blobs/{SHA}")
    assert (head.status_code, head.headers["corral-blob-bytes"]) == (200, str(len(DATA)))
    assert service.ctx.store.get(blob_key(service.project("default").id, SHA)) == DATA
    job = service.submit(files=[{"path": "data/a.bin", "sha256": SHA}], workdir=SHA)
    assert job["spec"]["workdir"] == SHA


def test_content_with_another_hash_is_refused_and_not_kept(service: Service, tmp_path: Path) -> None:
    wrong = "0" * 64
    answer = service.call("PUT", f"/v1/blobs/{wrong}", content=DATA)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "sha256")
    assert SHA in answer.text
    assert service.count(Blob) == 0
    assert list((tmp_path / "incoming").iterdir()) == []
    assert not [path for path in (tmp_path / "store").rglob("*") if path.is_file()]


def test_a_hash_is_64_hex_digits(service: Service) -> None:
    for name in ("x", SHA.upper(), SHA[:-1], "../" + SHA):
        assert service.call("PUT", f"/v1/blobs/{name}", content=b"").status_code in (404, 422)


def test_a_projects_blobs_are_its_own(service: Service) -> None:
    service.call("PUT", f"/v1/blobs/{SHA}", content=DATA)
    other = service.token(Role.MEMBER, "other")
    assert service.call("HEAD", f"/v1/blobs/{SHA}", other).status_code == 404
    answer = service.post("/v1/jobs", {**SPEC, "workdir": SHA}, other)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "workdir")
    assert service.call("PUT", f"/v1/blobs/{SHA}?project=default", other, content=DATA).status_code == 404


def test_more_than_the_limit_is_413_whether_or_not_the_length_is_told(schema: Path, tmp_path: Path) -> None:
    made = start(tmp_path, copied(schema, tmp_path), environment={"CORRAL_LIMITS__MAX_BLOB": str(1 << 20)})
    for content in (DATA, pieces()):
        answer = made.call("PUT", f"/v1/blobs/{SHA}", content=content)
        assert (answer.status_code, answer.headers["content-type"]) == (413, "application/problem+json")
    assert made.count(Blob) == 0
    assert not list((tmp_path / "incoming").glob("*"))
    made.database.close()
