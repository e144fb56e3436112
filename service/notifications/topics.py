"""What there is to tell: topics, and which events are about which. A table and one function that reads it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Severity(StrEnum):
    """How much it matters. A page is for now: no digest and no quiet hours hold it back."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"
    PAGE = "page"


RANKS = {severity: rank for rank, severity in enumerate(Severity)}

TOPICS: Mapping[str, Severity] = {
    "quota_request_proposed": Severity.WARNING,
    "quota_request_draft": Severity.INFO,
    "quota_request_filed": Severity.INFO,
    "quota_request_found": Severity.INFO,
    "quota_request_approved": Severity.INFO,
    "quota_request_partly_granted": Severity.WARNING,
    "quota_request_denied": Severity.ERROR,
    "quota_request_effective": Severity.INFO,
    "quota_request_expired": Severity.WARNING,
    "quota_request_withdrawn": Severity.INFO,
    "quota_request_withheld": Severity.WARNING,
    "job_started": Severity.INFO,
    "job_preempted": Severity.WARNING,
    "job_failed_over": Severity.INFO,
    "job_succeeded": Severity.INFO,
    "job_failed": Severity.ERROR,
    "job_cancelled": Severity.INFO,
    "job_waiting_long": Severity.WARNING,
    "deadline_at_risk": Severity.ERROR,
    "stock_back": Severity.INFO,
    "budget_80": Severity.WARNING,
    "budget_100": Severity.ERROR,
    "orphan_found": Severity.WARNING,
    "orphan_quarantined": Severity.PAGE,
    "credentials_failing": Severity.PAGE,
    "credentials_working": Severity.INFO,
    "instance_unhealthy": Severity.WARNING,
    "instance_will_not_end": Severity.PAGE,
    "channel_test": Severity.INFO,
}
"""Topic → how much it matters by itself; a route may make a page of it."""

_SAME = frozenset(TOPICS) - {"job_started", "job_preempted", "job_failed_over"}


@dataclass(frozen=True, slots=True)
class About:
    """What an event is about: `subject` orders messages and names their thread (`job/j-…`)."""

    topic: str
    subject: str


def about(
    kind: str, subject: str, subject_id: str, job_id: str | None, data: Mapping[str, Any]
) -> About | None:
    """The topic of an event; None if it concerns nobody beyond its job's history.

    Everything about a job is one subject, so that it is told in order and in one thread; so is everything
    about a quota request, although a job may have caused it.
    """
    topic = _topic(kind, data)
    if topic is None:
        return None
    of_job = job_id is not None and subject != "quota_request"
    return About(topic, f"job/{job_id}" if of_job else f"{subject}/{subject_id}")


def _topic(kind: str, data: Mapping[str, Any]) -> str | None:
    if kind == "quota_request_draft" and data.get("from") != "proposed":
        return None  # asked for by a person, who knows of it
    if kind in _SAME:
        return kind
    if kind == "instance_unreachable":
        return "instance_unhealthy"
    if kind == "attempt_running":
        return "job_failed_over" if data.get("again") else "job_started"
    if kind in ("attempt_draining", "attempt_ended") and data.get("reason") == "preempted":
        # With a notice it drains first; without one it ends at once. Either way it is told once.
        return None if data.get("from") == "draining" else "job_preempted"
    return None
