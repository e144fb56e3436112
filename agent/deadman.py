"""When an instance that nobody looks after ends itself."""

from __future__ import annotations

SILENCE_SECONDS = 30 * 60.0  # without contact and without a job
UNDELIVERED_SECONDS = 60 * 60.0  # an exit that nobody takes


def silent_too_long(now: float, last_contact: float, *, job_runs: bool) -> bool:
    """True when an instance without a job should end. One with a job is never ended for our own blindness."""
    return not job_runs and now - last_contact >= SILENCE_SECONDS


def too_old(now: float, born: float, max_age_seconds: float) -> bool:
    """True when even a running job must end; the age counts from hello."""
    return now - born >= max_age_seconds
