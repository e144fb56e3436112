"""Reads are tried three times where the fault is passing. Nothing that creates goes through here."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from clock import Clock

T = TypeVar("T")

TRIES = 3
PATIENCE_SECONDS = 10.0  # the longest wait that a cloud may ask for; above it the caller is told instead


def again(call: Callable[[], T], passing: Callable[[BaseException], float | None], clock: Clock) -> T:
    """Call until it succeeds. `passing` says how long the cloud asks to wait after an error, 0 where it says
    nothing, None where another try is pointless.
    """
    import tenacity

    pause = tenacity.wait_exponential(multiplier=0.5, max=4)

    def seconds(state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        asked = passing(error) if error else None
        return asked or float(pause(state))

    def worth(error: BaseException) -> bool:
        asked = passing(error)
        return asked is not None and asked <= PATIENCE_SECONDS

    def sleep(wait: float) -> None:
        clock.wait(threading.Event(), wait)

    retrying = tenacity.Retrying(
        stop=tenacity.stop_after_attempt(TRIES),
        retry=tenacity.retry_if_exception(worth),
        wait=seconds,
        sleep=sleep,
        reraise=True,
    )
    return retrying(call)
