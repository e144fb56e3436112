"""Reservations over HTTP: what was paid for ahead, and how much of it is free."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from sqlalchemy import select, tuple_
from sqlmodel import Session
from starlette.responses import Response

from providers.reservations import ReservationKind, ReservationState
from service.api.authentication import CurrentCaller
from service.api.paging import Cursor, Limit, decode_cursor, encode_cursor, page
from service.api.state import CurrentApi
from service.money import from_micros
from service.reservations.ends import leave_at
from service.reservations.model import ReservationRow
from service.reservations.rows import key_of
from service.reservations.slots import Slots, slots

router = APIRouter(tags=["reservations"])

_TABLE = ReservationRow.__table__  # type: ignore[attr-defined]
_KEY = (_TABLE.c.provider, _TABLE.c.account, _TABLE.c.region, _TABLE.c.zone, _TABLE.c.id)


@router.get("/reservations", summary="List reservations")
async def reservations(
    api: CurrentApi,
    caller: CurrentCaller,
    limit: Limit = 50,
    cursor: Cursor = None,
    provider: Annotated[str | None, Query(max_length=16)] = None,
    region: Annotated[str | None, Query(max_length=64)] = None,
    kind: Annotated[ReservationKind | None, Query()] = None,
    state: Annotated[ReservationState | None, Query()] = None,
) -> Response:
    """By provider, account and zone. `total`, `used`, `in_flight` and `free` are instances; null is unknown.
    `leave_at` is when jobs are told to leave it, null where its end ends no instance.
    """
    statement = select(*_KEY).order_by(*_KEY)
    given = {"provider": provider, "region": region, "kind": kind, "state": state}
    for name, value in given.items():
        if value is not None:
            statement = statement.where(_TABLE.c[name] == value)
    if cursor:
        statement = statement.where(tuple_(*_KEY) > tuple(decode_cursor(cursor, (str,) * len(_KEY))))

    def find(session: Session) -> tuple[list[dict[str, Any]], str | None]:
        keys = session.connection().execute(statement.limit(limit + 1)).all()
        counted = slots(session, api.ctx.now())
        items = [_shown(session.get_one(ReservationRow, tuple(key)), counted) for key in keys[:limit]]
        return items, encode_cursor(*keys[limit - 1]) if len(keys) > limit else None

    return page(*await api.read(find))


def _shown(row: ReservationRow, counted: Slots) -> dict[str, Any]:
    accelerator = row.type.get("accelerator")
    key = key_of(row)
    return {
        "provider": row.provider,
        "account": row.account,
        "region": row.region,
        "zone": row.zone,
        "id": row.id,
        "name": row.name,
        "kind": row.kind,
        "state": row.state,
        "instance_type": row.instance_type,
        "gpu": accelerator["name"] if accelerator else None,
        "gpu_count": accelerator["count"] if accelerator else 0,
        "targeted": row.targeted,
        "total": row.total,
        "used": row.used,
        "in_flight": counted.in_flight(key),
        "free": counted.free(key),
        "starts_at": row.starts_at,
        "ends_at": row.ends_at,
        "leave_at": leave_at(row.kind, row.ends_at),
        "price_usd_hour": None if row.price_micros is None else from_micros(row.price_micros),
        "read_at": row.read_at,
    }
