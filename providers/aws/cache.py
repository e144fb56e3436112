"""What a region sells changes by the day; asking each time would cost the account's rate limit."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from clock import Clock

K = TypeVar("K")
V = TypeVar("V")


class Cache(Generic[K, V]):
    """Values by key, good for `seconds` of the clock. One thread loads a key while others wait for it; a load
    that raises stores nothing.
    """

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._clock = clock
        self._seconds = seconds
        self._values: dict[K, tuple[float, V]] = {}
        self._loading: dict[K, threading.Lock] = {}
        self._lock = threading.Lock()

    def get(self, key: K, load: Callable[[], V]) -> V:
        """The value of a key, loaded if there is none or it is too old."""
        with self._lock:
            loading = self._loading.setdefault(key, threading.Lock())
        with loading:
            held = self._values.get(key)
            if held is not None and self._clock.monotonic() < held[0]:
                return held[1]
            value = load()
            self._values[key] = (self._clock.monotonic() + self._seconds, value)
            return value
