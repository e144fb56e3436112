"""Where calls to clouds run: a bounded pool per place, so that one that hangs holds up nobody else."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait

import structlog

from service.context import Place

log = structlog.get_logger(__name__)


class Pools:
    """Implements `service.context.Submit`. Threads are started on first use and kept."""

    def __init__(self, sizes: Mapping[tuple[str, str], int]) -> None:
        self._sizes = dict(sizes)
        self._lock = threading.Lock()
        self._pools: dict[Place, ThreadPoolExecutor] = {}
        self._open: set[Future[None]] = set()
        self._closed = False

    def resize(self, sizes: Mapping[tuple[str, str], int]) -> None:
        """Sizes for pools that are yet to be made."""
        self._sizes = dict(sizes)

    def __call__(self, place: Place, call: Callable[[], None]) -> None:
        with self._lock:
            if self._closed:
                return
            pool = self._pools.get(place)
            if pool is None:
                size = self._sizes.get((place[0], place[1]), 4)
                pool = ThreadPoolExecutor(size, thread_name_prefix="/".join(place))
                self._pools[place] = pool
            future = pool.submit(_guarded, place, call)
            self._open.add(future)
        future.add_done_callback(self._done)

    def close(self, seconds: float) -> int:
        """Take nothing more, wait up to `seconds` (real) for what runs; how many calls are still out."""
        with self._lock:
            self._closed = True
            pools = list(self._pools.values())
        for pool in pools:
            pool.shutdown(wait=False, cancel_futures=True)
        with self._lock:  # only now: what had not begun is no longer among them
            running = set(self._open)
        return len(wait(running, timeout=seconds).not_done)

    def _done(self, future: Future[None]) -> None:
        with self._lock:
            self._open.discard(future)


def _guarded(place: Place, call: Callable[[], None]) -> None:
    """A fault of ours in one call is logged; the row's claim runs out and it is tried again."""
    try:
        call()
    except Exception:
        log.exception("call_failed", place="/".join(place))
