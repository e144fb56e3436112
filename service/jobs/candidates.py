"""The market as one job sees it: the offers it may try, ranked, and why the others are passed over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlmodel import Session

from policies.model import Candidate, Job, Reason
from service.jobs.scheduler import policy_for
from service.market.snapshot import snapshot
from service.projects.model import Project
from service.settings import Settings

_UNFIT = frozenset({Reason.WRONG_GPU, Reason.TOO_SMALL})

SHOWN = 50
"""How many of the offers that are passed over are listed one by one; all are counted."""


def candidates(
    session: Session, settings: Settings, row: Any, job: Job, now: datetime
) -> Sequence[Candidate]:
    """Every offer as the job's policy sees it; `row` is the job's row, saved or not."""
    project = session.get_one(Project, row.project_id)
    policy = policy_for(settings, row.run_class, project.name)
    found: Sequence[Candidate] = policy.explain(job, snapshot(session, now), now)
    return found


def ranked(found: Sequence[Candidate], nodes: int) -> list[dict[str, Any]]:
    """Those that can be tried now, best first."""
    return [_shown(candidate, nodes) for candidate in found if candidate.reason is None]


def passed_over(found: Sequence[Candidate], nodes: int, limit: int = SHOWN) -> list[dict[str, Any]]:
    """The others, nearest to usable first, at most `limit`."""
    return [_shown(candidate, nodes) for candidate in found if candidate.reason is not None][:limit]


def misfit(found: Sequence[Candidate]) -> str | None:
    """A warning where nothing that any account sells is large enough; None otherwise."""
    if any(candidate.reason not in _UNFIT for candidate in found):
        return None
    if not found:
        return "no offer is known yet: no account was read"
    kinds = {one.offer.type.accelerator for one in found if one.reason is Reason.TOO_SMALL}
    largest = max((kind.count for kind in kinds if kind is not None), default=0)
    hint = f"; the largest of that kind has {largest} GPUs: ask for more nodes" if largest else ""
    return f"no account sells an instance like this{hint}; the job would wait until one does"


def counts(found: Sequence[Candidate]) -> dict[str, int]:
    """How many are passed over, by reason."""
    reasons = Counter(str(candidate.reason) for candidate in found if candidate.reason is not None)
    return dict(reasons.most_common())


def _shown(candidate: Candidate, nodes: int) -> dict[str, Any]:
    key, price = candidate.offer.key, candidate.offer.price
    accelerator = candidate.offer.type.accelerator
    return {
        "rank": candidate.rank,
        "provider": key.provider,
        "account": key.account,
        "region": key.region,
        "zone": key.zone,
        "instance_type": key.instance_type,
        "capacity_type": key.capacity_type,
        "gpu": f"{accelerator.name}:{accelerator.count}" if accelerator else None,
        "price_usd_hour": price,
        "job_usd_hour": None if price is None else round(price * nodes, 6),
        "price_source": candidate.offer.price_source,
        "reason": candidate.reason,
        "detail": candidate.detail,
        "since": candidate.since,
        "until": candidate.until,
    }
