"""How far jobs have come: what they ran, where they are, what they have cost, and how long a start takes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import median

from sqlmodel import Session, col, select

from policies.model import Placement
from service.attempts.cost import Span, cost_micros
from service.attempts.model import Attempt, Charge
from service.attempts.outcome import REPLACED, Ended
from service.jobs.model import Job
from service.money import from_micros
from service.states import AttemptState

USUAL_RESTART = timedelta(minutes=5)
"""From a launch until the job runs, where nothing was ever launched."""
LATEST = 200
"""How many of the latest starts of the deployment tell how long one takes."""
CHUNK = 500


@dataclass(frozen=True, slots=True)
class Progress:
    """What a job's attempts and charges say of it.

    `computed`: work that it would not have to do again if it went on from where it is. `restart`: how long a
    start of it takes. `spent`: USD up to now; `hourly`: USD an hour of what is billed now. `live`: attempts
    that are not over, oldest first. `ran`: how long it has run where it is, or since a move came to nothing.
    `vain_moves`: moves to a machine that never got ready.
    """

    restart: timedelta
    computed: timedelta = timedelta(0)
    spent: float = 0.0
    hourly: float = 0.0
    ran: timedelta = timedelta(0)
    moves: int = 0
    vain_moves: int = 0
    live: tuple[Attempt, ...] = field(default=())

    @property
    def is_busy(self) -> bool:
        """True while something is under way that is neither running alone nor making way alone: what was
        begun is first brought to its end.
        """
        if len(self.live) != 1:
            return bool(self.live)
        state, reason = self.live[0].state, self.live[0].drain_reason
        making_way = state is AttemptState.DRAINING and reason in REPLACED
        return not (making_way or state is AttemptState.RUNNING)

    @property
    def placement(self) -> Placement | None:
        """Where it runs; None unless exactly one attempt is under way, and has started it."""
        if len(self.live) != 1 or self.live[0].state is not AttemptState.RUNNING:
            return None
        return Placement(self.live[0].offer_key)


def read_progress(session: Session, jobs: Sequence[Job], now: datetime) -> dict[str, Progress]:
    """The progress of each job, by its id."""
    tried = [job for job in jobs if job.attempts]
    usual = usual_restart(session)
    attempts: dict[str, list[Attempt]] = defaultdict(list)
    charges: dict[str, list[Charge]] = defaultdict(list)
    for start in range(0, len(tried), CHUNK):
        ids = [job.id for job in tried[start : start + CHUNK]]
        for attempt in session.exec(
            select(Attempt).where(col(Attempt.job_id).in_(ids)).order_by(col(Attempt.number))
        ):
            attempts[attempt.job_id].append(attempt)
        for charge in session.exec(select(Charge).where(col(Charge.job_id).in_(ids))):
            charges[charge.job_id].append(charge)
    return {
        job.id: progress(attempts[job.id], charges[job.id], _resumes(job), usual, now)
        if job.attempts
        else Progress(usual)
        for job in jobs
    }


def progress(
    attempts: Sequence[Attempt], charges: Iterable[Charge], resumes: bool, usual: timedelta, now: datetime
) -> Progress:
    """The progress of one job; pure. `usual` is how long a start takes where it has none of its own."""
    by_id = {attempt.id: attempt for attempt in attempts}
    live = tuple(attempt for attempt in attempts if attempt.state is not AttemptState.ENDED)
    computed = sum((_computed(attempt, resumes, now) for attempt in attempts), timedelta(0))
    spans = [Span(charge.starts, charge.ends, charge.price_micros) for charge in charges]
    moves = [attempt for attempt in attempts if _is_move(attempt, by_id)]
    return Progress(
        restart=_restart(attempts) or usual,
        computed=computed,
        spent=from_micros(cost_micros(spans, now)),
        hourly=from_micros(sum(span.price_micros for span in spans if span.ends is None)),
        ran=_ran(live, moves, now),
        moves=len(moves),
        vain_moves=sum(attempt.reason == Ended.BOOT_FAILED for attempt in moves),
        live=live,
    )


def _computed(attempt: Attempt, resumes: bool, now: datetime) -> timedelta:
    """Of one that is over what its last checkpoint holds; of one that runs all, since it is told before it
    ends.
    """
    if attempt.running_at is None:
        return timedelta(0)
    if attempt.state is not AttemptState.ENDED:
        return max(timedelta(0), (attempt.draining_at or now) - attempt.running_at)
    if not resumes or attempt.checkpoint_at is None:
        return timedelta(0)
    return max(timedelta(0), attempt.checkpoint_at - attempt.running_at)


def _is_move(attempt: Attempt, by_id: Mapping[str, Attempt]) -> bool:
    """True for one planned while what it was to replace still ran."""
    before = by_id.get(attempt.replaces or "")
    if before is None:
        return False
    return before.draining_at is None or before.draining_at > attempt.planned_at


def _ran(live: Sequence[Attempt], moves: Sequence[Attempt], now: datetime) -> timedelta:
    running = [attempt.running_at for attempt in live if attempt.running_at is not None]
    if not running:
        return timedelta(0)
    vain = [attempt.ended_at for attempt in moves if attempt.ended_at is not None]
    return max(timedelta(0), now - max([*running, *vain]))


def _restart(attempts: Iterable[Attempt]) -> timedelta | None:
    """The median from the plan until the job ran; one that waited for another to end tells nothing."""
    took = [
        (attempt.running_at - attempt.planned_at).total_seconds()
        for attempt in attempts
        if attempt.running_at is not None and attempt.replaces is None
    ]
    return timedelta(seconds=median(took)) if took else None


def usual_restart(session: Session) -> timedelta:
    """How long starts took lately, whosever they were."""
    latest = session.exec(
        select(Attempt)
        .where(col(Attempt.running_at).is_not(None), col(Attempt.replaces).is_(None))
        .order_by(col(Attempt.planned_at).desc())
        .limit(LATEST)
    ).all()
    return _restart(latest) or USUAL_RESTART


def _resumes(job: Job) -> bool:
    return job.spec.get("checkpoint") is not None
