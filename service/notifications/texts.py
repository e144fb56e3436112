"""What messages say, topic by topic: jinja2 templates as data.

Values: `event` (its data), `job` (id, name, state, priority, project; None where it is about none),
`subject_id`, `project`. What happened is the event's own sentence; here stands what it is about, what the
service did about it, what the reader can do, and the command that shows more.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Text:
    """`many` is the topic in words, for messages about several events: `12 × job preempted`."""

    many: str
    title: str
    did: str
    can: str
    command: str


_JOB = "corral explain {{ job.id }}"
_QUOTA = "corral quota show {{ subject_id }}"
_NOTHING = "Nothing needs to be done."

TEXTS: Mapping[str, Text] = {
    "quota_request_proposed": Text(
        "quota request proposed",
        "Approve a quota request?",
        "The request is written down and not filed.",
        "Approve or deny it; jobs that need it wait until then.",
        _QUOTA,
    ),
    "quota_request_draft": Text(
        "quota request approved by a person",
        "Quota request goes out",
        "It is filed with the provider now.",
        _NOTHING,
        _QUOTA,
    ),
    "quota_request_found": Text(
        "quota request found",
        "A quota request that was filed by hand",
        "It is followed like our own.",
        _NOTHING,
        _QUOTA,
    ),
    "quota_request_filed": Text(
        "quota request filed",
        "Quota request filed",
        "The request is with the provider; its answer is asked for again and again.",
        _NOTHING,
        _QUOTA,
    ),
    "quota_request_approved": Text(
        "quota request approved",
        "Quota request approved",
        "The limit is watched; jobs that wait for it are placed as soon as it has moved.",
        _NOTHING,
        _QUOTA,
    ),
    "quota_request_partly_granted": Text(
        "quota request partly granted",
        "Quota request granted in part",
        "Jobs are placed as far as the new limit reaches.",
        "Ask again for the rest, or let other accounts and regions serve it.",
        _QUOTA,
    ),
    "quota_request_denied": Text(
        "quota request denied",
        "Quota request denied",
        "Nothing is filed again before the time that the settings give.",
        "Ask the provider's account team, or let other accounts and regions serve it.",
        _QUOTA,
    ),
    "quota_request_effective": Text(
        "new limit in effect",
        "A new limit is in effect",
        "What the old limit blocked is tried again, the highest priority first.",
        _NOTHING,
        _QUOTA,
    ),
    "quota_request_expired": Text(
        "quota request expired",
        "Quota request expired",
        "It is no longer followed.",
        "File it again if it is still needed.",
        _QUOTA,
    ),
    "quota_request_withdrawn": Text(
        "quota request withdrawn",
        "Quota request withdrawn",
        "It is no longer followed.",
        _NOTHING,
        _QUOTA,
    ),
    "quota_request_withheld": Text(
        "quota request withheld",
        "{{ job.name }} waits on a quota that a rule may not ask for",
        "The rule is at its limit; nothing is filed.",
        "Ask yourself with corral quota request, or raise the rule's max_gpus.",
        _JOB,
    ),
    "job_started": Text(
        "job started",
        "{{ job.name }} runs",
        "It is watched, and carried over if its place is lost.",
        _NOTHING,
        "corral logs {{ job.id }}",
    ),
    "job_preempted": Text(
        "job preempted",
        "{{ job.name }} was preempted",
        "It was told to checkpoint where there was time; a replacement is looked for elsewhere.",
        _NOTHING,
        _JOB,
    ),
    "job_failed_over": Text(
        "job failed over",
        "{{ job.name }} runs again",
        "It was carried over to another place.",
        _NOTHING,
        _JOB,
    ),
    "job_succeeded": Text(
        "job succeeded",
        "{{ job.name }} is done",
        "Its instances are ended.",
        _NOTHING,
        "corral logs {{ job.id }}",
    ),
    "job_failed": Text(
        "job failed",
        "{{ job.name }} failed",
        "Its instances are ended; it is not tried again.",
        "Read its log, then submit it again.",
        "corral logs {{ job.id }}",
    ),
    "job_cancelled": Text(
        "job cancelled",
        "{{ job.name }} was cancelled",
        "Its instances are ended.",
        _NOTHING,
        _JOB,
    ),
    "job_waiting_long": Text(
        "job waiting long",
        "{{ job.name }} still waits",
        "Every offer that fits is tried again as soon as it may have room.",
        "See what would help: another GPU, region or price, or more quota.",
        _JOB,
    ),
    "deadline_at_risk": Text(
        "deadline at risk",
        "{{ job.name if job else subject_id }} may miss its deadline",
        "It goes on within its limits.",
        "Allow more money or more time, or accept the risk.",
        _JOB,
    ),
    "stock_back": Text(
        "stock back",
        "Stock is back",
        "Jobs that wait are tried there.",
        _NOTHING,
        "corral offers",
    ),
    "budget_80": Text(
        "budget at 80 %",
        "80 % of a budget is spent",
        "Nothing is stopped yet.",
        "Raise the budget, or end what is not needed.",
        "corral ps",
    ),
    "budget_100": Text(
        "budget spent",
        "A budget is spent",
        "What the budget's rule says is done; nothing new is started on it.",
        "Raise the budget, or wait for its next period.",
        "corral ps",
    ),
    "orphan_found": Text(
        "orphan found",
        "An instance that belongs to no job",
        "It is watched for five minutes and ended unless its agent speaks to us.",
        "Keep it with the command, if it is meant to be there.",
        "corral instance adopt {{ subject_id }}",
    ),
    "orphan_quarantined": Text(
        "orphan quarantined",
        "An unknown instance that works: your decision",
        "It is left alone and costs money.",
        "End it or keep it: corral instance end|adopt {{ subject_id }}",
        "corral instances",
    ),
    "credentials_failing": Text(
        "credentials failing",
        "Credentials of {{ subject_id }} are refused",
        "Nothing new is started there; what runs there can be neither seen nor ended until they work again.",
        "Renew the credentials that the settings refer to.",
        "corral check",
    ),
    "credentials_working": Text(
        "credentials working",
        "Credentials of {{ subject_id }} work again",
        "The account is used again.",
        _NOTHING,
        "corral check",
    ),
    "instance_unhealthy": Text(
        "instance unhealthy",
        "An instance does not answer or is not well",
        "Its cloud is asked. The job is left alone as long as the cloud calls the instance running.",
        "Nothing yet; it is given up by itself after the time in the settings.",
        "corral instances",
    ),
    "instance_will_not_end": Text(
        "instance will not end",
        "An instance does not end",
        "Its end is sent again and again.",
        "End it in the cloud's console: it may cost money.",
        "corral instances",
    ),
    "channel_test": Text(
        "test",
        "A test of this channel",
        "Someone asked for it.",
        _NOTHING,
        "corral notifications ls",
    ),
}
