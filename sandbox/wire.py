"""What the faces' HTTP has in common: latency, scripted faults, and a connection that is cut."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from sandbox.faults import Fault
from sandbox.world import World

_CUT = "corral.cut"
_LOOK_EVERY = 0.02  # real seconds

#: Faults that change how a call is answered on the wire; the others are the face's own business.
_ON_THE_WIRE = frozenset({"error", "throttle", "drop_reply", "delay", "hang"})


class CuttableProtocol(HttpToolsProtocol):
    """HTTP whose application may cut the connection without an answer."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        extensions: dict[Any, Any] = {_CUT: self.transport.abort}
        self.scope["extensions"] = extensions


class NoReply(Response):
    """No answer: the connection is reset."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["extensions"][_CUT]()


async def answer(
    world: World,
    provider: str,
    call: str,
    params: Mapping[str, str],
    request: Request,
    act: Callable[[Fault | None], Response],
    refuse: Callable[[Fault], Response],
) -> Response:
    """Answer one API call as the scenario wants it.

    call and params: what fault rules match on. act: does it and answers (run in a thread); it is given the
    faults that only the face can play (empty_page, unreachable, state, stuck, lost). refuse: spells an error
    or throttle fault in the vendor's words.
    """
    fault = world.fault(provider, call, params)
    await _pass_time(world, world.timings(provider).api_latency_seconds)
    if fault is None or fault.action not in _ON_THE_WIRE:
        return await run_in_threadpool(act, fault)
    if fault.action == "delay":
        await _pass_time(world, fault.seconds)
        return await run_in_threadpool(act, None)
    if fault.effect:
        await run_in_threadpool(act, None)
    if fault.action == "hang":
        while not (world.closing.is_set() or await request.is_disconnected()):
            await asyncio.sleep(_LOOK_EVERY)
    if fault.action in ("hang", "drop_reply"):
        return NoReply()
    return refuse(fault)


async def _pass_time(world: World, seconds: float) -> None:
    if seconds > 0:
        await run_in_threadpool(world.clock.wait, world.closing, seconds)
