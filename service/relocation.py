"""Moving a team from SQLite to PostgreSQL: every row, checked, and the source retired.

The whole copy is one transaction on the target: it is there entirely or not at all. The service must not run
meanwhile.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import zip_longest
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine, Table, func, inspect, select, text

from service.schema import metadata
from service.upgrade import HEAD, RETIRED, SchemaError, check_revision, migrate

CHUNK = 1000


def move(source: Engine, target: Engine) -> Mapping[str, int]:
    """Copy every row of a SQLite database into an empty PostgreSQL one, then retire the file. Rows by table.

    SchemaError, with the target as it was and the source untouched, if it cannot be done.
    """
    _check_source(source)
    _check_target(target)
    migrate(target, HEAD)
    try:
        with source.connect() as reading, target.begin() as writing:
            counts = {table.name: _copy(reading, writing, table) for table in metadata.sorted_tables}
            for table in metadata.sorted_tables:
                _compare(reading, writing, table)
                _continue_numbers(writing, table)
    except BaseException:
        migrate(target, "base")
        raise
    _retire(source)
    return counts


def _check_source(source: Engine) -> None:
    if source.dialect.name != "sqlite":
        raise SchemaError("only a SQLite database is copied; PostgreSQL's own tools move a PostgreSQL one")
    if not Path(source.url.database or "").exists():
        raise SchemaError(f"there is no database at {source.url.database}")
    if not check_revision(source):
        raise SchemaError("the database has an older schema; run `corral db upgrade` first")


def _check_target(target: Engine) -> None:
    if target.dialect.name != "postgresql":
        raise SchemaError("the target must be a PostgreSQL database: postgresql://…")
    tables = set(inspect(target).get_table_names())
    if tables - {"alembic_version"}:
        raise SchemaError(f"the target is not empty: it has the table {min(tables)}; give an empty database")


def _rows(connection: Connection, table: Table) -> Iterator[tuple[Any, ...]]:
    """All rows, in the order of the primary key as bytes, which both databases share."""
    key = [
        column.collate("C") if connection.dialect.name == "postgresql" and _is_text(column) else column
        for column in table.primary_key.columns
    ]
    statement = select(table).order_by(*key).execution_options(yield_per=CHUNK)
    for row in connection.execute(statement):
        yield tuple(row)


def _is_text(column: Any) -> bool:
    return bool(column.type.python_type is str)


def _copy(reading: Connection, writing: Connection, table: Table) -> int:
    copied, chunk = 0, list[dict[str, Any]]()
    names = [column.key for column in table.columns]
    for row in _rows(reading, table):
        chunk.append(dict(zip(names, row, strict=True)))
        if len(chunk) == CHUNK:
            writing.execute(table.insert(), chunk)
            copied, chunk = copied + len(chunk), []
    if chunk:
        writing.execute(table.insert(), chunk)
    return copied + len(chunk)


def _compare(reading: Connection, writing: Connection, table: Table) -> None:
    """SchemaError unless the target gives back what the source holds, row for row."""
    for number, (one, other) in enumerate(zip_longest(_rows(reading, table), _rows(writing, table))):
        if one != other:
            raise SchemaError(f"row {number} of {table.name} did not arrive as it was; nothing was kept")


def _continue_numbers(writing: Connection, table: Table) -> None:
    """The next row gets the number after the last one."""
    column = table.autoincrement_column
    if column is None or column.foreign_keys:
        return
    last = writing.execute(select(func.max(column))).scalar()
    if last is not None:
        writing.execute(
            text("SELECT setval(pg_get_serial_sequence(:table, :column), :last)"),
            {"table": f'"{table.name}"', "column": column.name, "last": last},
        )


def _retire(source: Engine) -> None:
    path = Path(source.url.database or "")
    source.dispose()
    with closing(sqlite3.connect(path)) as last:  # what is in the log belongs to the file that is kept
        last.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    path.rename(path.with_name(path.name + RETIRED))
