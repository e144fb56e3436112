"""The one door to the policies: a rule and a job in, a decision out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from policies import placing, timed
from policies.model import Candidate, Decision, Job, Market
from policies.rule import Rule


def decide(rule: Rule, job: Job, market: Market, now: datetime) -> Decision:
    """What to do now: with a deadline and a known amount of work by `timed`, else by `placing`."""
    if _is_timed(job):
        return timed.decide(rule, job, market, now)
    return placing.decide(rule, job, market, now)


def explain(rule: Rule, job: Job, market: Market, now: datetime) -> Sequence[Candidate]:
    """What it makes of each offer that fits, those that can be tried first."""
    if _is_timed(job):
        return timed.explain(rule, job, market, now)
    return placing.explain(rule, job, market, now)


def _is_timed(job: Job) -> bool:
    return job.deadline is not None and job.work_left is not None
