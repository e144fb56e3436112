"""The state machines, as tables: state → the states it may become, each with when that happens.

`service.transitions.move` is the only code that sets a state; the diagrams in the docs are made from these
tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeVar


class JobState(StrEnum):
    """What a user asked for."""

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class AttemptState(StrEnum):
    """One try to run a job on one offer."""

    PLANNED = "planned"
    LAUNCHING = "launching"
    BOOTING = "booting"
    RUNNING = "running"
    DRAINING = "draining"
    ENDED = "ended"


class InstanceState(StrEnum):
    """One VM. What the cloud says of it is a fact beside this, not this."""

    PLANNED = "planned"
    REQUESTED = "requested"
    UNCONFIRMED = "unconfirmed"
    PENDING = "pending"
    RUNNING = "running"
    TERMINATING = "terminating"
    TERMINATED = "terminated"


class QuotaRequestState(StrEnum):
    """A request for more of one quota. Whether what was granted is in effect is a fact beside this."""

    PROPOSED = "proposed"
    DRAFT = "draft"
    FILED = "filed"
    IN_REVIEW = "in_review"
    APPROVED = "approved"
    PARTLY_GRANTED = "partly_granted"
    DENIED = "denied"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"


class MessageState(StrEnum):
    """One notification to one channel."""

    WAITING = "waiting"
    SENDING = "sending"
    SENT = "sent"
    DEAD = "dead"


S = TypeVar("S", bound=StrEnum)
Table = Mapping[S, Mapping[S, str]]

JOB: Table[JobState] = {
    JobState.QUEUED: {
        JobState.STARTING: "an attempt was planned",
        JobState.FAILED: "no attempts are left, or waiting took too long",
        JobState.CANCELLED: "someone cancelled it while nothing ran",
    },
    JobState.STARTING: {
        JobState.RUNNING: "all nodes have started the job",
        JobState.QUEUED: "the attempt ended before the job ran",
        JobState.STOPPING: "someone cancelled it",
        JobState.FAILED: "the attempt ended and no more are allowed",
        JobState.SUCCEEDED: "the job ended well before its start was seen",
    },
    JobState.RUNNING: {
        JobState.STARTING: "the attempt was lost and its replacement is on its way",
        JobState.QUEUED: "the attempt was lost",
        JobState.STOPPING: "someone cancelled it, or a limit was reached",
        JobState.SUCCEEDED: "every node ended with exit code 0",
        JobState.FAILED: "a node failed and no more attempts are allowed",
    },
    JobState.STOPPING: {
        JobState.CANCELLED: "nothing of it runs any more",
        JobState.SUCCEEDED: "it had ended well before the stop reached it",
        JobState.FAILED: "it was stopped by a limit",
    },
    JobState.SUCCEEDED: {},
    JobState.FAILED: {},
    JobState.CANCELLED: {},
}

ATTEMPT: Table[AttemptState] = {
    AttemptState.PLANNED: {
        AttemptState.LAUNCHING: "the exact request is committed, about to be sent",
        AttemptState.ENDED: "called off before it was sent, or it cannot be sent",
    },
    AttemptState.LAUNCHING: {
        AttemptState.BOOTING: "the cloud accepted it, or what its token made was found",
        AttemptState.ENDED: "refused, or proved to have made nothing",
    },
    AttemptState.BOOTING: {
        AttemptState.RUNNING: "all nodes have started the job",
        AttemptState.DRAINING: "a notice came before the job ran",
        AttemptState.ENDED: "refused late, lost, or not ready in time",
    },
    AttemptState.RUNNING: {
        AttemptState.DRAINING: "notice, cancellation or limit: the job is told and may checkpoint",
        AttemptState.ENDED: "the job ended, or its instances are gone",
    },
    AttemptState.DRAINING: {
        AttemptState.ENDED: "every node reported its end, or its time has passed",
    },
    AttemptState.ENDED: {},
}

INSTANCE: Table[InstanceState] = {
    InstanceState.PLANNED: {
        InstanceState.REQUESTED: "the launch is about to be sent",
        InstanceState.TERMINATED: "it was never asked for",
    },
    InstanceState.REQUESTED: {
        InstanceState.UNCONFIRMED: "the answer was lost; it may exist",
        InstanceState.PENDING: "the cloud accepted it",
        InstanceState.RUNNING: "the cloud shows it running",
        InstanceState.TERMINATING: "no longer wanted",
        InstanceState.TERMINATED: "the cloud refused it",
    },
    InstanceState.UNCONFIRMED: {
        InstanceState.PENDING: "found by its token",
        InstanceState.RUNNING: "found by its token, running",
        InstanceState.TERMINATING: "found or not, no longer wanted",
        InstanceState.TERMINATED: "complete listings have shown nothing for the cloud's consistency window",
    },
    InstanceState.PENDING: {
        InstanceState.RUNNING: "the cloud shows it running, or its agent spoke",
        InstanceState.TERMINATING: "no longer wanted",
        InstanceState.TERMINATED: "the cloud says it is over",
    },
    InstanceState.RUNNING: {
        InstanceState.TERMINATING: "no longer wanted",
        InstanceState.TERMINATED: "the cloud says it is over",
    },
    InstanceState.TERMINATING: {
        InstanceState.TERMINATED: "the cloud says it is over, or knows no such instance after the window",
    },
    InstanceState.TERMINATED: {},
}

_DECISIONS: Mapping[QuotaRequestState, str] = {
    QuotaRequestState.APPROVED: "the cloud granted all of it, or the limit is seen to be that high",
    QuotaRequestState.PARTLY_GRANTED: "the cloud granted less, or the limit rose to less",
    QuotaRequestState.DENIED: "the cloud denied it, or closed it and the limit did not move",
}

QUOTA_REQUEST: Table[QuotaRequestState] = {
    QuotaRequestState.PROPOSED: {
        QuotaRequestState.DRAFT: "someone approved it",
        QuotaRequestState.WITHDRAWN: "someone turned it down, or it is no longer needed",
        QuotaRequestState.EXPIRED: "nobody decided in time",
    },
    QuotaRequestState.DRAFT: {
        QuotaRequestState.FILED: "the cloud has it",
        QuotaRequestState.IN_REVIEW: "the cloud has it and looks at it",
        **_DECISIONS,
        QuotaRequestState.WITHDRAWN: "taken back before it was sent, not needed, or not taken by the cloud",
    },
    QuotaRequestState.FILED: {
        QuotaRequestState.IN_REVIEW: "the cloud looks at it",
        **_DECISIONS,
        QuotaRequestState.EXPIRED: "the cloud no longer shows it and the limit did not move",
    },
    QuotaRequestState.IN_REVIEW: {
        **_DECISIONS,
        QuotaRequestState.EXPIRED: "the cloud no longer shows it and the limit did not move",
    },
    QuotaRequestState.APPROVED: {
        QuotaRequestState.PARTLY_GRANTED: "the limit stayed below what the cloud had granted",
    },
    QuotaRequestState.PARTLY_GRANTED: {},
    QuotaRequestState.DENIED: {
        QuotaRequestState.APPROVED: "the limit rose to all of it after all",
        QuotaRequestState.PARTLY_GRANTED: "the limit rose after all",
    },
    QuotaRequestState.EXPIRED: {},
    QuotaRequestState.WITHDRAWN: {},
}

MESSAGE: Table[MessageState] = {
    MessageState.WAITING: {
        MessageState.SENDING: "its channel is free, about to be sent",
        MessageState.DEAD: "its channel is no longer in the settings",
    },
    MessageState.SENDING: {
        MessageState.SENT: "the receiver has it",
        MessageState.WAITING: "refused for now, or no answer came",
        MessageState.DEAD: "refused for good, or too often",
    },
    MessageState.DEAD: {
        MessageState.WAITING: "someone had it sent again",
    },
    MessageState.SENT: {},
}

MACHINES: Mapping[
    str,
    Table[JobState]
    | Table[AttemptState]
    | Table[InstanceState]
    | Table[QuotaRequestState]
    | Table[MessageState],
] = {
    "job": JOB,
    "attempt": ATTEMPT,
    "instance": INSTANCE,
    "quota request": QUOTA_REQUEST,
    "message": MESSAGE,
}

JOB_OVER = frozenset(state for state, nexts in JOB.items() if not nexts)
REQUEST_AT_CLOUD = frozenset({QuotaRequestState.FILED, QuotaRequestState.IN_REVIEW})
REQUEST_OPEN = REQUEST_AT_CLOUD | {QuotaRequestState.PROPOSED, QuotaRequestState.DRAFT}
REQUEST_DECIDED = frozenset(_DECISIONS)
INSTANCE_LIVE = frozenset(InstanceState) - {InstanceState.TERMINATED}


def allowed(table: Table[S], now: S, to: S) -> bool:
    """True if the table has the edge."""
    return to in table[now]
