"""Which names this process has had accepted and which it has ended. Azure forgets a machine that is gone, and
would make another under the same name; a token must not.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TypeVar

from clock import Clock

V = TypeVar("V")

LIMIT = 20_000  # names; the oldest are forgotten first


class Remembered:
    """Bounded and thread-safe; a restart empties it, and then the service looks before it sends again.

    window: seconds for which Azure may deny a machine that it has accepted.
    """

    def __init__(self, clock: Clock, window: float) -> None:
        self._clock = clock
        self._window = window
        self._lock = threading.Lock()
        self._accepted: OrderedDict[str, float] = OrderedDict()
        self._ended: OrderedDict[str, bool] = OrderedDict()

    def accept(self, name: str) -> None:
        """Azure has said yes to this name; the first time counts."""
        with self._lock:
            _keep(self._accepted, name, self._accepted.get(name, self._clock.monotonic()))

    def end(self, name: str, *, existed: bool) -> None:
        """We have asked for its end; `existed`: Azure knew it then."""
        with self._lock:
            _keep(self._ended, name, existed or self._ended.get(name, False))

    def knows(self, name: str) -> bool:
        """Whether anything ever bore the name, as far as this process knows."""
        with self._lock:
            return name in self._accepted or name in self._ended

    def just_accepted(self, name: str) -> bool:
        """Whether a read that shows nothing may only be too early."""
        with self._lock:
            at = self._accepted.get(name)
            return name not in self._ended and at is not None and self._clock.monotonic() - at < self._window

    def ended(self, name: str) -> bool:
        """Whether we ended it ourselves, as far as this process knows."""
        with self._lock:
            return name in self._ended

    def is_over(self, name: str) -> bool:
        """Whether a read that shows nothing is proof: it was there when we asked for its end."""
        with self._lock:
            return self._ended.get(name, False)


def _keep(names: OrderedDict[str, V], name: str, value: V) -> None:
    names[name] = value
    names.move_to_end(name)
    while len(names) > LIMIT:
        names.popitem(last=False)
