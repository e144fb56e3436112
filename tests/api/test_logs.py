"""A job's output, exactly as it was printed. Case ids: LOG-02, LOG-04, LOG-05, LOG-06, SEC-02."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlmodel import select

from service.db import Database
from service.logs.append import LogLimit, WrongOffset, chunk_key, deliver
from service.logs.model import LogChunk
from service.logs.read import Chunk, Log, read_from
from service.projects.redaction import Redactor
from service.states import AttemptState
from tests.api.service import Service

LIMIT = 1 << 30
NASTY = "😀漢字é\r".encode() + b"\xff\xfe\x00\x1b[31mred\x1b[0m\r\n"


@pytest.fixture
def job(service: Service) -> tuple[str, str]:
    """A job and its running attempt."""
    job_id = service.submit()["id"]
    return job_id, service.attempt(job_id)


def send(
    service: Service, attempt_id: str, offset: int, data: bytes, rank: int = 0, limit: int = LIMIT
) -> int:
    return deliver(service.database, service.ctx.store, attempt_id, rank, offset, data, limit, service.now)


def pour(service: Service, attempt_id: str, data: bytes, size: int, rank: int = 0) -> None:
    """Send all of it in batches."""
    for start in range(0, len(data), size):
        send(service, attempt_id, start, data[start : start + size], rank)


def test_LOG_02_a_hundred_thousand_lines_come_back_in_order_without_gap_or_double(
    service: Service, job: tuple[str, str]
) -> None:
    data = b"".join(b"%d\n" % number for number in range(100_000))
    pour(service, job[1], data, 32 * 1024)
    assert service.get(f"/v1/jobs/{job[0]}/logs").content == data


def test_LOG_04_a_batch_whose_acknowledgement_was_lost_is_not_kept_twice(
    service: Service, job: tuple[str, str]
) -> None:
    chance, data, offset, sent = Random(4), bytes(range(256)) * 40, 0, 0
    while offset < len(data):
        batch = data[offset : offset + chance.randint(1, 700)]
        sent += 1
        try:
            end = send(service, job[1], offset, batch)
        except WrongOffset as wrong:
            end = wrong.next_offset
        if sent % 7:
            offset = end  # every seventh acknowledgement is lost: the agent sends from where it was
    assert service.get(f"/v1/jobs/{job[0]}/logs").content == data


def test_LOG_04_what_was_kept_cannot_be_overwritten_by_a_shorter_repetition(
    service: Service, job: tuple[str, str]
) -> None:
    send(service, job[1], 0, b"hello world\n")
    for batch in (b"hell", b"HELLO WORLD\n", b"hello world\nand more"):
        with pytest.raises(WrongOffset) as caught:
            send(service, job[1], 0, batch)
        assert caught.value.next_offset == 12
    with pytest.raises(WrongOffset):
        send(service, job[1], 99, b"later")
    assert service.get(f"/v1/jobs/{job[0]}/logs").content == b"hello world\n"


def test_LOG_05_bytes_are_kept_as_they_are_wherever_they_are_cut(
    service: Service, job: tuple[str, str]
) -> None:
    for cut in range(1, len(NASTY)):
        send(service, job[1], 0, NASTY[:cut], rank=cut)
        send(service, job[1], cut, NASTY[cut:], rank=cut)
        assert service.get(f"/v1/jobs/{job[0]}/logs?rank={cut}").content == NASTY


def test_LOG_05_a_line_without_end_is_served_in_pieces(service: Service, job: tuple[str, str]) -> None:
    line = b"\r" + b"#" * 3_000_000
    pour(service, job[1], line, 256 * 1024)
    assert service.get(f"/v1/jobs/{job[0]}/logs").content == line
    tail = service.get(f"/v1/jobs/{job[0]}/logs?tail=1")
    assert tail.content == line


def test_LOG_06_the_log_of_an_attempt_is_there_after_its_instance_and_after_the_next_attempt(
    service: Service,
) -> None:
    job_id = service.submit()["id"]
    first = service.attempt(job_id, state=AttemptState.ENDED, number=1, hours=1)
    send(service, first, 0, b"the reason it failed\n")
    second = service.attempt(job_id, number=2)
    send(service, second, 0, b"again\n")
    assert service.get(f"/v1/jobs/{job_id}/logs").content == b"again\n"
    old = service.get(f"/v1/jobs/{job_id}/logs?attempt=1")
    assert (old.content, old.headers["corral-attempt"]) == (b"the reason it failed\n", "1")
    assert service.get(f"/v1/jobs/{job_id}/logs?attempt=3").status_code == 404


def test_LOG_06_a_log_past_its_retention_is_gone_and_says_so(service: Service, job: tuple[str, str]) -> None:
    send(service, job[1], 0, b"old\n")
    service.ctx.store.delete(chunk_key(job[1], 0, 0, 4))
    answer = service.get(f"/v1/jobs/{job[0]}/logs")
    assert (answer.status_code, answer.json()["type"]) == (410, "urn:corral:problem:expired")


def test_a_log_that_has_not_begun_is_empty(service: Service) -> None:
    job_id = service.submit()["id"]
    answer = service.get(f"/v1/jobs/{job_id}/logs")
    assert (answer.status_code, answer.content) == (200, b"")
    service.attempt(job_id)
    assert service.get(f"/v1/jobs/{job_id}/logs?tail=5").content == b""


def test_each_node_has_a_log_of_its_own(service: Service, job: tuple[str, str]) -> None:
    send(service, job[1], 0, b"rank 0\n", rank=0)
    send(service, job[1], 0, b"rank 1\n", rank=1)
    assert service.get(f"/v1/jobs/{job[0]}/logs?rank=1").content == b"rank 1\n"
    assert service.get(f"/v1/jobs/{job[0]}/logs?rank=2").content == b""


@pytest.mark.parametrize("text", [b"a\nbb\nccc\ndddd\n", b"a\nbb\nccc", b"\n\n\n", b"one"])
def test_the_tail_is_the_last_lines_whatever_the_batches(
    service: Service, job: tuple[str, str], text: bytes
) -> None:
    for rank, size in enumerate((1, 3, 7, 1000)):
        pour(service, job[1], text, size, rank)
        for lines in (0, 1, 2, 5, 99):
            wanted = b"".join(text.splitlines(keepends=True)[-lines:]) if lines else b""
            shown = service.get(f"/v1/jobs/{job[0]}/logs?rank={rank}&tail={lines}").content
            assert shown == wanted, (size, lines)


def test_the_cap_of_an_attempt_counts_all_its_nodes(service: Service, job: tuple[str, str]) -> None:
    send(service, job[1], 0, b"x" * 60, rank=0, limit=100)
    send(service, job[1], 0, b"x" * 40, rank=1, limit=100)
    with pytest.raises(LogLimit):
        send(service, job[1], 60, b"x", rank=0, limit=100)


def test_rows_name_every_byte_once(service: Service, job: tuple[str, str]) -> None:
    pour(service, job[1], b"z" * 1000, 130)

    def ranges(database: Database) -> list[tuple[int, int]]:
        rows = database.read(lambda session: session.exec(select(LogChunk).order_by("offset")).all())
        return [(row.offset, row.offset + row.bytes) for row in rows]

    found = ranges(service.database)
    assert found[0][0] == 0
    assert all(left[1] == right[0] for left, right in pairwise(found))


SECRET = "hunter2-Zürich/42"


def test_SEC_02_a_secret_that_the_job_prints_is_masked_even_across_batches(
    service: Service, job: tuple[str, str]
) -> None:
    service.call("PUT", "/v1/projects/default/secrets/PASSWORD", json={"value": SECRET})
    text = f"before {SECRET} after\n".encode() * 50
    pour(service, job[1], text, 11)
    for query in ("", "?tail=3", "?tail=50"):
        shown = service.get(f"/v1/jobs/{job[0]}/logs{query}").content
        assert SECRET.encode() not in shown
        assert b"hunter2" not in shown
        assert b"before ****" in shown
    assert len(service.get(f"/v1/jobs/{job[0]}/logs").content) == len(text)


class Kept(dict[str, bytes]):
    """An object store in memory."""

    def put(self, key: str, data: bytes) -> None:
        self[key] = data

    def get(self, key: str) -> bytes:  # type: ignore[override]
        return self[key]

    def delete(self, key: str) -> None:
        self.pop(key, None)


@given(
    st.binary(max_size=300), st.lists(st.integers(1, 40), min_size=1), st.integers(0, 3), st.integers(1, 200)
)
@settings(deadline=None)
def test_SEC_02_reading_in_pieces_masks_as_reading_the_whole(
    noise: bytes, batches: list[int], times: int, limit: int
) -> None:
    redactor, store = Redactor([SECRET]), Kept()
    data = noise + SECRET.encode().join([b"-"] * (times + 1)) + noise
    chunks, offset = [], 0
    for size in [*batches, len(data)]:
        if piece := data[offset : offset + size]:
            store.put(chunk_key("a", 0, offset, len(piece)), piece)
            chunks.append(Chunk(offset, len(piece)))
            offset += len(piece)
    log, shown = Log("a", 0, tuple(chunks), over=True), b""
    while piece := read_from(store, log, len(shown), redactor, limit):
        shown += piece
    assert shown == redactor.mask(data)
    assert SECRET.encode() not in shown
