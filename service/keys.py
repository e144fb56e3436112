"""The keys of a deployment: those that encrypt secrets, and one derived from them that signs claim codes.

They come from CORRAL_SECRET_KEY (several, comma-separated: the first encrypts, all decrypt) or from a file
with one key a line that nobody else may read. A key is 32 random bytes in base64.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from service.configuration import SECRET_KEY
from service.settings import Settings

KEY_BYTES = 32
KEY_FILE = "secret.key"


class UnusableKeyError(Exception):
    """The keys cannot be used; the message says what to do and holds no key."""


class KeyMissingError(UnusableKeyError):
    """There is no key yet."""


@dataclass(frozen=True)
class Key:
    """One key and its public name."""

    id: str
    material: bytes = field(repr=False)


@dataclass(frozen=True)
class SecretKeys:
    """The keys in their order: the first encrypts, each decrypts what names it."""

    keys: tuple[Key, ...]

    @property
    def first(self) -> Key:
        return self.keys[0]

    def by_id(self, key_id: str) -> Key | None:
        """The key that a row names; None if it is no longer given."""
        return next((key for key in self.keys if key.id == key_id), None)

    def deployment_key(self, deployment_id: str) -> bytes:
        """What signs the claim codes of agents. From the oldest key, so that putting a new one in front
        leaves the codes of instances that are booting good.
        """
        label = f"corral claim codes of {deployment_id}".encode()
        return hmac.new(self.keys[-1].material, label, hashlib.sha256).digest()


def key_file(settings: Settings) -> Path:
    """Where the key file is, whether it exists or not."""
    return Path(settings.data_dir) / (settings.secret_key_file or KEY_FILE)


def load_keys(settings: Settings, environment: Mapping[str, str]) -> SecretKeys:
    """The keys. KeyMissingError if there are none yet, UnusableKeyError if they cannot be used."""
    given = environment.get(SECRET_KEY)
    if given:
        return parse_keys(given.split(","), SECRET_KEY)
    path = key_file(settings)
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            content = file.read(65536)
    except FileNotFoundError:
        raise KeyMissingError(
            f"no key for secrets: set {SECRET_KEY}, or let `corral init` make {path}"
        ) from None
    except OSError as error:
        raise UnusableKeyError(f"{path}: cannot be read: {error.strerror}") from None
    if mode & 0o077:
        raise UnusableKeyError(f"{path}: others may read it (mode {mode:o}); run: chmod 600 {path}")
    return parse_keys(content.decode("ascii", "replace").splitlines(), str(path))


def parse_keys(texts: list[str], where: str) -> SecretKeys:
    """Keys from their base64 texts; empty ones are passed over."""
    keys = []
    for number, text in enumerate((text.strip() for text in texts if text.strip()), start=1):
        try:
            material = base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
        except ValueError:  # binascii.Error is one
            material = b""
        if len(material) != KEY_BYTES:
            raise UnusableKeyError(f"{where}: key {number} is not {KEY_BYTES} bytes in base64")
        keys.append(Key(hashlib.sha256(b"corral key id" + material).hexdigest()[:16], material))
    if not keys:
        raise UnusableKeyError(f"{where}: holds no key")
    return SecretKeys(tuple(keys))


def make_key_file(settings: Settings) -> bool:
    """Write a new key file, readable by us only; False if there is one already."""
    path = key_file(settings)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    text = base64.b64encode(secrets.token_bytes(KEY_BYTES)) + b"\n"
    new = path.with_name(f".{path.name}-{os.getpid()}")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(new, path)  # fails where the file exists: two who start at once agree on one key
    except FileExistsError:
        return False
    finally:
        new.unlink()
    return True
