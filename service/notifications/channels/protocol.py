"""What every channel does: take a message to its receiver, and say how that went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from service.notifications.content import Content

TIMEOUT = 10.0
"""Seconds (real) for a connection, and for each answer."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """A message on its way. `uncertain`: it was sent before and may have arrived. `receipt`: what is known of
    that. `thread`: the receipt of the first message about its subject, if there was one.
    """

    content: Content
    deployment: str
    uncertain: bool = False
    receipt: Mapping[str, Any] = field(default_factory=dict)
    thread: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Sent:
    """The receiver has it. `thread`: what the next message about the subject needs to follow on."""

    receipt: Mapping[str, Any] = field(default_factory=dict)
    thread: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """It did not get there, or nobody knows (`uncertain`). `reason` is for people and names no secret.

    retry_after: seconds that the receiver asked us to wait. final: this message is refused and will be again;
    what is wrong with the channel itself is never final, for it can be mended. receipt: how far it got.
    """

    reason: str
    retry_after: float | None = None
    final: bool = False
    uncertain: bool = False
    receipt: Mapping[str, Any] = field(default_factory=dict)


class Sender(Protocol):
    """One channel, ready to send. Raises nothing."""

    def send(self, parcel: Parcel) -> Sent | Refused: ...
