"""What people decide about requests for more quota: approve or turn down a proposal, take a request back."""

from __future__ import annotations

from datetime import datetime

from sqlmodel import Session

from service.quota_desk.model import QuotaRequest
from service.quota_desk.sentences import asked_for
from service.states import QuotaRequestState
from service.transitions import move_quota_request

TURNED_DOWN = "turned_down"
TAKEN_BACK = "taken_back"


class UndecidableError(Exception):
    """The request is past what was to be decided; the message says where it is."""


def approve_request(session: Session, request: QuotaRequest, by: str | None, *, now: datetime) -> None:
    """A proposal is to be filed. Safe to repeat; UndecidableError where it was turned down or has expired."""
    if request.state in (QuotaRequestState.WITHDRAWN, QuotaRequestState.EXPIRED):
        raise UndecidableError(f"the request is {request.state}: ask anew")
    if request.state is not QuotaRequestState.PROPOSED:
        return
    request.decided_by, request.wake_at = by, now
    message = f"{asked_for(request)} was approved by {by or 'someone'} and is about to be filed"
    move_quota_request(session, request, QuotaRequestState.DRAFT, message, now=now, by=by)


def deny_request(
    session: Session, request: QuotaRequest, by: str | None, *, now: datetime, why: str = ""
) -> None:
    """A proposal is turned down. Safe to repeat; UndecidableError where it went on already."""
    if request.state is QuotaRequestState.WITHDRAWN:
        return
    if request.state is not QuotaRequestState.PROPOSED:
        raise UndecidableError(f"the request is {request.state}; only a proposal can be turned down")
    said = f": {why}" if why else ""
    _withdraw(session, request, by, f"was turned down by {by or 'someone'}{said}", TURNED_DOWN, now)


def withdraw_request(session: Session, request: QuotaRequest, by: str | None, *, now: datetime) -> None:
    """Take a request back before it is sent. Safe to repeat; UndecidableError once the cloud may have it:
    no vendor lets a request be called off by its API.
    """
    if request.state is QuotaRequestState.WITHDRAWN:
        return
    unsent = request.state is QuotaRequestState.DRAFT and request.sent_at is None
    if request.state is not QuotaRequestState.PROPOSED and not unsent:
        raise UndecidableError(
            f"the request is {request.state}: the cloud has it, or may; call it off in the vendor's console"
        )
    _withdraw(session, request, by, f"was taken back by {by or 'someone'}", TAKEN_BACK, now)


def _withdraw(
    session: Session, request: QuotaRequest, by: str | None, said: str, reason: str, now: datetime
) -> None:
    request.decided_by, request.decided_at, request.wake_at = by, now, None
    message = f"{asked_for(request)} {said}"
    move_quota_request(session, request, QuotaRequestState.WITHDRAWN, message, now=now, reason=reason, by=by)
