"""Claim codes and session tokens: what an agent proves itself with."""

from __future__ import annotations

import hashlib
import hmac
import secrets

SESSION_PREFIX = "corral_agent_"


def claim_code(deployment_key: bytes, attempt_id: str) -> str:
    """The code in an instance's user data: the same bytes on every resend, stored nowhere."""
    digest = hmac.new(deployment_key, f"claim:{attempt_id}".encode(), hashlib.sha256).hexdigest()
    return f"{attempt_id}.{digest}"


def attempt_of(deployment_key: bytes, code: str) -> str | None:
    """The attempt that a claim code is for; None if the code is not ours."""
    attempt_id = code.partition(".")[0]
    if not attempt_id or not hmac.compare_digest(
        claim_code(deployment_key, attempt_id).encode(), code.encode()
    ):
        return None
    return attempt_id


def new_session() -> tuple[str, str]:
    """A session token and the hash under which it is kept. Made by the system's own randomness."""
    token = SESSION_PREFIX + secrets.token_urlsafe(32)
    return token, session_hash(token)


def session_hash(token: str) -> str:
    """The hash of a session token."""
    return hashlib.sha256(token.encode()).hexdigest()
