"""The agents' API: docs/agent-protocol.md as routes. Thin: parse, call, shape."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from ipaddress import ip_address
from typing import Annotated, Any, Literal, Protocol, TypeVar

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field
from sqlmodel import Session

from service.agents import reports
from service.agents.assignment import assignment
from service.agents.directives import Answer
from service.agents.sessions import Hello, authenticate, check_claim, hello, still_serving
from service.agents.updates import offered, zipapp_bytes
from service.agents.user_data import PROTOCOL
from service.api.problems import Problem, not_found
from service.api.texts import Reported
from service.attempts.model import Attempt
from service.blobs.store import blob_key, named_blobs
from service.context import Context
from service.instances.model import AgentState, Instance
from service.jobs.model import Job
from service.jobs.spec import JobSpec
from service.logs.append import LogLimit, WrongOffset, deliver

T = TypeVar("T")
ACCEPTED = range(max(1, PROTOCOL - 2), PROTOCOL + 1)
MAX_LOG_BATCH = 256 * 1024

Text = Annotated[Reported, Field(max_length=255)]
Count = Annotated[int, Field(ge=0, le=2**63 - 1)]  # what a document in the database holds


def _is_address(text: str) -> str:
    ip_address(text)
    return text


# Goes into the environment of the other nodes, a line each. The pattern leaves out scopes (`%…`).
Address = Annotated[str, Field(max_length=45, pattern=r"^[0-9A-Fa-f.:]+$"), AfterValidator(_is_address)]


class RunBlocking(Protocol):
    """Runs blocking work away from the event loop."""

    def __call__(self, work: Callable[[], T]) -> Awaitable[T]: ...


class Said(BaseModel):
    """Agents of a newer version may say more than we understand."""

    model_config = ConfigDict(extra="ignore")


class GpuSaid(Said):
    name: Text = ""
    memory_bytes: Count = 0


class HelloSaid(Said):
    protocol: int
    claim_code: Text
    instance_id: Text
    boot_id: Annotated[Reported, Field(min_length=1, max_length=64)]
    agent_version: Annotated[Reported, Field(max_length=32)]
    private_ip: Address | None = None
    cpus: int = Field(default=0, ge=0, le=4096)
    memory_bytes: Count = 0
    gpus: Annotated[list[GpuSaid], Field(max_length=64)] = []


class GpuNow(Said):
    utilization: float | None = None
    memory_used_bytes: Count | None = None


class HeartbeatSaid(Said):
    epoch: int
    state: AgentState
    gpus: Annotated[list[GpuNow], Field(max_length=64)] = []
    degraded: Annotated[list[Annotated[Reported, Field(max_length=64)]], Field(max_length=8)] = []


class NoticeSaid(Said):
    epoch: int
    kind: Literal["preemption", "maintenance"]
    deadline: AwareDatetime | None = None
    source: Text = ""


class StartedSaid(Said):
    epoch: int
    restored: Text | None = None


class CheckpointSaid(Said):
    epoch: int
    name: Annotated[Reported, Field(pattern=r"^[^/\n\x00]{1,200}$")]
    bytes: Count


class ExitSaid(Said):
    epoch: int
    exit_code: int | None = Field(default=None, ge=-255, le=255)
    signal: int | None = None
    reason: Literal[
        "exited",
        "preempted",
        "stopped",
        "setup_failed",
        "max_duration",
        "disk_full",
        "restore_failed",
        "files_failed",
        "lost_by_reboot",
    ]
    detail: Annotated[Reported, Field(max_length=4096)] = ""


Session_ = Annotated[str, Header(alias="Authorization")]
Protocol_ = Annotated[int, Header(alias="Corral-Protocol")]
Call = Callable[[Session, Instance, Attempt], T]


def router(ctx: Context, run: RunBlocking) -> APIRouter:
    """The routes below /agent/v1. `run` keeps the database off the event loop."""
    routes = APIRouter(prefix="/agent/v1", tags=["agents"])

    async def as_agent(authorization: str, protocol: int, call: Call[T]) -> T:
        check_protocol(protocol)
        token = bearer(authorization)
        return await run(
            lambda: ctx.database.write(lambda session: call(session, *authenticate(session, token)))
        )

    @routes.post("/hello")
    async def say_hello(said: HelloSaid) -> dict[str, Any]:
        check_protocol(said.protocol)
        check_claim(ctx, said.claim_code)  # before the database is asked for anything
        first = Hello(
            said.claim_code,
            said.instance_id,
            said.boot_id,
            said.agent_version,
            said.private_ip,
            {
                "cpus": said.cpus,
                "memory_bytes": said.memory_bytes,
                "gpus": [gpu.model_dump() for gpu in said.gpus],
            },
        )
        reply = await run(lambda: ctx.database.write(lambda session: hello(session, ctx, first)))
        ctx.wake("lifecycle")
        return reply

    @routes.get("/assignment")
    async def fetch_assignment(authorization: Session_ = "", protocol: Protocol_ = 0) -> dict[str, Any]:
        def call(session: Session, instance: Instance, attempt: Attempt) -> dict[str, Any]:
            still_serving(instance, attempt)
            return assignment(session, ctx, instance, attempt)

        return await as_agent(authorization, protocol, call)

    @routes.post("/heartbeat")
    async def beat(
        said: HeartbeatSaid, authorization: Session_ = "", protocol: Protocol_ = 0
    ) -> dict[str, Any]:
        vitals: dict[str, list[Any]] = {
            "gpus_now": [gpu.model_dump() for gpu in said.gpus],
            "degraded": list(said.degraded),
        }

        def call(session: Session, instance: Instance, attempt: Attempt) -> Answer:
            return reports.heartbeat(
                session, ctx, instance, attempt, epoch=said.epoch, state=said.state, vitals=vitals
            )

        answer = await as_agent(authorization, protocol, call)
        return answer.as_json()

    @routes.post("/notice")
    async def give_notice(
        said: NoticeSaid, authorization: Session_ = "", protocol: Protocol_ = 0
    ) -> dict[str, Any]:
        def call(session: Session, instance: Instance, attempt: Attempt) -> dict[str, Any]:
            deadline: datetime | None = said.deadline
            reports.notice(
                session,
                ctx,
                instance,
                attempt,
                epoch=said.epoch,
                kind=said.kind,
                deadline=deadline,
                source=said.source,
            )
            job = session.get_one(Job, attempt.job_id)
            return reports.directive(session, ctx, instance, attempt, job).as_json()

        return await as_agent(authorization, protocol, call)

    @routes.post("/started")
    async def report_started(
        said: StartedSaid, authorization: Session_ = "", protocol: Protocol_ = 0
    ) -> dict[str, Any]:
        await as_agent(
            authorization,
            protocol,
            lambda s, i, a: reports.started(s, ctx, i, a, epoch=said.epoch, restored=said.restored),
        )
        return {}

    @routes.post("/checkpoint")
    async def report_checkpoint(
        said: CheckpointSaid, authorization: Session_ = "", protocol: Protocol_ = 0
    ) -> dict[str, Any]:
        await as_agent(
            authorization,
            protocol,
            lambda s, i, a: reports.checkpoint(
                s, ctx, i, a, epoch=said.epoch, name=said.name, size=said.bytes
            ),
        )
        return {}

    @routes.post("/exit")
    async def report_exit(
        said: ExitSaid, authorization: Session_ = "", protocol: Protocol_ = 0
    ) -> dict[str, Any]:
        await as_agent(
            authorization,
            protocol,
            lambda s, i, a: reports.exited(
                s,
                ctx,
                i,
                a,
                epoch=said.epoch,
                exit_code=said.exit_code,
                reason=said.reason,
                detail=said.detail,
            ),
        )
        return {"directive": "end"}

    @routes.post("/logs")
    async def take_logs(
        request: Request,
        epoch: int,
        offset: Annotated[int, Query(ge=0)],
        authorization: Session_ = "",
        protocol: Protocol_ = 0,
    ) -> dict[str, Any]:
        data = await _body(request)

        def check(session: Session, instance: Instance, attempt: Attempt) -> tuple[str, int]:
            reports.check_epoch(session, attempt, epoch)
            return attempt.id, instance.node

        attempt_id, rank = await as_agent(authorization, protocol, check)
        limit = ctx.settings.limits.log_per_attempt
        try:
            end = await run(
                lambda: deliver(ctx.database, ctx.store, attempt_id, rank, offset, data, limit, ctx.now())
            )
        except WrongOffset as wrong:
            raise Problem(409, str(wrong), code="wrong_offset", next_offset=wrong.next_offset) from None
        except LogLimit as full:
            raise Problem(413, str(full), code="log_limit") from None
        return {"next_offset": end}

    @routes.get("/blobs/{sha256}")
    async def fetch_blob(sha256: str, authorization: Session_ = "", protocol: Protocol_ = 0) -> Response:
        def check(session: Session, instance: Instance, attempt: Attempt) -> str:
            still_serving(instance, attempt)
            job = session.get_one(Job, attempt.job_id)
            if sha256 not in named_blobs(JobSpec.model_validate(job.spec)):
                raise not_found("blob of this job")
            return job.project_id

        project_id = await as_agent(authorization, protocol, check)
        data = await run(lambda: ctx.store.get(blob_key(project_id, sha256)))
        return Response(data, media_type="application/octet-stream")

    @routes.get("/update", response_model=None)
    async def fetch_update(
        authorization: Session_ = "", protocol: Protocol_ = 0
    ) -> Response | dict[str, Any]:
        version = await as_agent(authorization, protocol, lambda s, i, a: i.agent_version)
        offer = offered(ctx, version)
        return Response(status_code=204) if offer is None else offer

    @routes.get("/update/zipapp")
    async def fetch_zipapp(authorization: Session_ = "", protocol: Protocol_ = 0) -> Response:
        await as_agent(authorization, protocol, lambda s, i, a: None)
        data = await run(lambda: zipapp_bytes(ctx))
        if data is None:
            raise not_found("update")
        return Response(data, media_type="application/octet-stream")

    return routes


def check_protocol(protocol: int) -> None:
    if protocol not in ACCEPTED:
        accepted = f"{ACCEPTED.start} to {ACCEPTED.stop - 1}"
        raise Problem(426, f"protocol {protocol} is not spoken here, only {accepted}", code="upgrade")


def bearer(authorization: str) -> str:
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer" or not token:
        raise Problem(401, "expected Authorization: Bearer SESSION", headers={"WWW-Authenticate": "Bearer"})
    return token


async def _body(request: Request) -> bytes:
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > MAX_LOG_BATCH:
            raise Problem(413, f"at most {MAX_LOG_BATCH} bytes a batch", code="batch_too_large")
    return bytes(data)
