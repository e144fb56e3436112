"""Why an instance ended, from its StateReason.

The code that tells is often the beginning of the message: Code `Server.InternalError`, Message
`Client.VolumeLimitExceeded: ...`. [EC2 User Guide, "Troubleshoot instance launch issues"]
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import timedelta

from providers.aws.error_table import BY_CODE, About, Rule
from providers.aws.errors import error_from_rule, from_response
from providers.errors import ErrorKind, ProviderError
from providers.vocabulary import EndReason, Scope

_PREFIX = re.compile(r"\s*((?:Client|Server)\.[A-Za-z][A-Za-z.]*[A-Za-z])\b")


@dataclass(frozen=True, slots=True)
class Ending:
    """What a code says. `rule` None: nothing failed that a launch would have raised. A rule with a hint holds
    only where the message has it: the same code also ends instances that have run for days.
    """

    reason: EndReason
    rule: Rule | None = None


ENDINGS: dict[str, Ending] = {
    "Server.SpotInstanceTermination": Ending(EndReason.PREEMPTED),
    "Server.SpotInstanceShutdown": Ending(EndReason.PREEMPTED),
    "Server.ScheduledStop": Ending(EndReason.HOST_FAILURE),
    "Server.InternalError": Ending(
        EndReason.HOST_FAILURE, Rule((), ErrorKind.TRANSIENT, About.OFFER, timedelta(minutes=2), "on launch")
    ),
    # Usually no right to use the key that encrypts the disk: the next launch ends the same way.
    "Client.InternalError": Ending(
        EndReason.UNKNOWN, Rule((), ErrorKind.AUTH, About.REGION, timedelta(minutes=30))
    ),
    "Client.UserInitiatedShutdown": Ending(EndReason.USER),
    "Client.InstanceInitiatedShutdown": Ending(EndReason.USER),
    "Client.InstanceTerminated": Ending(EndReason.USER),
    "Client.UserInitiatedHibernate": Ending(EndReason.USER),
}


def read_ending(code: str, message: str, subject: Scope) -> tuple[EndReason, ProviderError | None]:
    """The reason, and what a refusal at launch would have raised if this was one in disguise."""
    prefix = _PREFIX.match(message)
    told = prefix.group(1) if prefix else code
    ending = ENDINGS.get(told)
    if ending is not None:
        if ending.rule is None or ending.rule.hint not in message.lower():
            return ending.reason, None
        return ending.reason, error_from_rule(ending.rule, told, message, subject)
    if told.removeprefix("Client.").removeprefix("Server.") not in BY_CODE:
        return EndReason.UNKNOWN, None
    error = from_response(told, message, subject)
    return (EndReason.CAPACITY if error.kind is ErrorKind.CAPACITY else EndReason.UNKNOWN), error
