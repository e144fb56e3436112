"""Asking again after a denial or a partial grant, by the rule of the settings."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import Any

from sqlmodel import Session, col, select

from service.context import Context
from service.identifiers import new_id
from service.projects.model import Deployment
from service.quota_desk.ask import open_requests, tell_new
from service.quota_desk.model import Origin, QuotaRequest
from service.quota_desk.settings import Refile
from service.quotas.model import QuotaRow
from service.states import REQUEST_DECIDED, QuotaRequestState

_AS_BEFORE = (
    "ask_id",
    "provider",
    "account",
    "region",
    "place_region",
    "quota_id",
    "key",
    "name",
    "unit",
    "target",
    "gpu",
    "gpus",
    "instance_type",
    "instances",
    "capacity_type",
    "justification",
    "rule",
    "project_id",
    "job_id",
)


def next_limit(rule: Refile, *, limit: float, requested: float, target: float) -> float | None:
    """The limit to ask for next: the present one times the factor, at most the target; where the present one
    is zero, what was asked for. None where the target is reached.
    """
    if limit >= target:
        return None
    stepped = float(math.ceil(limit * rule.factor)) if limit > 0 else requested
    return min(target, max(stepped, limit + 1))


def refile_due(ctx: Context) -> None:
    """Look at the decided requests that are due: put off until the rule's time, then asked for anew."""
    now = ctx.now()
    rule = ctx.settings.quota_desk.refile

    def refile(session: Session) -> None:
        # As whoever asks does: the open request of a quota is looked for and written by one at a time.
        session.exec(
            select(Deployment.id).where(Deployment.id == ctx.deployment_id).with_for_update()
        ).first()
        for row in session.exec(_due(now)).all():
            row.wake_at = None
            session.add(row)
            if rule is None or row.step >= rule.tries or row.found_decided:
                continue
            decided = row.decided_at or now
            ready = decided + timedelta(seconds=rule.after)
            if ready > now:
                row.wake_at = ready
            else:
                _refile(session, ctx, rule, row)

    if ctx.database.read(lambda session: session.exec(_due(now).limit(1)).first()) is not None:
        ctx.database.write(refile)


def _due(now: datetime) -> Any:
    return (
        select(QuotaRequest)
        .where(col(QuotaRequest.state).in_(REQUEST_DECIDED), col(QuotaRequest.wake_at) <= now)
        .with_for_update()
    )


def _refile(session: Session, ctx: Context, rule: Refile, row: QuotaRequest) -> None:
    quota = session.get(QuotaRow, row.quota_id)
    if quota is None or quota.limit is None or row.requested is None:
        return
    target = row.target or row.requested
    limit = next_limit(rule, limit=quota.limit, requested=row.requested, target=target)
    stands = row.quota_id in open_requests(session, row.provider, row.account)
    made = select(QuotaRequest.id).where(QuotaRequest.follows == row.id).limit(1)
    if limit is None or limit <= quota.limit or stands or session.exec(made).first() is not None:
        return
    now = ctx.now()
    following = QuotaRequest(
        **{name: getattr(row, name) for name in _AS_BEFORE},
        id=new_id("qr", now, ctx.chance),
        state=QuotaRequestState.DRAFT,
        limit_before=quota.limit,
        requested=limit,
        contact=ctx.settings.quota_desk.contact,
        origin=Origin.REFILE,
        requested_by=row.requested_by,
        created_at=now,
        wake_at=now,
        follows=row.id,
        step=row.step + 1,
    )
    session.add(following)
    tell_new(session, following, now=now)
