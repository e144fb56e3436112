"""Standing nodes over HTTP."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field
from sqlmodel import Session, col, select
from starlette.responses import Response

from providers.vocabulary import InstanceType
from service.api.authentication import CurrentCaller, global_only
from service.api.paging import Cursor, Limit, decode_cursor, encode_cursor, json_response, page
from service.api.problems import Problem, not_found
from service.api.state import CurrentApi
from service.events.record import record
from service.money import to_micros
from service.nodes.enrolment import HOURS_A_MONTH, NewNode, add_node
from service.nodes.model import Node
from service.nodes.pools import refresh
from service.nodes.view import accelerator, command, shown
from service.projects.model import Role

router = APIRouter(tags=["nodes"])

NodeName = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$", max_length=40)]
Word = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$", max_length=63)]


class NodeAdded(BaseModel):
    """A machine that is to enrol. `gpu` as in a spec, one model and a count: `H100:8`. `vcpus`, `memory_gib`:
    0 takes what the machine says. `fabric`: the interconnect between the nodes of the pool, for gangs that
    ask for a fast network.
    """

    model_config = ConfigDict(extra="forbid")

    name: NodeName
    instance_type: Word
    gpu: Annotated[str, Field(max_length=64)] | None = None
    cost_per_month_usd: float = Field(ge=0, le=5_000_000, allow_inf_nan=False)
    region: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")] = "standing"
    vcpus: int = Field(default=0, ge=0, le=4096)
    memory_gib: float = Field(default=0, ge=0, le=1 << 20, allow_inf_nan=False)
    fabric: Annotated[str, Field(pattern=r"^[a-z0-9-]{1,16}$")] | None = None


@router.post("/nodes", status_code=201, summary="Add a standing node")
async def add(api: CurrentApi, caller: CurrentCaller, body: NodeAdded) -> Response:
    """Its enrol code, good for an hour and once, and the command that uses it. Needs an admin of all
    projects.
    """
    global_only(caller, Role.ADMIN)
    name, gpus = body.instance_type, accelerator(body.gpu)
    type_ = InstanceType(name, name, body.vcpus, body.memory_gib, gpus, fabric=body.fabric)
    price_micros = to_micros(body.cost_per_month_usd / HOURS_A_MONTH)
    new = NewNode(body.name, type_, body.region, price_micros)

    def write(session: Session) -> dict[str, Any]:
        node, code = add_node(session, api.ctx, new, by=caller.token_id)
        return {
            **shown(node, api.ctx),
            "enrol_code": code,
            "enrol_until": node.enrol_until,
            "command": command(api.ctx, code),
            "ca": api.ctx.service_ca,
        }

    return json_response(await api.write(write), 201)


@router.get("/nodes", summary="List standing nodes")
async def nodes(
    api: CurrentApi,
    caller: CurrentCaller,
    limit: Limit = 50,
    cursor: Cursor = None,
    pool: Annotated[str | None, Query(max_length=40)] = None,
) -> Response:
    """By name."""
    after = decode_cursor(cursor, (str,))[0] if cursor else ""

    def find(session: Session) -> list[dict[str, Any]]:
        statement = select(Node).where(col(Node.name) > after).order_by(col(Node.name)).limit(limit + 1)
        if pool is not None:
            statement = statement.where(Node.pool == pool)
        return [shown(node, api.ctx) for node in session.exec(statement).all()]

    items = await api.read(find)
    return page(items[:limit], encode_cursor(items[limit - 1]["name"]) if len(items) > limit else None)


@router.post("/nodes/{name}:drain", summary="Give a node nothing more")
async def drain(api: CurrentApi, caller: CurrentCaller, name: str) -> Response:
    """What runs on it runs on to its end. Needs an admin of all projects."""
    return await _set_draining(api, caller, name, draining=True)


@router.post("/nodes/{name}:resume", summary="Use a drained node again")
async def resume(api: CurrentApi, caller: CurrentCaller, name: str) -> Response:
    """Undo drain. Needs an admin of all projects."""
    return await _set_draining(api, caller, name, draining=False)


@router.delete("/nodes/{name}", status_code=204, summary="Remove a node")
async def remove(
    api: CurrentApi,
    caller: CurrentCaller,
    name: str,
    force: Annotated[
        bool, Query(description="Although it is in use: its machine is known to be off.")
    ] = False,
) -> Response:
    """Its agent is turned away from then on. 409 while it is in use. Needs an admin of all projects."""
    global_only(caller, Role.ADMIN)

    def write(session: Session) -> None:
        node = _named(session, name)
        if node.use_id is not None and not force:
            message = f"node {name} serves job {node.job_id}; drain it and wait, or cancel the job"
            raise Problem(409, message, code="node_in_use")
        session.delete(node)
        session.flush()
        refresh(session, api.ctx)
        message = f"node {name} was removed"
        record(session, "node_removed", "node", node.id, message, at=api.ctx.now(), by=caller.token_id)

    await api.write(write)
    for loop in ("watcher", "reaper"):
        api.ctx.wake(loop)
    return Response(status_code=204)


async def _set_draining(api: CurrentApi, caller: CurrentCaller, name: str, *, draining: bool) -> Response:
    global_only(caller, Role.ADMIN)
    kind, words = ("node_drained", "is given nothing more") if draining else ("node_resumed", "is used again")

    def write(session: Session) -> dict[str, Any]:
        node = _named(session, name)
        if node.draining != draining:
            node.draining = draining
            session.add(node)
            session.flush()
            refresh(session, api.ctx)
            message = f"node {name} {words}"
            record(session, kind, "node", node.id, message, at=api.ctx.now(), by=caller.token_id)
        return shown(node, api.ctx)

    changed = await api.write(write)
    api.ctx.wake("scheduler")
    return json_response(changed)


def _named(session: Session, name: str) -> Node:
    node = session.exec(select(Node).where(Node.name == name).with_for_update()).first()
    if node is None:
        raise not_found(f"node {name[:40]}")
    return node
