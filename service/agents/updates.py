"""Offering an older agent a newer zipapp, signed; taken before a job starts, never during one."""

from __future__ import annotations

import base64
import hashlib
import re
import zipfile
from pathlib import Path
from typing import Any

from service.context import Context

URL = "/agent/v1/update/zipapp"
_VERSION = re.compile(rb'^__version__ = "([0-9.]+)"$', re.MULTILINE)


def offered(ctx: Context, version: str | None) -> dict[str, Any] | None:
    """The update for an agent of a version; None if it is not older, or if none is set up to be offered."""
    zipapp, key_file = ctx.settings.agent_zipapp, ctx.settings.agent_update_key_file
    if zipapp is None or key_file is None or version is None:
        return None
    data = Path(zipapp).read_bytes()
    ours = version_of(Path(zipapp))
    if _order(version) >= _order(ours):
        return None
    return {
        "version": ours,
        "sha256": hashlib.sha256(data).hexdigest(),
        "signature": base64.b64encode(_sign(Path(key_file), data)).decode(),
        "url": URL,
    }


def zipapp_bytes(ctx: Context) -> bytes | None:
    """What is offered; None if nothing is."""
    return Path(ctx.settings.agent_zipapp).read_bytes() if ctx.settings.agent_zipapp else None


def version_of(zipapp: Path) -> str:
    """The version that a zipapp says it is. ValueError if it says none."""
    with zipfile.ZipFile(zipapp) as archive:
        found = _VERSION.search(archive.read("agent/__init__.py"))
    if found is None:
        raise ValueError(f"{zipapp}: agent/__init__.py names no version")
    return found.group(1).decode()


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def _sign(key_file: Path, data: bytes) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    key = load_pem_private_key(key_file.read_bytes(), password=None)
    if not isinstance(key, Ed25519PrivateKey):
        raise TypeError(f"{key_file}: not an Ed25519 private key")
    return key.sign(data)
