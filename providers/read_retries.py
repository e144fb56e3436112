"""Reads tried again where the fault is passing. Nothing that creates something goes through here."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from clock import Clock
from providers.errors import ErrorKind, ProviderError

if TYPE_CHECKING:
    from tenacity import RetryCallState

T = TypeVar("T")

ATTEMPTS = 5
REAL_SECONDS = 90  # sockets time out in real seconds, whatever the clock's factor
BACK_OFF_SECONDS, BACK_OFF_CEILING = 1.0, 20.0
PATIENCE_SECONDS = 60.0
"""The longest wait that a cloud may ask for (GCE refills by the minute); above it the caller is told."""

_PASSING = frozenset({ErrorKind.THROTTLED, ErrorKind.TRANSIENT})


def passing_fault(error: BaseException) -> float | None:
    """Seconds that the cloud asks to wait after an error, 0 where it says nothing; None where another try
    is pointless.
    """
    if isinstance(error, ProviderError) and error.kind in _PASSING:
        return error.retry_after or 0.0
    return None


class ReadRetries:
    """Calls a read until it succeeds, ATTEMPTS times at most, on the account's clock.

    Between two tries lies what the cloud asked for, else a random time below a limit that doubles ("full
    jitter", AWS Builders' Library, "Timeouts, retries and backoff with jitter"). `close` ends all waits.
    """

    def __init__(
        self,
        clock: Clock,
        chance: random.Random | None = None,
        passing: Callable[[BaseException], float | None] = passing_fault,
    ) -> None:
        self._clock = clock
        self._chance = chance or random.Random()  # noqa: S311  (it spreads retries, it guards nothing)
        self._passing = passing
        self._closing = threading.Event()

    def __call__(self, call: Callable[[], T]) -> T:
        """The call's answer. Its last error is raised as it is."""
        import tenacity

        retrying = tenacity.Retrying(
            stop=tenacity.stop_after_attempt(ATTEMPTS) | tenacity.stop_after_delay(REAL_SECONDS),
            wait=self._pause,
            retry=tenacity.retry_if_exception(self._worth_another),
            sleep=self._sleep,
            reraise=True,
        )
        return retrying(call)

    def close(self) -> None:
        """Let everyone who waits go on at once."""
        self._closing.set()

    def _worth_another(self, error: BaseException) -> bool:
        asked = self._passing(error)
        return asked is not None and asked <= PATIENCE_SECONDS and not self._closing.is_set()

    def _pause(self, state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = self._passing(error) if error else None
        if asked:
            return asked
        ceiling = min(BACK_OFF_CEILING, BACK_OFF_SECONDS * 2 ** (state.attempt_number - 1))
        return self._chance.uniform(0, ceiling)

    def _sleep(self, seconds: float) -> None:
        self._clock.wait(self._closing, seconds)
