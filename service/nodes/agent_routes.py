"""What the agent of a standing node says: it enrols once, then asks for work."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Response
from pydantic import Field

from service.agents.routes import (
    Address,
    Count,
    GpuSaid,
    RunBlocking,
    Said,
    Session_,
    Text,
    bearer,
    check_protocol,
)
from service.agents.updates import zipapp_bytes
from service.api.problems import not_found
from service.api.texts import Reported
from service.context import Context
from service.nodes.enrolment import Machine, authenticate_node, check_code, enrol
from service.nodes.polling import poll


class MachineSaid(Said):
    protocol: int
    boot_id: Annotated[Reported, Field(min_length=1, max_length=64)]
    agent_version: Annotated[Reported, Field(max_length=32)]
    private_ip: Address | None = None
    cpus: int = Field(default=0, ge=0, le=4096)
    memory_bytes: Count = 0
    gpus: Annotated[list[GpuSaid], Field(max_length=64)] = Field(default_factory=list)

    def machine(self) -> Machine:
        return Machine(
            self.boot_id,
            self.agent_version,
            self.private_ip,
            self.cpus,
            self.memory_bytes,
            [gpu.model_dump() for gpu in self.gpus],
        )


class EnrolSaid(MachineSaid):
    code: Text


class PollSaid(MachineSaid):
    running: Text | None = None
    done: Text | None = None


def router(ctx: Context, run: RunBlocking) -> APIRouter:
    """The routes below /agent/v1/node."""
    routes = APIRouter(prefix="/agent/v1/node", tags=["agents"])

    @routes.post("/enrol")
    async def say_enrol(said: EnrolSaid) -> dict[str, Any]:
        check_protocol(said.protocol)

        def call() -> tuple[str, str]:
            node, token = ctx.database.write(lambda session: enrol(session, ctx, said.code, said.machine()))
            return node.name, token

        name, token = await run(call)
        for loop in ("nodes", "scheduler"):
            ctx.wake(loop)
        return {"node": name, "session": token}

    @routes.post("/poll")
    async def say_poll(said: PollSaid, authorization: Session_ = "") -> dict[str, Any]:
        check_protocol(said.protocol)
        token = bearer(authorization)
        return await run(
            lambda: ctx.database.write(
                lambda session: poll(
                    session,
                    ctx,
                    authenticate_node(session, token),
                    said.machine(),
                    running=said.running,
                    done=said.done,
                )
            )
        )

    @routes.get("/agent.pyz")
    async def fetch_agent(authorization: Session_ = "") -> Response:
        """The agent for a machine that is about to enrol; the code pays for it and stays good."""
        code = bearer(authorization)
        await run(lambda: ctx.database.read(lambda session: check_code(session, code, ctx.now())))
        data = await run(lambda: zipapp_bytes(ctx))
        if data is None:
            raise not_found("agent: agent_zipapp is not set")
        return Response(data, media_type="application/octet-stream")

    return routes
