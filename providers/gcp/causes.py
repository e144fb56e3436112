"""Compute Engine's errors in one shape, whether an HTTP answer or an operation brought them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from providers.gcp.error_table import CODES, GENERIC, MESSAGES, NEUTRAL, PRECEDENCE, Rule

_QUOTA_NAME = re.compile(r"quota '([A-Z0-9_]+)' exceeded", re.IGNORECASE)
_QUOTA_REGION = re.compile(r"in region ([a-z0-9-]+)")


@dataclass(frozen=True, slots=True)
class Quota:
    """What an error says of a quota. `metric` as region quotas spell it (`PREEMPTIBLE_NVIDIA_L4_GPUS`).

    rising: a higher limit has been granted and is being rolled out.
    """

    metric: str
    region: str | None = None
    gpu_family: str | None = None
    everywhere: bool = False
    limit: float | None = None
    rising: bool = False


@dataclass(frozen=True, slots=True)
class Cause:
    """One error of an answer: the vendor's code, the finer reason of its ErrorInfo, and its facts."""

    code: str
    message: str = ""
    reason: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    quota: Quota | None = None

    def rule(self) -> Rule | None:
        """What the table says of it; None if neither code, reason nor message is known."""
        if self.code in GENERIC and self.reason not in CODES:
            for pattern, rule in MESSAGES:
                if pattern.search(self.message):
                    return rule
        if self.code in GENERIC and self.reason in CODES:
            return CODES[self.reason]
        if self.code in CODES:
            return CODES[self.code]
        if self.reason in CODES:
            return CODES[self.reason]
        return next((rule for pattern, rule in MESSAGES if pattern.search(self.message)), None)


def decisive(causes: Iterable[Cause]) -> tuple[Cause, Rule] | None:
    """The cause that explains the others, by the table's precedence; None if none is known."""
    known = [(cause, rule) for cause in causes if (rule := cause.rule()) is not None]
    real = [pair for pair in known if pair[0].code != NEUTRAL] or known
    return min(real, key=lambda pair: PRECEDENCE.index(pair[1].kind), default=None)


def quota_in_text(message: str) -> Quota | None:
    """The quota that a message names: "Quota 'X' exceeded. Limit: 8.0 in region us-central1."."""
    name = _QUOTA_NAME.search(message)
    if name is None:
        return None
    region = _QUOTA_REGION.search(message)
    return Quota(
        metric=name[1].upper(),
        region=region[1] if region else None,
        everywhere="globally" in message,
    )


def causes_of_http(error: Any) -> tuple[Cause, ...]:
    """From a google.api_core GoogleAPICallError of a REST answer."""
    reason = error.reason or ""
    facts = {str(key): str(value) for key, value in (error.metadata or {}).items()}
    text = str(error.message or "")
    items = [item for item in error.errors or () if isinstance(item, Mapping)]
    if not items:
        return (Cause("", text, reason, facts, quota_in_text(text)),)
    return tuple(
        Cause(
            code=str(item.get("reason", "")),
            message=str(item.get("message") or text),
            reason=reason,
            facts=facts,
            quota=quota_in_text(str(item.get("message") or text)),
        )
        for item in items
    )


def causes_of_operation(operation: Any) -> tuple[Cause, ...]:
    """From a compute_v1.Operation; empty if it has not failed or names no error."""
    return tuple(_cause_of_item(item) for item in operation.error.errors)


def _cause_of_item(item: Any) -> Cause:
    reason, facts, quota = "", {}, None
    for detail in item.error_details:
        if "error_info" in detail:
            reason = detail.error_info.reason
            facts = dict(detail.error_info.metadatas)
        if "quota_info" in detail:
            quota = _quota(detail.quota_info, item.message)
    return Cause(item.code, item.message, reason, facts, quota or quota_in_text(item.message))


def _quota(info: Any, message: str) -> Quota:
    named = quota_in_text(message)
    dimensions = dict(info.dimensions)
    metric = info.metric_name.rsplit("/", 1)[-1].upper()
    return Quota(
        metric=named.metric if named else metric,
        region=dimensions.get("region") or (named.region if named else None),
        gpu_family=dimensions.get("gpu_family"),
        everywhere="global" in dimensions or bool(named and named.everywhere),
        limit=info.limit,
        rising=info.rollout_status == "IN_PROGRESS" and info.future_limit > info.limit,
    )
