"""The policy `cheapest`: of what fits, is allowed and is not blocked, the lowest price a node-hour."""

from __future__ import annotations

from datetime import datetime

from policies import placing
from policies.model import Candidate, Decision, Job, Market
from policies.rule import Rule

RULE = Rule()


def decide(job: Job, market: Market, now: datetime) -> Decision:
    """The cheapest offers first; Wait with the earliest moment of change where none can be tried."""
    return placing.decide(RULE, job, market, now)


def explain(job: Job, market: Market, now: datetime) -> list[Candidate]:
    """Every offer that fits: those that can be tried in rank order, then the others."""
    return placing.explain(RULE, job, market, now)
