"""Secrets at rest: AES-256-GCM, bound to project and name, so that a row cannot be passed off as another.

`cryptography` is imported on first use.
"""

from __future__ import annotations

import secrets as randomness
from collections.abc import Iterable
from datetime import datetime
from random import Random

from sqlmodel import Session, col, select

from service.identifiers import new_id
from service.keys import Key, SecretKeys
from service.projects.model import Secret

_NONCE = 12
MAX_BYTES = 64 * 1024


class SecretUnreadableError(Exception):
    """A secret cannot be decrypted: its key is no longer given, or the row was changed. Names no value."""


def put_secret(
    session: Session,
    keys: SecretKeys,
    project_id: str,
    name: str,
    value: str,
    *,
    now: datetime,
    chance: Random,
) -> bool:
    """Keep a value under a name of a project, encrypted with the first key; True if the name is new."""
    row = session.exec(
        select(Secret).where(col(Secret.project_id) == project_id, col(Secret.name) == name)
    ).first()
    created = row is None
    if row is None:
        row = Secret(
            id=new_id("sec", now, chance),
            project_id=project_id,
            name=name,
            ciphertext=b"",
            key_id="",
            updated_at=now,
        )
    row.ciphertext = _encrypt(keys.first, _label(project_id, name), value)
    row.key_id, row.updated_at = keys.first.id, now
    session.add(row)
    return created


def reveal(session: Session, keys: SecretKeys, project_id: str, names: Iterable[str]) -> dict[str, str]:
    """The values of a project's secrets by name, for an agent's assignment. Names that do not exist are
    left out. SecretUnreadableError names the first that cannot be decrypted.
    """
    wanted = list(names)
    if not wanted:
        return {}
    rows = session.exec(
        select(Secret).where(col(Secret.project_id) == project_id, col(Secret.name).in_(wanted))
    ).all()
    return {row.name: _decrypt(keys, row) for row in rows}


def reveal_all(session: Session, keys: SecretKeys, project_id: str) -> dict[str, str]:
    """Every value of a project that can be decrypted: what its logs and events are redacted by."""
    values = {}
    for row in session.exec(select(Secret).where(col(Secret.project_id) == project_id)).all():
        try:
            values[row.name] = _decrypt(keys, row)
        except SecretUnreadableError:
            continue
    return values


def reencrypt(session: Session, keys: SecretKeys) -> int:
    """Encrypt anew with the first key what an older one encrypted, so that those can go; how many."""
    rows = session.exec(select(Secret).where(col(Secret.key_id) != keys.first.id)).all()
    for row in rows:
        row.ciphertext = _encrypt(keys.first, _label(row.project_id, row.name), _decrypt(keys, row))
        row.key_id = keys.first.id
        session.add(row)
    return len(rows)


def _label(project_id: str, name: str) -> bytes:
    return f"{project_id}/{name}".encode()


def _encrypt(key: Key, label: bytes, value: str) -> bytes:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = randomness.token_bytes(_NONCE)
    return nonce + AESGCM(key.material).encrypt(nonce, value.encode(), label)


def _decrypt(keys: SecretKeys, row: Secret) -> str:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    key = keys.by_id(row.key_id)
    if key is None:
        raise SecretUnreadableError(f"secret {row.name}: its key {row.key_id} is no longer given")
    nonce, sealed = row.ciphertext[:_NONCE], row.ciphertext[_NONCE:]
    try:
        return AESGCM(key.material).decrypt(nonce, sealed, _label(row.project_id, row.name)).decode()
    except InvalidTag:
        raise SecretUnreadableError(f"secret {row.name}: cannot be decrypted with key {row.key_id}") from None
