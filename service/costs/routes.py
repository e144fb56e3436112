"""Costs over HTTP."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import AwareDatetime
from sqlmodel import Session

from service.api.authentication import CurrentCaller
from service.api.problems import invalid
from service.api.state import CurrentApi
from service.costs.report import GroupBy, costs
from service.money import from_micros
from service.projects.repository import scope_of

router = APIRouter(tags=["costs"])


@router.get("/costs", summary="What was spent")
async def spent(
    api: CurrentApi,
    caller: CurrentCaller,
    by: GroupBy = GroupBy.PROJECT,
    days: Annotated[float, Query(gt=0, le=3650, description="How many days, up to `until`.")] = 30,
    until: Annotated[AwareDatetime | None, Query(description="Now by default.")] = None,
    project: Annotated[str | None, Query(max_length=40)] = None,
) -> dict[str, Any]:
    """From the charges booked for instances, at the prices in force: no storage, no traffic, no discounts.
    The dearest first; of every project that the token is good for.
    """
    now = api.ctx.now()
    end = until or now
    try:
        start = end - timedelta(days=days)
    except OverflowError:
        raise invalid("until", "is before there was time") from None

    def find(session: Session) -> list[dict[str, Any]]:
        found = costs(session, by, start, end, now, scope_of(session, caller, project))
        return [
            {
                "group": cost.group,
                "cost_usd": from_micros(cost.cost_micros),
                "instance_hours": round(cost.instance_seconds / 3600, 3),
            }
            for cost in found
        ]

    items = await api.read(find)
    total = round(sum(item["cost_usd"] for item in items), 6)
    return {"by": by, "since": start, "until": end, "total_usd": total, "items": items}
