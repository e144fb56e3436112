"""What would help a job that waits on quotas: what is short, what was asked for, how long that takes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlmodel import Session, col, select

from policies.model import Candidate
from service.quota_desk.model import QuotaRequest
from service.quota_desk.shortages import Short, shortages
from service.quota_desk.shown import similar_shown
from service.quota_desk.waits import Sample, samples, size_of
from service.quotas.headroom import headroom
from service.quotas.rows import quota_id
from service.states import REQUEST_OPEN


def hints(session: Session, found: Sequence[Candidate], nodes: int, now: datetime) -> list[dict[str, Any]]:
    """One per account and capacity type that only a quota keeps the job from, cheapest first."""
    short = shortages(found, headroom(session, now), nodes)
    if not short:
        return []
    rows = session.exec(select(QuotaRequest)).all()
    known = samples(rows, now)
    return [_hint(session, one, nodes, known) for one in short]


def _hint(session: Session, short: Short, nodes: int, known: Sequence[Sample]) -> dict[str, Any]:
    key, quota = short.offer.key, short.shortage.quota
    accelerator = short.offer.type.accelerator
    gpus = nodes * accelerator.count if accelerator else None
    group = (key.provider, accelerator.name if accelerator else None, key.region, size_of(gpus))
    row_id = quota_id(key.provider, key.account, quota)
    request = session.exec(
        select(QuotaRequest)
        .where(QuotaRequest.quota_id == row_id, col(QuotaRequest.state).in_(REQUEST_OPEN))
        .order_by(col(QuotaRequest.created_at).desc())
    ).first()
    return {
        "provider": key.provider,
        "account": key.account,
        "region": key.region,
        "instance_type": key.instance_type,
        "capacity_type": key.capacity_type,
        "quota_id": row_id,
        "unit": quota.unit,
        "limit": quota.limit,
        "missing": short.shortage.missing,
        "detail": str(short.shortage),
        "request": None if request is None else {"id": request.id, "state": request.state},
        "similar": similar_shown(known, group),
    }
