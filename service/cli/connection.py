"""Where the service is and who asks: --url and --token, then the environment, then the credentials file."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from service.cli.failure import CommandError, UsageError

DEFAULT_URL = "http://127.0.0.1:8080"


@dataclass(frozen=True)
class Connection:
    """An address and a token. `token` None: nothing was found; routes without auth still answer."""

    url: str
    token: str | None = None

    def __repr__(self) -> str:
        return f"Connection({self.url!r}, token={'***' if self.token else None})"


def find(url: str | None, token: str | None, environment: Mapping[str, str]) -> Connection:
    """Each of the two from the first place that has it; the file's token is sent only to the file's address.

    UsageError if the file is readable by others or is not what `login` wrote.
    """
    url = url or environment.get("CORRAL_URL") or None
    token = token or environment.get("CORRAL_TOKEN") or None
    if url and token:
        return Connection(_checked(url), token)
    kept = load(environment)
    address = url or (kept.url if kept else DEFAULT_URL)
    if token is None and kept is not None and kept.url == address.rstrip("/"):
        token = kept.token
    return Connection(_checked(address), token)


def credentials_file(environment: Mapping[str, str]) -> Path:
    """`$XDG_CONFIG_HOME/corral/credentials`, by default below ~/.config."""
    base = environment.get("XDG_CONFIG_HOME")
    if base:
        return Path(base) / "corral" / "credentials"
    home = environment.get("HOME")
    if not home:
        raise UsageError("HOME is not set; give --url and --token, or CORRAL_URL and CORRAL_TOKEN")
    return Path(home) / ".config" / "corral" / "credentials"


def load(environment: Mapping[str, str]) -> Connection | None:
    """What the credentials file says; None where there is none."""
    if not (environment.get("XDG_CONFIG_HOME") or environment.get("HOME")):
        return None
    path = credentials_file(environment)
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            data = json.loads(file.read(65536))
        kept = Connection(str(data["url"]), str(data["token"]))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path}: not a credentials file; write it anew with `corral login`") from error
    if mode & 0o077:
        raise UsageError(f"{path}: others may read it; run: chmod 600 {path}")
    return kept


def save(connection: Connection, environment: Mapping[str, str]) -> Path:
    """Write the credentials file, mode 0600 from its first byte, in one step."""
    path = credentials_file(environment)
    text = json.dumps({"url": connection.url, "token": connection.token}) + "\n"
    new = path.with_name(f".credentials-{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        new.unlink(missing_ok=True)
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
        new.replace(path)
    except OSError as error:
        raise CommandError(f"{path}: cannot be written: {error.strerror}") from error
    return path


def _checked(url: str) -> str:
    if not url.startswith(("http://", "https://")) or len(url.split()) != 1:
        raise UsageError(f"url {url!r}: expected http://HOST:PORT or https://HOST")
    return url.rstrip("/")
