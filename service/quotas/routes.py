"""Quotas over HTTP: what limits each account, and how much of it is free."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from sqlmodel import Session, col, select
from starlette.responses import Response

from providers.quotas import Quota
from providers.vocabulary import Offer
from service.api.authentication import CurrentCaller
from service.api.paging import Cursor, Limit, decode_cursor, encode_cursor, page
from service.api.state import CurrentApi
from service.market.offers import read_offers
from service.quotas.headroom import headroom
from service.quotas.increases import in_gpus
from service.quotas.model import QuotaRow
from service.quotas.rows import to_quota

router = APIRouter(tags=["quotas"])


@router.get("/quotas", summary="List quotas")
async def quotas(
    api: CurrentApi,
    caller: CurrentCaller,
    limit: Limit = 50,
    cursor: Cursor = None,
    gpu: Annotated[str | None, Query(max_length=32, description="Only what gates this GPU: H100")] = None,
    provider: Annotated[str | None, Query(max_length=16)] = None,
    region: Annotated[str | None, Query(max_length=64)] = None,
) -> Response:
    """By provider, account and region. `limit`, `usage`, `in_flight` and `free` are in the cloud's `unit`;
    `…_gpus` is how many GPUs of the best fitting size that is. `free` is the headroom: the limit less usage
    and what is under way. Null is unknown. `age_seconds`: of the reading.
    """
    after = str(decode_cursor(cursor, (str,))[0]) if cursor else ""

    def find(session: Session) -> tuple[list[dict[str, Any]], str | None]:
        statement = select(QuotaRow).where(col(QuotaRow.id) > after).order_by(col(QuotaRow.id))
        if provider is not None:
            statement = statement.where(QuotaRow.provider == provider)
        if region is not None:
            statement = statement.where(QuotaRow.region == region)
        offers = read_offers(session)
        room = headroom(session, api.ctx.now())
        items: list[dict[str, Any]] = []
        for row in session.exec(statement).all():
            quota = to_quota(row)
            gated = [offer for offer in offers if quota.covers(offer)]
            if gpu is not None and not any(_has(offer, gpu) for offer in gated):
                continue
            if len(items) == limit:
                return items, encode_cursor(items[-1]["id"])
            items.append(_shown(row, quota, room.in_flight(quota), gated, api.ctx.now()))
        return items, None

    return page(*await api.read(find))


def _has(offer: Offer, gpu: str) -> bool:
    return offer.type.accelerator is not None and offer.type.accelerator.name == gpu.upper()


def _shown(
    row: QuotaRow, quota: Quota, in_flight: float, gated: Sequence[Offer], now: datetime
) -> dict[str, Any]:
    known = quota.limit is not None and quota.usage is not None
    free = max(0.0, (quota.limit or 0) - (quota.usage or 0) - in_flight) if known else None
    return {
        "id": row.id,
        "provider": row.provider,
        "account": row.account,
        "region": row.region,
        "key": row.key,
        "name": row.name,
        "unit": row.unit,
        "state": "unknown" if quota.limit is None else "zero" if quota.limit == 0 else "known",
        "limit": row.limit,
        "usage": row.usage,
        "in_flight": in_flight,
        "free": free,
        "limit_gpus": _gpus(quota, row.limit, gated),
        "usage_gpus": _gpus(quota, row.usage, gated),
        "in_flight_gpus": _gpus(quota, in_flight, gated),
        "free_gpus": _gpus(quota, free, gated),
        "gates": row.gates,
        "adjustable": row.adjustable,
        "read_at": row.read_at,
        "age_seconds": max(0.0, (now - row.read_at).total_seconds()),
    }


def _gpus(quota: Quota, amount: float | None, gated: Iterable[Offer]) -> int | None:
    """How many GPUs an amount allows, of the size that makes most of it."""
    if amount is None:
        return None
    return max((in_gpus(quota, amount, type_) for type_ in {offer.type for offer in gated}), default=0)
