"""A job's output over HTTP: the last lines, the whole, or as it comes (server-sent events)."""

from __future__ import annotations

import asyncio
import codecs
import re
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from sqlmodel import Session, col, select
from starlette.responses import Response, StreamingResponse

from service.api.authentication import CurrentCaller, authenticate
from service.api.problems import Problem, invalid, not_found
from service.api.state import Api, CurrentApi
from service.attempts.model import Attempt
from service.jobs.model import Job
from service.jobs.repository import find_job
from service.logs.read import PIECE, Log, find_log, read_from, tail_offset
from service.projects.masking import redactor_of
from service.projects.redaction import Redactor

router = APIRouter(tags=["jobs"])

POLL = 0.5  # real seconds between two looks for more
KEEP_ALIVE = 15.0  # real seconds after which a silent stream shows that it lives
LONGEST = 3600.0  # real seconds; the client comes back with Last-Event-ID
_TEXT = "text/plain; charset=utf-8"
LAST_ATTEMPT = 2**31 - 1
_PLACE = re.compile(r"([0-9]{1,9}):([0-9]{1,18})")


@router.get(
    "/jobs/{job_id}/logs",
    summary="A job's output",
    response_class=Response,
    responses={
        200: {"content": {"text/plain": {}, "text/event-stream": {}}},
        410: {"description": "the log is past its retention"},
        429: {"description": "too many streams are open"},
    },
)
async def logs(
    request: Request,
    api: CurrentApi,
    caller: CurrentCaller,
    job_id: str,
    rank: Annotated[int, Query(ge=0, le=1023, description="Which node.")] = 0,
    attempt: Annotated[
        int | None, Query(ge=1, le=LAST_ATTEMPT, description="Which attempt; by default the last.")
    ] = None,
    tail: Annotated[int | None, Query(ge=0, le=100_000, description="Only the last lines.")] = None,
    follow: Annotated[bool, Query(description="Go on as more comes, as server-sent events.")] = False,
    last_event_id: Annotated[str | None, Header(alias="Last-Event-ID")] = None,
) -> Response:
    """The bytes as the job wrote them; known secrets are masked. With `follow` each event carries text (bytes
    that are no UTF-8 are replaced) and has as its id `ATTEMPT:OFFSET`; sent back as Last-Event-ID the stream
    goes on there. When another attempt takes over, its log follows after an `attempt` event; `end` is the
    last event of a job that is over.
    """

    def find(session: Session) -> tuple[str, Attempt | None, Redactor]:
        job = find_job(session, caller, job_id)
        chosen = _attempt(session, job["id"], attempt)
        if attempt is not None and chosen is None:
            raise not_found("attempt")
        return job["id"], chosen, redactor_of(session, api.ctx.secret_keys, job["project_id"])

    found, chosen, redactor = await api.read(find)
    if follow:
        place = _place(last_event_id)
        streamer = _Follower(api, request, found, rank, redactor, attempt, place)
        return await streamer.response(caller.token_id, chosen, tail)
    if chosen is None:
        return Response(b"", media_type=_TEXT)
    attempt_id = chosen.id
    log = await api.read(lambda session: find_log(session, attempt_id, rank))
    start = await api.aside(tail_offset, api.store, log, tail) if tail is not None else 0
    first = await api.aside(read_from, api.store, log, start, redactor)
    headers = {"Corral-Attempt": str(chosen.number), "Corral-Offset": str(start)}
    return StreamingResponse(_pieces(api, log, start, first, redactor), media_type=_TEXT, headers=headers)


async def _pieces(api: Api, log: Log, start: int, data: bytes, redactor: Redactor) -> AsyncIterator[bytes]:
    while data:
        yield data
        start += len(data)
        data = await api.aside(read_from, api.store, log, start, redactor)


def _attempt(session: Session, job_id: str, number: int | None) -> Attempt | None:
    """The attempt of that number; by default the last one that ran, else the last."""
    statement = select(Attempt).where(col(Attempt.job_id) == job_id)
    if number is not None:
        return session.exec(statement.where(col(Attempt.number) == number)).first()
    newest = statement.order_by(col(Attempt.number).desc()).limit(1)
    ran = newest.where(col(Attempt.running_at).is_not(None))
    return session.exec(ran).first() or session.exec(newest).first()


def _place(last_event_id: str | None) -> tuple[int, int] | None:
    if not last_event_id:
        return None
    found = _PLACE.fullmatch(last_event_id)
    if found is None:
        raise invalid("Last-Event-ID", "is not an id of this stream")
    return int(found[1]), int(found[2])


class _Follower:
    """One open stream. While it waits it holds no thread and no connection to the database."""

    def __init__(
        self,
        api: Api,
        request: Request,
        job_id: str,
        rank: int,
        redactor: Redactor,
        only: int | None,
        place: tuple[int, int] | None,
    ) -> None:
        self.api, self.request, self.job_id, self.rank = api, request, job_id, rank
        self.redactor, self.only, self.place = redactor, only, place
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")

    async def response(self, token_id: str, chosen: Attempt | None, tail: int | None) -> Response:
        """Start the stream. Problem 429 if too many are open."""
        limits, streams = self.api.ctx.settings.limits, self.api.streams
        if sum(streams.values()) >= limits.streams or streams.get(token_id, 0) >= limits.streams_per_token:
            raise Problem(429, "too many log streams are open", headers={"Retry-After": "10"})
        number, offset = self.place or (chosen.number if chosen else 0, 0)
        if self.place is None and tail is not None and chosen is not None:
            attempt_id = chosen.id
            log = await self.api.read(lambda session: find_log(session, attempt_id, self.rank))
            offset = await self.api.aside(tail_offset, self.api.store, log, tail)
        stream = self._counted(token_id, number, offset)
        return StreamingResponse(stream, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})

    async def _counted(self, token_id: str, number: int, offset: int) -> AsyncIterator[bytes]:
        streams = self.api.streams
        streams[token_id] = streams.get(token_id, 0) + 1
        try:
            async for event in self._events(number, offset):
                yield event
        finally:
            streams[token_id] -= 1
            if not streams[token_id]:
                del streams[token_id]

    async def _events(self, number: int, offset: int) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        started = shown = loop.time()
        while loop.time() - started < LONGEST and not self.api.closing.is_set():
            job_over, current, log = await self.api.read(partial(self._look, number, offset))
            if current is not None and current.number != number:
                number, offset = current.number, 0
                self.decoder.reset()
                yield format_sse_event(event="attempt", data_str=str(number), id=f"{number}:0")
                continue
            data = await self.api.aside(read_from, self.api.store, log, offset, self.redactor) if log else b""
            if data:
                offset += len(data)
                shown = loop.time()
                if text := self.decoder.decode(data):
                    yield format_sse_event(data_str=text, id=f"{number}:{offset}")
                if len(data) == PIECE:
                    continue
            elif job_over:
                yield format_sse_event(event="end", data_str=job_over, id=f"{number}:{offset}")
                return
            if loop.time() - shown >= KEEP_ALIVE:
                shown = loop.time()
                yield KEEPALIVE_COMMENT
            await self._pause()
            if not await self._still_allowed():
                return
        yield format_sse_event(retry=1000, comment="come back with Last-Event-ID")

    def _look(self, number: int, offset: int, session: Session) -> tuple[str, Attempt | None, Log | None]:
        """How the job ended (empty while it has not), the attempt to read now, and its log from `offset`."""
        job = session.get_one(Job, self.job_id)
        over = str(job.state) if job.ended_at is not None else ""
        current = _attempt(session, self.job_id, self.only or (number or None))
        before = max(0, offset - self.redactor.reach)  # a value may begin in what was shown already
        log = find_log(session, current.id, self.rank, before) if current else None
        if self.only is not None:
            return over or ("ended" if log and log.over else ""), current, log
        newest = _attempt(session, self.job_id, None)
        read_to_its_end = log is None or (log.over and log.end <= offset)
        if newest is not None and newest.number > number and read_to_its_end:
            return over, newest, None
        return over, current, log

    async def _still_allowed(self) -> bool:
        """False once the token was revoked or has expired: a stream may outlast it by a moment only."""
        try:
            await authenticate(self.api, self.request.headers.get("authorization"))
        except Problem:
            return False
        return True

    async def _pause(self) -> None:
        """Wait a moment, or until the service stops."""
        try:
            await asyncio.wait_for(self.api.closing.wait(), POLL)
        except TimeoutError:
            return
