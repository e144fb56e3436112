"""A team moves from SQLite to PostgreSQL: every row arrives, and the old file serves nobody again."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import Engine, func
from sqlmodel import select

from service.cli.failure import ExitCode
from service.cli.main import main
from service.db import Database
from service.events.model import Event
from service.events.record import record
from service.initialise import prepare_folder
from service.relocation import move
from service.schema import metadata
from service.settings import Settings
from service.sole_process import sole_process
from service.states import JobState
from service.upgrade import SchemaError, check_revision, migrate
from tests.clocks import FakeClock
from tests.loops.bench import Bench, cloud, offer
from tests.postgres import PostgresServer

NOW = datetime(2026, 4, 1, tzinfo=UTC)


@pytest.fixture
def target(postgres_server: PostgresServer) -> Iterator[Database]:
    with postgres_server.database() as url:
        database = Database(url)
        yield database
        database.close()


@pytest.fixture
def lived_in(tmp_path: Path) -> Iterator[Database]:
    """A database in which a job was preempted and went on elsewhere, and another waits."""
    clock = FakeClock()
    clouds = {"aws": cloud(clock, offer("aws", 10.0)), "gcp": cloud(clock, offer("gcp", 11.0))}
    bench = Bench(tmp_path, clouds, clock, url=f"sqlite:///{tmp_path / 'bench.db'}")
    job_id = bench.submit_job(env={"GREETING": "Grüße \N{GRINNING FACE}"})
    bench.run_until(job_id, JobState.RUNNING)
    bench.submit_job("waits", max_price=0.01)
    bench.pass_time(60)
    source = Database(f"sqlite:///{tmp_path / 'corral.db'}")
    migrate(source.engine, "head")
    with bench.database.engine.connect() as reading, source.engine.begin() as writing:
        for table in metadata.sorted_tables:
            rows = [dict(row) for row in reading.execute(table.select()).mappings()]
            if rows:
                writing.execute(table.insert(), rows)
    bench.database.close()
    yield source
    source.close()


def _text(row: Any) -> str:
    """A row as text, the keys of its documents in order: PostgreSQL keeps them in an order of its own."""
    return orjson.dumps(tuple(row), option=orjson.OPT_SORT_KEYS).decode()


def newest_event(database: Database) -> int:
    return database.read(lambda session: session.exec(select(func.max(Event.id))).one()) or 0


def contents(engine: Engine) -> dict[str, set[str]]:
    with engine.connect() as connection:
        return {
            table.name: {_text(row) for row in connection.execute(table.select())}
            for table in metadata.sorted_tables
        }


def test_every_row_arrives_as_it_was_and_numbers_go_on(lived_in: Database, target: Database) -> None:
    before = contents(lived_in.engine)
    counts = move(lived_in.engine, target.engine)
    assert contents(target.engine) == before
    assert counts == {name: len(rows) for name, rows in before.items()}
    assert min(counts[name] for name in ("job", "attempt", "instance", "event", "charge", "offer")) > 0
    assert check_revision(target.engine)

    last = newest_event(target)
    target.write(lambda session: record(session, "after", "job", "j", "the first one there", at=NOW))
    assert newest_event(target) == last + 1


def test_the_old_file_is_kept_aside_and_no_service_begins_anew_in_its_place(
    lived_in: Database, target: Database, tmp_path: Path
) -> None:
    move(lived_in.engine, target.engine)
    assert (tmp_path / "corral.db.moved").exists()
    assert not (tmp_path / "corral.db").exists()
    with pytest.raises(SchemaError, match="was moved to PostgreSQL"):
        prepare_folder(Settings(data_dir=str(tmp_path)))


def test_a_target_with_anything_in_it_is_refused_and_left_alone(lived_in: Database, target: Database) -> None:
    before = contents(lived_in.engine)
    migrate(target.engine, "head")
    with pytest.raises(SchemaError, match="the target is not empty"):
        move(lived_in.engine, target.engine)
    assert contents(lived_in.engine) == before
    assert check_revision(target.engine)


def test_a_row_that_postgresql_cannot_hold_keeps_everything_where_it_was(
    lived_in: Database, target: Database, tmp_path: Path
) -> None:
    lived_in.write(lambda session: record(session, "spoilt", "job", "j", "a NUL \0 in a text", at=NOW))
    with pytest.raises(Exception, match="NUL"):
        move(lived_in.engine, target.engine)
    assert (tmp_path / "corral.db").exists()
    assert contents(lived_in.engine)["event"]
    with pytest.raises(Exception, match="does not exist"):
        contents(target.engine)


def test_the_command_moves_a_team_and_needs_the_service_to_be_stopped(
    lived_in: Database,
    target: Database,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CORRAL_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("TARGET", target.engine.url.render_as_string(hide_password=False))
    lived_in.close()
    with sole_process(f"sqlite:///{tmp_path / 'corral.db'}"):
        assert main(["db", "copy", "env:TARGET"]) == ExitCode.FAILED
    assert "stop it first" in capsys.readouterr().err
    assert main(["db", "copy", "sqlite:///elsewhere.db"]) == ExitCode.USAGE
    assert main(["db", "copy", "env:TARGET"]) == ExitCode.OK
    assert "copied and compared" in capsys.readouterr().out
    assert main(["db", "copy", "env:TARGET"]) == ExitCode.FAILED
