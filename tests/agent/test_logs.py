"""The job's output: every byte once, in order, bounded, without secrets."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.client import ServiceClient
from agent.logs import LogShipper
from agent.redaction import Redactor
from agent.spool import Spool
from clock import ScaledClock
from tests.agent.machine import Machine
from tests.agent.service import Service, problem, wait_for

CLOCK = ScaledClock(0.0, 1000.0)


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    spool = Spool(tmp_path / "log", 1 << 20)
    yield spool
    spool.close()


@pytest.fixture
def ships(service: Service, spool: Spool, chance: random.Random) -> Iterator[LogShipper]:
    client = ServiceClient(service.url, CLOCK)
    client.session = service.session = "session"
    shipper = LogShipper(client, spool, CLOCK, chance, 1, lambda over: None)
    yield shipper
    shipper.stop()
    shipper.join(20)
    client.close()


def test_LOG_02_numbers_arrive_in_the_order_of_printing(machine: Machine, service: Service) -> None:
    service.assignment["run"] = "seq 1 100000"
    machine.start()
    service.wait_exit()
    assert service.log_text().split() == [str(number) for number in range(1, 100001)]


def test_LOG_04_lost_acknowledgements_neither_lose_nor_double_a_byte(
    machine: Machine, service: Service
) -> None:
    service.drop_log_replies = 3
    service.assignment["run"] = "for i in $(seq 1 300); do echo line $i; sleep 0.004; done"
    machine.start()
    service.wait_exit()
    assert service.log_batches > 6
    assert service.log_text().split("\n")[:-1] == [f"line {i}" for i in range(1, 301)]
    assert bytes(service.log) == machine.paths.spool.read_bytes()


def test_LOG_05_bytes_that_are_no_text_arrive_as_they_are(machine: Machine, service: Service) -> None:
    wanted = b"\xff\xfe\x00 \xe6\xbc\xa2\xe5\xad\x97 \xf0\x9f\x9a\x80 \x1b[31mred\x1b[0m\r" * 3
    (machine.root / "bytes").parent.mkdir(parents=True, exist_ok=True)
    (machine.root / "bytes").write_bytes(wanted)
    service.assignment["run"] = f"dd if={machine.root}/bytes bs=1 status=none"
    machine.start()
    service.wait_exit()
    assert bytes(service.log) == wanted


def test_LOG_05_progress_bar_without_a_newline_and_a_very_long_line_pass(
    machine: Machine, service: Service
) -> None:
    service.assignment["run"] = (
        "head -c 3000000 /dev/zero | tr '\\0' '\\r'; head -c 5000000 /dev/zero | tr '\\0' x"
    )
    machine.start()
    service.wait_exit()
    assert bytes(service.log) == b"\r" * 3_000_000 + b"x" * 5_000_000


def test_flood_of_output_grows_neither_disk_nor_memory_and_says_what_was_dropped(
    machine: Machine, service: Service
) -> None:
    """A hundred megabytes are printed; the log may have 1 MB."""
    service.assignment |= {
        "run": "head -c 100000000 /dev/zero | tr '\\0' y; echo; echo the end >&2; exit 3",
        "log_limit_bytes": 1_000_000,
    }
    machine.start()
    most = 0.0
    wait_for(lambda: service.heard.started, "the start")
    while not service.heard.exits:
        most = max(most, *map(_resident_mb, [*machine.supervisors(), 0]))
        machine.sleep(1)
    assert service.wait_exit()["exit_code"] == 3
    machine.wait_end()
    assert 0 < most < 40
    assert machine.paths.spool.stat().st_size <= 1_000_000
    notes = [line for line in service.log_text().splitlines() if line.startswith("[corral]")]
    assert len(notes) == 2
    assert "1000000 bytes" in notes[0]
    dropped = int(notes[1].split()[1])
    kept = service.log_text().splitlines()[0].count("y")
    assert kept + dropped == 100_000_000 + len("\nthe end\n")


def test_secrets_never_leave_the_machine(machine: Machine, service: Service) -> None:
    key = "-----BEGIN KEY-----\nbWluZSBvbmx5IG1pbmU=\n-----END KEY-----"
    service.assignment |= {
        "secrets": {"API_TOKEN": "tok-0123456789", "SSH_KEY": key},
        "setup": 'echo "setup $API_TOKEN"',
        "run": 'printf "tok-0123"; sleep 0.05; echo 456789; echo "$SSH_KEY" | tr "\\n" "|"; echo; '
        'echo "$SSH_KEY" | sed -n 2p; echo tok-01234; exit 1',
    }
    machine.start()
    said = service.wait_exit()
    machine.wait_end()
    assert service.log_text() == "setup ***\n***\n***|***|***|\n***\ntok-01234\n"
    everything = machine.paths.spool.read_text() + machine.output.read_text() + str(said)
    assert "tok-0123456789" not in everything
    assert "bWluZSBvbmx5IG1pbmU=" not in everything


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 64])
def test_redaction_does_not_depend_on_how_the_stream_is_cut(size: int) -> None:
    secrets = ["abcabd", "bd-end", "aaa", "x"]
    stream = b"abcabcabd-end aaaa aa ab abcab x xx bd-en"
    redactor = Redactor(secrets)
    pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
    shown = b"".join([redactor.feed(piece) for piece in pieces] + [redactor.finish()])
    assert shown == b"abc*** *** aa ab abcab *** *** bd-en"


def test_redaction_hides_every_byte_of_every_secret_in_random_streams() -> None:
    chance = random.Random(3)
    for _ in range(300):
        secrets = ["".join(chance.choices("ab", k=chance.randint(2, 6))) for _ in range(3)]
        text = "".join(chance.choices("ab-", k=60))
        redactor = Redactor(secrets)
        shown, at = b"", 0
        while at < len(text):
            step = chance.randint(1, 9)
            shown += redactor.feed(text[at : at + step].encode())
            at += step
        shown += redactor.finish()
        assert shown.decode() == _reference(text, secrets)


def test_redaction_holds_back_no_more_than_could_become_a_secret() -> None:
    redactor = Redactor(["secret-value"])
    assert redactor.feed(b"all of this is shown at once") == b"all of this is shown at once"
    assert redactor.feed(b" se") == b" "
    assert redactor.feed(b"e") == b"see"


def test_shipper_goes_where_the_service_says_the_log_ends(
    service: Service, spool: Spool, ships: LogShipper
) -> None:
    spool.write(b"0123456789")
    service.log += b"0123"
    while not ships.done:
        ships.step()
    assert bytes(service.log) == b"0123456789"


def test_shipper_stops_when_the_service_takes_no_more(
    service: Service, spool: Spool, ships: LogShipper
) -> None:
    service.overrides["logs"] = 413, problem(413, "the log is full", "log_limit")
    spool.write(b"x")
    ships.step()
    assert ships.done
    assert service.heard.calls == ["POST logs"]


def test_batches_are_no_larger_than_the_protocol_allows(
    service: Service, spool: Spool, ships: LogShipper
) -> None:
    spool.write(b"z" * 700_000)
    while not ships.done:
        ships.step()
    assert len(service.log) == 700_000  # the service of these tests asserts the size of each batch
    assert service.log_batches == 3


def test_flush_gives_up_at_once_when_the_service_is_away(
    service: Service, spool: Spool, ships: LogShipper
) -> None:
    service.down.set()
    spool.write(b"x")
    ships.start()
    assert not ships.flush(1e6)
    service.down.clear()
    assert wait_for(lambda: ships.flush(1000), "the log")
    assert bytes(service.log) == b"x"


def test_note_stands_on_a_line_of_its_own(spool: Spool) -> None:
    spool.write(b"half a line")
    spool.note("restored")
    spool.write(b"on\n")
    spool.note("again")
    assert spool.read(0, 1000) == b"half a line\n[corral] restored\non\n[corral] again\n"


def test_notes_fit_below_the_limit_even_when_output_has_reached_it(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "log", 10_000)
    for _ in itertools.repeat(None, 100):
        spool.write(b"x" * 999)
    spool.note("something that matters")
    assert b"something that matters" in spool.read(0, 20_000)
    assert spool.size <= 10_000
    assert spool.dropped == 99_900 - spool.read(0, 20_000).count(b"x")


def _reference(text: str, secrets: list[str]) -> str:
    """The same, slowly: mark each byte of each occurrence, then write each marked run as one mask."""
    marked = [False] * len(text)
    for secret in secrets:
        for at in range(len(text)):
            if text.startswith(secret, at):
                marked[at : at + len(secret)] = [True] * len(secret)
    runs = itertools.groupby(zip(text, marked, strict=True), key=lambda pair: pair[1])
    return "".join("***" if hidden else "".join(char for char, _ in run) for hidden, run in runs)


def _resident_mb(pid: int) -> float:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return 0.0
    return pages * 4096 / 1e6
