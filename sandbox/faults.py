"""Scripted faults of the clouds' APIs: which call fails next, and how."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Literal

Action = Literal[
    "error",
    "throttle",
    "drop_reply",
    "delay",
    "hang",
    "empty_page",
    "unreachable",
    "state",
    "stuck",
    "lost",
]


@dataclass(frozen=True, slots=True)
class Fault:
    """What a face is to do to one call.

    error: answer with `code`, `http_status`, `message`. throttle: answer with the vendor's throttling
    error, `retry_after` seconds if given. drop_reply: close the connection without an answer. delay: wait
    `seconds` (of the sandbox's clock), then go on as usual. hang: never answer. empty_page: an empty page
    with a token for the next one. unreachable: leave out `value` (a zone) from an aggregated list and warn
    of it. state: show `value` as the instance's state, or as the reason why a Compute Engine region tells
    no quotas. stuck: the operation never ends. lost: the operation's handle is forgotten.

    effect: whether the call is carried out all the same, where the client cannot tell.
    """

    action: Action
    code: str = ""
    http_status: int = 500
    message: str = ""
    seconds: float = 0.0
    retry_after: float | None = None
    value: str = ""
    effect: bool = False


@dataclass(slots=True)
class FaultRule:
    """A fault and the calls that it is meant for. `call` and the values of `match` may use `*`.

    skip: so many matching calls go well first. times: so many fail then; None is all.
    """

    provider: str
    call: str
    fault: Fault
    match: dict[str, str]
    times: int | None = 1
    skip: int = 0

    def take(self, provider: str, call: str, params: Mapping[str, str]) -> bool:
        """Whether this call is to fail; counts it if it matches."""
        if self.times == 0 or provider != self.provider or not fnmatchcase(call, self.call):
            return False
        if not all(fnmatchcase(params.get(key, ""), value) for key, value in self.match.items()):
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        if self.times is not None:
            self.times -= 1
        return True


def flatten(value: Any, prefix: str = "") -> dict[str, str]:
    """A nested body as dotted keys, list indexes included, so that rules can match on it: `zones.0`."""
    if isinstance(value, Mapping):
        items = [(str(key), item) for key, item in value.items()]
    elif isinstance(value, list | tuple):
        items = [(str(index), item) for index, item in enumerate(value)]
    else:
        text = str(value).lower() if isinstance(value, bool) else str(value)
        return {prefix: text} if prefix else {}
    flat: dict[str, str] = {}
    for key, item in items:
        flat |= flatten(item, f"{prefix}.{key}" if prefix else key)
    return flat
