"""Requests for more quota, plans and waits as the API shows them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from service.projects.tokens import Caller
from service.quota_desk.ask import AskPlan
from service.quota_desk.model import QuotaRequest
from service.quota_desk.waits import Group, Quantiles, Sample, Waits, similar, size_of
from service.states import REQUEST_OPEN

_FIELDS = (
    "id",
    "ask_id",
    "provider",
    "account",
    "region",
    "place_region",
    "quota_id",
    "key",
    "name",
    "unit",
    "state",
    "reason",
    "detail",
    "error",
    "limit_before",
    "requested",
    "granted",
    "target",
    "gpu",
    "gpus",
    "instance_type",
    "instances",
    "capacity_type",
    "origin",
    "rule",
    "requested_by",
    "decided_by",
    "provider_id",
    "created_at",
    "sent_at",
    "filed_at",
    "decided_at",
    "effective_at",
    "seen_at",
    "follows",
    "step",
)
_OF_THE_PROJECT = ("project_id", "job_id", "justification")


def request_shown(row: QuotaRequest, caller: Caller, now: datetime) -> dict[str, Any]:
    """A request. `age_seconds` runs from its filing until it is over. What tells of a project is shown to
    those who may see it.
    """
    mine = caller.project_id in (None, row.project_id)
    began = row.filed_at or row.created_at
    ended = now if row.state in REQUEST_OPEN else row.decided_at or now
    return {
        **{name: getattr(row, name) for name in _FIELDS},
        **{name: getattr(row, name) if mine else None for name in _OF_THE_PROJECT},
        "age_seconds": max(0.0, (ended - began).total_seconds()),
    }


def plan_shown(plan: AskPlan, found: Sequence[Sample], now: datetime) -> dict[str, Any]:
    """What a wish comes to."""
    wish, accelerator = plan.wish, plan.offer.type.accelerator
    gpu = accelerator.name if accelerator else None
    return {
        "provider": wish.provider,
        "account": wish.account,
        "region": wish.region,
        "capacity_type": wish.capacity_type,
        "gpu": gpu,
        "gpus": plan.gpus,
        "instance_type": plan.offer.type.name,
        "instances": plan.instances,
        "limits": [
            {
                "quota_id": one.quota_id,
                "key": one.gate.quota.key,
                "name": one.gate.quota.name,
                "region": one.gate.quota.region,
                "unit": one.gate.quota.unit,
                "limit": one.gate.quota.limit,
                "usage": one.gate.quota.usage,
                "needed": one.gate.needed,
                "verdict": one.gate.verdict,
                "requested": one.gate.limit,
                "target": one.target,
                "open_request": one.open_request.id if one.open_request else None,
                "justification": one.justification,
            }
            for one in plan.limits
        ],
        "similar": similar_shown(found, (wish.provider, gpu, wish.region, size_of(plan.gpus))),
    }


def similar_shown(found: Sequence[Sample], group: Group) -> dict[str, Any] | None:
    """How long the requests most like one took; None where nothing is known."""
    like = similar(found, group)
    return None if like is None else waits_shown(*like)


def waits_shown(group: Group, figures: Waits) -> dict[str, Any]:
    """The figures of a group. Waits in seconds."""
    provider, gpu, region, size = group
    return {
        "provider": provider,
        "gpu": gpu,
        "region": region,
        "size": size,
        "decision": _quantiles(figures.decision),
        "effect": _quantiles(figures.effect),
        "share_granted": figures.share,
        "share_n": figures.share_n,
        "open": figures.open,
        "longest_open_seconds": figures.longest_open,
    }


def _quantiles(figures: Quantiles) -> dict[str, Any]:
    return {"p50_seconds": figures.p50, "p90_seconds": figures.p90, "n": figures.n}
