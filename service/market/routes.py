"""Offers over HTTP: what is for sale to us, cheapest first."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from sqlalchemy import func, tuple_
from sqlmodel import Session, select
from starlette.responses import Response

from policies.model import Block
from providers.signals import SpotSignal
from providers.vocabulary import CapacityType
from service.api.authentication import CurrentCaller
from service.api.paging import LARGEST_INT, Cursor, Limit, decode_cursor, encode_cursor, page
from service.api.problems import invalid
from service.api.state import CurrentApi
from service.jobs.gpus import UnknownGpuError, read_gpu
from service.market.model import OfferRow
from service.market.offers import to_offer
from service.market.snapshot import snapshot
from service.market.waits import read_waits
from service.market.waits import shown as shown_waits
from service.money import from_micros

router = APIRouter(tags=["offers"])

_TABLE = OfferRow.__table__  # type: ignore[attr-defined]
_UNPRICED = 2**31 - 1  # sorts after every price


@router.get("/offers", summary="List offers")
async def offers(
    api: CurrentApi,
    caller: CurrentCaller,
    limit: Limit = 50,
    cursor: Cursor = None,
    gpu: Annotated[str | None, Query(max_length=64, description="As in a spec: H100:8, 80GB+, …")] = None,
    provider: Annotated[str | None, Query(max_length=16)] = None,
    region: Annotated[str | None, Query(max_length=64)] = None,
    capacity_type: Annotated[CapacityType | None, Query()] = None,
) -> Response:
    """Cheapest first, without a known price last; each with the block that keeps it from being tried."""
    before = tuple(decode_cursor(cursor, (int, str))) if cursor else None
    now = api.ctx.now()
    price = func.coalesce(_TABLE.c.price_micros, _UNPRICED)
    statement = select(OfferRow).order_by(price, _TABLE.c.id)
    for condition in _conditions(gpu, provider, region, capacity_type):
        statement = statement.where(condition)
    if before is not None:
        statement = statement.where(tuple_(price, _TABLE.c.id) > before)

    def find(session: Session) -> tuple[list[dict[str, Any]], str | None]:
        found = session.exec(statement.limit(limit + 1)).all()
        listed = [(row, to_offer(row)) for row in found[:limit]]
        market = snapshot(session, now, [offer for _, offer in listed])
        items = [_shown(row, market.block_of(offer, now), market.signals_of(offer)) for row, offer in listed]
        more = encode_cursor(_order(found[limit - 1]), found[limit - 1].id) if len(found) > limit else None
        return items, more

    return page(*await api.read(find))


def _order(row: OfferRow) -> int:
    return _UNPRICED if row.price_micros is None else row.price_micros


@router.get("/capacity-waits", summary="How long jobs wait for capacity")
async def capacity_waits(
    api: CurrentApi,
    caller: CurrentCaller,
    gpu: Annotated[str | None, Query(max_length=40, description="Its name: H100")] = None,
    provider: Annotated[str | None, Query(max_length=16)] = None,
    region: Annotated[str | None, Query(max_length=64)] = None,
    capacity_type: Annotated[CapacityType | None, Query()] = None,
) -> Response:
    """Per provider, region, GPU and capacity type: seconds that jobs had waited when they were granted
    capacity (p50, p90, n), how many launches were refused, how many instances were taken back and after how
    long. From all projects; of what `times.keep_history` keeps.
    """
    found = await api.read(read_waits)
    rows = [
        shown_waits(market, found[market])
        for market in sorted(found, key=lambda market: tuple(str(part) for part in market))
        if gpu in (None, market.gpu)
        and provider in (None, market.provider)
        and region in (None, market.region)
        and capacity_type in (None, market.capacity_type)
    ]
    return page(rows, None)


def _conditions(
    gpu: str | None, provider: str | None, region: str | None, capacity_type: CapacityType | None
) -> list[Any]:
    found: list[Any] = []
    if provider is not None:
        found.append(_TABLE.c.provider == provider)
    if region is not None:
        found.append(_TABLE.c.region == region)
    if capacity_type is not None:
        found.append(_TABLE.c.capacity_type == capacity_type)
    if gpu is not None:
        found += _gpu_conditions(gpu)
    return found


def _gpu_conditions(text: str) -> list[Any]:
    try:
        wish = read_gpu(text)
    except UnknownGpuError as error:
        raise invalid("gpu", str(error), error.near) from None
    except ValueError as error:
        raise invalid("gpu", str(error)) from None
    accelerator = _TABLE.c.type["accelerator"]
    found = [accelerator["count"].as_integer() >= min(wish.count, LARGEST_INT)]
    if wish.names:
        found.append(accelerator["name"].as_string().in_(wish.names))
    if wish.memory is not None and wish.memory.low is not None:
        found.append(accelerator["memory_gb"].as_float() >= wish.memory.low)
    if wish.memory is not None and wish.memory.high is not None:
        found.append(accelerator["memory_gb"].as_float() <= wish.memory.high)
    return found


def _shown(row: OfferRow, block: Block | None, said: tuple[SpotSignal, ...]) -> dict[str, Any]:
    accelerator = row.type.get("accelerator")
    return {
        "provider": row.provider,
        "account": row.account,
        "region": row.region,
        "zone": row.zone,
        "instance_type": row.instance_type,
        "capacity_type": row.capacity_type,
        "reservation": row.reservation,
        "gpu": accelerator["name"] if accelerator else None,
        "gpu_count": accelerator["count"] if accelerator else 0,
        "gpu_memory_gb": accelerator["memory_gb"] if accelerator else None,
        "vcpus": row.type["vcpus"],
        "memory_gib": row.type["memory_gib"],
        "price_usd_hour": None if row.price_micros is None else from_micros(row.price_micros),
        "price_source": row.price_source,
        "priced_at": row.priced_at,
        "seen_at": row.seen_at,
        "built_in": row.built_in,
        "signals": [
            {
                "source": signal.source,
                "zone": signal.zone,
                "obtainability": signal.obtainability,
                "eviction_rate": signal.eviction_rate,
                "read_at": signal.read_at,
            }
            for signal in said
        ],
        "block": None
        if block is None
        else {
            "kind": block.kind,
            "code": block.code,
            "message": block.message,
            "since": block.since,
            "until": block.until,
        },
    }
