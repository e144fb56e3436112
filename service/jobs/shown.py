"""Jobs and attempts as replies show them: one spelling, and nothing that may be a secret."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from service.jobs.repository import Row

HIDDEN = "***"
SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASSW|CREDENTIAL|PRIVATE|_KEY$|^KEY$|APIKEY|ACCESS_KEY", re.IGNORECASE
)
_FIELDS = (
    "id",
    "name",
    "state",
    "reason",
    "detail",
    "priority",
    "submitted_at",
    "submitted_by",
    "waiting_since",
    "started_at",
    "ended_at",
    "cancel_requested_at",
    "deadline",
    "deadline_at_risk",
    "attempts",
    "checkpoint",
    "checkpoint_at",
)


def job_summary(
    row: Row, project: str | None, cost_usd: float, offer: Mapping[str, Any] | None, now: datetime
) -> dict[str, Any]:
    """A job in a list. `offer` is where it runs; `now` is the service's time, to reckon from."""
    resources = row["resources"] if "resources" in row else row["spec"]["resources"]
    return {
        **{name: row[name] for name in _FIELDS},
        "class": row["run_class"],
        "project": project,
        "gpu": gpu_text(resources.get("gpu")),
        "nodes": resources["nodes"],
        "cost_usd": cost_usd,
        "offer": offer,
        "now": now,
    }


def job_detail(
    row: Row, project: str | None, cost_usd: float, offer: Mapping[str, Any] | None, now: datetime
) -> dict[str, Any]:
    """A job by itself: with its spec, what the scheduler last decided, and the retries that it used."""
    return {
        **job_summary(row, project, cost_usd, offer, now),
        "spec": shown_spec(row["spec"]),
        "decision": row["decision"] or None,
        "retries_used": row["retries_used"],
    }


def shown_spec(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The canonical spec; values of env whose names tell of a secret are hidden."""
    env = {name: HIDDEN if SECRET_NAME.search(name) else value for name, value in spec.get("env", {}).items()}
    return {**spec, "env": env}


def gpu_text(gpu: Mapping[str, Any] | None) -> str | None:
    """`H100:8`, `A100-80GB|H100:4`, `80GB+:1`."""
    if gpu is None:
        return None
    name = "|".join(gpu.get("name") or ())
    low, high = gpu.get("min_memory_gb"), gpu.get("max_memory_gb")
    if not name:
        name = "any" if low is None and high is None else _memory_text(low, high)
    return f"{name}:{gpu['count']}"


def _memory_text(low: float | None, high: float | None) -> str:
    if high is None:
        return f"{low:g}GB+"
    return f"{low or 0:g}GB..{high:g}GB"
