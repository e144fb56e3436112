"""How the time that is left is shared out between the job, its last upload and the report."""

from __future__ import annotations

from dataclasses import dataclass

from agent.orders import HaltOrder

IMMINENT_SECONDS = 15.0  # what a job gets when the cloud says "now": longer may be more than there is
UPLOAD_SECONDS = 600.0  # the last upload, where nothing presses
_UPLOAD_RESERVE = 30.0
_REPORT_RESERVE = 2.0


@dataclass(frozen=True, slots=True)
class DrainPlan:
    """Monotonic seconds: SIGKILL at `kill_at`, no upload after `upload_until`, all said by `report_by`."""

    kill_at: float
    upload_until: float
    report_by: float | None


def plan(order: HaltOrder, now: float, job_grace: float, *, uploads: bool) -> DrainPlan:
    """The job gets its grace, but never so much that its last checkpoint could not be uploaded: of a short
    notice the upload keeps a third, up to 30 s, and the report a tenth, up to 2 s.
    """
    grace = order.grace if order.grace is not None else job_grace
    if order.deadline is None:
        if order.imminent:
            grace = min(grace, IMMINENT_SECONDS)
        return DrainPlan(now + grace, now + grace + UPLOAD_SECONDS, None)
    left = max(0.0, order.deadline - now)
    report = min(_REPORT_RESERVE, left / 10)
    upload = min(_UPLOAD_RESERVE, left / 3) if uploads else 0.0
    return DrainPlan(
        kill_at=now + min(grace, left - upload - report),
        upload_until=order.deadline - report,
        report_by=order.deadline,
    )
