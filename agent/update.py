"""Taking a newer agent from the service: only signed, only before a job starts."""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import logging
import os
import re
import zipfile
from pathlib import Path

from agent import __version__
from agent.client import RefusedError, ServiceClient
from agent.paths import Paths

_MOST_BYTES = 64 << 20
_VERSION = re.compile(rb'^__version__ = "(\d+(?:\.\d+)*)"$', re.MULTILINE)

log = logging.getLogger(__name__)


class UpdateRefusedError(Exception):
    """What was offered is not what its maker signed, or is not newer."""


def take(client: ServiceClient, paths: Paths, zipapp: Path | None) -> bool:
    """Replace the zipapp by what the service offers. True: start again. False: nothing offered, or it was
    not to be trusted, or not to be had (which is logged). An agent that runs from a folder stays as it is.
    Raises UnavailableError and OverError like every call.
    """
    try:
        answer = client.get("/agent/v1/update")
        if answer.status == 204 or zipapp is None:
            return False
        offer = answer.body
        if _numbers(str(offer["version"])) <= _numbers(__version__):
            return False
        data = _download(client, str(offer["url"]), str(offer["sha256"]))
        verify(data, str(offer["signature"]), paths.update_key)
        check_newer(data)
    except (UpdateRefusedError, RefusedError, KeyError, ValueError) as error:
        log.error("the update on offer was refused: %s", error)
        return False
    _replace(zipapp, data)
    log.warning("updated from %s to %s", __version__, offer["version"])
    return True


def verify(data: bytes, signature: str, key: Path) -> None:
    """UpdateRefusedError unless `signature` (base64) is Ed25519 over `data` by the key in the image (PEM)."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        public = load_pem_public_key(key.read_bytes())
    except (OSError, ValueError) as error:
        raise UpdateRefusedError(f"{key}: no public key there: {error}") from error
    if not isinstance(public, Ed25519PublicKey):
        raise UpdateRefusedError(f"{key}: not an Ed25519 key")
    try:
        public.verify(base64.b64decode(signature, validate=True), data)
    except (InvalidSignature, binascii.Error) as error:
        raise UpdateRefusedError("the signature is not that of the key in the image") from error


def check_newer(data: bytes) -> None:
    """UpdateRefusedError unless the signed bytes themselves say a later version: an old signature is no
    licence to go back.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            found = _VERSION.search(archive.read("agent/__init__.py"))
    except (zipfile.BadZipFile, KeyError) as error:
        raise UpdateRefusedError(f"not an agent: {error}") from error
    if found is None or _numbers(found.group(1).decode()) <= _numbers(__version__):
        raise UpdateRefusedError(f"not newer than {__version__}")


def _download(client: ServiceClient, url: str, sha256: str) -> bytes:
    held = bytearray()

    def sink(chunk: bytes) -> None:
        held.extend(chunk)
        if len(held) > _MOST_BYTES:
            raise UpdateRefusedError(f"more than {_MOST_BYTES} bytes")

    client.download(url, sink)
    if hashlib.sha256(held).hexdigest() != sha256:
        raise UpdateRefusedError("the bytes that came do not have the hash that was announced")
    return bytes(held)


def _replace(zipapp: Path, data: bytes) -> None:
    draft = zipapp.with_name(zipapp.name + ".new")
    with draft.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    draft.chmod(zipapp.stat().st_mode & 0o777)
    draft.replace(zipapp)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
