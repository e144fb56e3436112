"""The thread that brings the spool to the service, byte by byte where it left off."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable

from agent.backoff import Backoff
from agent.client import OverError, RefusedError, ServiceClient, ServiceError, UnavailableError
from agent.protocol import LOG_BATCH_BYTES
from agent.spool import Spool
from clock import Clock

_LOOK_SECONDS = 1.0

log = logging.getLogger(__name__)


class LogShipper:
    """Sends what the spool holds, in order, each byte at its offset, until told that it is enough.

    It remembers nothing: a restarted agent starts at 0, and the service says where it stands. over: called
    when the service says that this attempt is over.
    """

    def __init__(
        self,
        client: ServiceClient,
        spool: Spool,
        clock: Clock,
        chance: random.Random,
        epoch: int,
        over: Callable[[OverError], None],
    ) -> None:
        self._client = client
        self._spool = spool
        self._clock = clock
        self._backoff = Backoff(chance, ceiling=15.0)
        self._epoch = epoch
        self._over = over
        self._position = 0
        self._shift = 0  # the service's offset minus ours: more than 0 where a crash cut the spool short
        self._failing = False
        self._closed = threading.Event()
        self._wake = threading.Event()
        self._progress = threading.Event()
        self._thread = threading.Thread(target=self._run, name="logs", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Send nothing more after the batch under way."""
        self._closed.set()
        self._wake.set()

    def join(self, seconds: float) -> None:
        """Wait, in real seconds, for the batch that was under way."""
        if self._thread.is_alive():
            self._thread.join(seconds)

    @property
    def done(self) -> bool:
        """All that there is was taken, or no more is wanted."""
        return self._closed.is_set() or self._position >= self._spool.size

    def flush(self, seconds: float) -> bool:
        """Wait until all is taken: at most `seconds`, and no longer than until the service fails. True if it
        was.
        """
        until = self._clock.monotonic() + seconds
        self._failing = False
        self._wake.set()
        while not self.done and not self._failing and self._clock.monotonic() < until:
            self._clock.wait(self._progress, min(0.5, max(0.0, until - self._clock.monotonic())))
            self._progress.clear()
        return self.done

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                pause = self.step()
            except Exception:  # an answer that makes no sense must not end the log
                log.exception("logs")
                pause = self._failed()
            if pause:
                self._clock.wait(self._wake, pause)
                self._wake.clear()

    def step(self) -> float:
        """Send one batch; seconds until the next, 0 for at once."""
        data = self._spool.read(self._position, LOG_BATCH_BYTES)
        if not data:
            self._progress.set()
            return _LOOK_SECONDS
        try:
            answer = self._client.post_bytes(
                "/agent/v1/logs", data, epoch=self._epoch, offset=self._position + self._shift
            )
        except OverError as over:
            self.stop()
            self._over(over)
            return _LOOK_SECONDS
        except UnavailableError as error:
            return self._failed(error.retry_after)
        except RefusedError as error:
            return self._refused(error)
        except ServiceError as error:
            log.warning("logs: %s", error)
            return self._failed()
        self._backoff.reset()
        self._go_to(int(answer.body.get("next_offset", self._position + self._shift + len(data))))
        self._progress.set()
        return 0.0

    def _refused(self, error: RefusedError) -> float:
        if error.status == 409 and "next_offset" in error.body:
            before = self._position, self._shift
            self._go_to(int(error.body["next_offset"]))
            return 0.0 if (self._position, self._shift) != before else self._failed()
        if error.status == 413:
            log.warning("the service takes no more of this log: %s", error)
            self.stop()
            self._progress.set()
            return _LOOK_SECONDS
        log.warning("logs: %s", error)
        return self._failed()

    def _go_to(self, offset: int) -> None:
        end = self._spool.size
        position = offset - self._shift
        if not 0 <= position <= end:
            position = max(0, min(position, end))
            self._shift = offset - position
        self._position = position

    def _failed(self, retry_after: float | None = None) -> float:
        self._failing = True
        self._progress.set()
        return self._backoff.failed(retry_after)
