"""What the routes share: the context, the settings' holder, the loops, and the threads that do slow work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol, TypeVar

from fastapi import Depends, Request
from sqlmodel import Session

from service.api.metrics import HttpMetrics
from service.configuration import Configuration
from service.context import Context
from service.projects.tokens import Caller
from service.storage import Store

T = TypeVar("T")

SQLITE_THREADS = 1  # more would only fight for the lock and the interpreter
POSTGRES_THREADS = 4
STORE_THREADS = 4
CALLER_KEPT = 1.0  # seconds: how long a token's row is believed without looking again


class LoopsView(Protocol):
    """What the API needs of the loops."""

    @property
    def stopping(self) -> bool:
        """True once no new launch may be sent."""

    def status(self) -> Mapping[str, Mapping[str, Any]]:
        """Per loop: `last_run` (when it last ran well) and `last_error`."""


@dataclass
class Api:
    """One per application. `closing` is set when streams should end."""

    ctx: Context
    configuration: Configuration
    loops: LoopsView
    store: Store
    metrics: HttpMetrics
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    callers: dict[str, tuple[float, Caller]] = field(default_factory=dict)
    streams: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        threads = SQLITE_THREADS if self.ctx.database.is_sqlite else POSTGRES_THREADS
        self._database_threads = ThreadPoolExecutor(threads, thread_name_prefix="database")
        self._store_threads = ThreadPoolExecutor(STORE_THREADS, thread_name_prefix="store")

    async def read(self, work: Callable[[Session], T]) -> T:
        """Run a read on the database's own thread."""
        return await self._run(self._database_threads, self.ctx.database.read, work)

    async def write(self, work: Callable[[Session], T]) -> T:
        """Run a transaction on the database's own thread; committed when this returns."""
        return await self._run(self._database_threads, self.ctx.database.write, work)

    async def aside(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run something that waits for the store, or computes for long, on a thread."""
        return await self._run(self._store_threads, work, *arguments)

    async def _run(self, pool: ThreadPoolExecutor, work: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(pool, work, *arguments)

    def close(self) -> None:
        """Let the threads go."""
        self._database_threads.shutdown(wait=False, cancel_futures=True)
        self._store_threads.shutdown(wait=False, cancel_futures=True)


async def current_api(request: Request) -> Api:
    """The application's shared state."""
    api: Api = request.app.state.api
    return api


CurrentApi = Annotated[Api, Depends(current_api)]
