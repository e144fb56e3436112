"""Machines that were still starting when they were read last. Azure allows each to be read 12 times a minute
(Azure documentation, "Compute throttling limits"), which whoever waits for one would like to exceed.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from clock import Clock
from providers.vocabulary import CloudInstance, InstanceState

GOOD_FOR = 4.9  # seconds
LIMIT = 4096  # machines; the oldest are forgotten first


class Starting:
    """What was seen of them, while it is good. Thread-safe."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._seen: OrderedDict[str, tuple[float, CloudInstance]] = OrderedDict()

    def known(self, name: str) -> CloudInstance | None:
        """What was read of it a moment ago; None if it must be asked for."""
        with self._lock:
            at, one = self._seen.get(name, (-GOOD_FOR, None))
            return one if self._clock.monotonic() - at < GOOD_FOR else None

    def note(self, one: CloudInstance) -> CloudInstance:
        """Keep what was read, as long as the machine has not come up."""
        with self._lock:
            self._seen.pop(one.provider_id, None)
            if one.state is InstanceState.PENDING:
                self._seen[one.provider_id] = (self._clock.monotonic(), one)
                if len(self._seen) > LIMIT:
                    self._seen.popitem(last=False)
        return one
