"""Requests for more quota over HTTP: plan, ask, list, decide; how long they take; the history of limits."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field, model_validator
from sqlmodel import Session, col, select, tuple_
from starlette.responses import Response

from providers.vocabulary import CapacityType
from service.api.authentication import CurrentCaller, global_only
from service.api.paging import Cursor, Limit, decode_cursor, encode_cursor, json_response, page
from service.api.problems import Problem, invalid, not_found
from service.api.state import Api, CurrentApi
from service.api.texts import is_plain
from service.context import Context
from service.jobs.gpus import UnknownGpuError, read_gpu
from service.projects.model import Role
from service.projects.repository import chosen
from service.projects.tokens import Caller
from service.quota_desk.ask import Asker, AskError, Wish, ask, plan_ask
from service.quota_desk.decisions import UndecidableError, approve_request, deny_request, withdraw_request
from service.quota_desk.model import Origin, QuotaRequest
from service.quota_desk.shown import plan_shown, request_shown, waits_shown
from service.quota_desk.waits import grouped, samples
from service.quotas.model import QuotaReading
from service.states import REQUEST_OPEN, QuotaRequestState

router = APIRouter(tags=["quotas"])

MOST_GPUS = 100_000


class NewQuotaRequest(BaseModel):
    """What to make room for: `gpu` (`H100:16`), or so many `instances` of an `instance_type`, beyond what is
    in use. `account` may be left out where the cloud has one. `up_to`: how many GPUs (or instances) are
    wanted in the end. propose: do not file, let someone decide.
    """

    model_config = ConfigDict(extra="forbid")

    provider: str = Field(max_length=16)
    account: str | None = Field(default=None, max_length=40)
    region: str = Field(max_length=64)
    gpu: str | None = Field(default=None, max_length=64)
    instance_type: str | None = Field(default=None, max_length=64)
    instances: int | None = Field(default=None, ge=1, le=10_000)
    capacity_type: CapacityType = CapacityType.ON_DEMAND
    up_to: int | None = Field(default=None, ge=1, le=100_000)
    why: str = Field(default="", max_length=1000)
    project: str | None = Field(default=None, max_length=40)
    propose: bool = False

    @model_validator(mode="after")
    def _one_size(self) -> NewQuotaRequest:
        if (self.gpu is None) == (self.instances is None):
            raise ValueError("give either gpu, such as H100:16, or instances and instance_type")
        if self.instances is not None and self.instance_type is None:
            raise ValueError("instances are of an instance_type: give it")
        _check_plain(self)
        return self


class Decision(BaseModel):
    """Why, in a person's words."""

    model_config = ConfigDict(extra="forbid")

    why: str = Field(default="", max_length=500)

    @model_validator(mode="after")
    def _plain(self) -> Decision:
        _check_plain(self)
        return self


def _check_plain(body: BaseModel) -> None:
    """ValueError for a text that no database takes."""
    for name, value in body:
        if isinstance(value, str) and not is_plain(value):
            raise ValueError(f"{name} holds a NUL or half a surrogate pair")


@router.post("/quota-requests:plan", summary="What a request for more quota would be")
async def plan(api: CurrentApi, caller: CurrentCaller, body: NewQuotaRequest) -> Response:
    """Every limit that the wish draws on: what it is, what it has to be, and the open request for it. Nothing
    is written or sent.
    """
    wish = _wish(api.ctx, body)

    def find(session: Session) -> dict[str, Any]:
        found = plan_ask(session, api.ctx, wish)
        return plan_shown(found, samples(_all(session), api.ctx.now()), api.ctx.now())

    return json_response(await _reading(api, find))


@router.post("/quota-requests", summary="Ask for more quota", status_code=201)
async def create(api: CurrentApi, caller: CurrentCaller, body: NewQuotaRequest) -> Response:
    """One request for each limit that has to grow; an open one is adopted, never doubled. Filed at once for
    an admin of all projects; what others ask for is proposed, for an admin to decide.
    """
    wish = _wish(api.ctx, body)
    files = caller.is_global and caller.may(Role.ADMIN) and not body.propose

    def write(session: Session) -> list[dict[str, Any]]:
        project = chosen(session, caller, body.project)
        asker = Asker(Origin.PERSON, files, by=caller.name, project_id=project.id)
        now = api.ctx.now()
        return [request_shown(row, caller, now) for row in ask(session, api.ctx, wish, asker)]

    try:
        items = await api.write(write)
    except AskError as error:
        raise invalid(error.field, error.problem, error.allowed) from None
    api.ctx.wake("quota_desk")
    return json_response({"items": items}, 201)


@router.get("/quota-requests", summary="List requests for more quota")
async def requests(
    api: CurrentApi,
    caller: CurrentCaller,
    limit: Limit = 50,
    cursor: Cursor = None,
    state: Annotated[QuotaRequestState | None, Query()] = None,
    open: Annotated[bool | None, Query(description="true: only those that nobody has decided.")] = None,
    provider: Annotated[str | None, Query(max_length=16)] = None,
    region: Annotated[str | None, Query(max_length=64)] = None,
    gpu: Annotated[str | None, Query(max_length=32)] = None,
) -> Response:
    """Newest first, those that were filed by hand in a console included."""
    statement = select(QuotaRequest).order_by(
        col(QuotaRequest.created_at).desc(), col(QuotaRequest.id).desc()
    )
    if cursor:
        before = tuple(decode_cursor(cursor, (datetime, str)))
        statement = statement.where(tuple_(col(QuotaRequest.created_at), col(QuotaRequest.id)) < before)
    if state is not None:
        statement = statement.where(QuotaRequest.state == state)
    if open is not None:
        in_open = col(QuotaRequest.state).in_(REQUEST_OPEN)
        statement = statement.where(in_open if open else ~in_open)
    for column, value in ((QuotaRequest.provider, provider), (QuotaRequest.place_region, region)):
        if value is not None:
            statement = statement.where(column == value)
    if gpu is not None:
        statement = statement.where(QuotaRequest.gpu == gpu.upper())

    def find(session: Session) -> tuple[list[dict[str, Any]], str | None]:
        rows = session.exec(statement.limit(limit + 1)).all()
        last = rows[limit - 1] if len(rows) > limit else None
        more = encode_cursor(last.created_at, last.id) if last else None
        now = api.ctx.now()
        return [request_shown(row, caller, now) for row in rows[:limit]], more

    return page(*await api.read(find))


@router.get("/quota-requests/{request_id}", summary="Get a request for more quota")
async def get_request(api: CurrentApi, caller: CurrentCaller, request_id: str) -> Response:
    """By its id."""

    def find(session: Session) -> dict[str, Any]:
        return request_shown(_row(session, request_id), caller, api.ctx.now())

    return json_response(await api.read(find))


@router.post("/quota-requests/{request_id}:approve", summary="File a proposed request")
async def approve(api: CurrentApi, caller: CurrentCaller, request_id: str) -> Response:
    """A proposal is filed. Safe to repeat; 409 if it was turned down or has expired."""

    def decide(session: Session, row: QuotaRequest) -> None:
        approve_request(session, row, caller.name, now=api.ctx.now())

    return await _decide(api, caller, request_id, decide)


@router.post("/quota-requests/{request_id}:deny", summary="Turn a proposed request down")
async def deny(
    api: CurrentApi, caller: CurrentCaller, request_id: str, body: Decision | None = None
) -> Response:
    """A proposal is not filed. Safe to repeat; 409 once it is past that."""
    why = body.why if body else ""

    def decide(session: Session, row: QuotaRequest) -> None:
        deny_request(session, row, caller.name, now=api.ctx.now(), why=why)

    return await _decide(api, caller, request_id, decide)


@router.post("/quota-requests/{request_id}:withdraw", summary="Take a request back before it is sent")
async def withdraw(api: CurrentApi, caller: CurrentCaller, request_id: str) -> Response:
    """Safe to repeat; 409 once the cloud has it, or may: vendors let nobody call a request off by API."""

    def decide(session: Session, row: QuotaRequest) -> None:
        withdraw_request(session, row, caller.name, now=api.ctx.now())

    return await _decide(api, caller, request_id, decide)


@router.get("/quota-waits", summary="How long requests for more quota take")
async def quota_waits(
    api: CurrentApi,
    caller: CurrentCaller,
    provider: Annotated[str | None, Query(max_length=16)] = None,
    region: Annotated[str | None, Query(max_length=64)] = None,
    gpu: Annotated[str | None, Query(max_length=32)] = None,
) -> Response:
    """Per provider, card, region and size: seconds from filing to decision and to effect (p50, p90, n), the
    share that was granted, and what is still open.
    """

    def find(session: Session) -> list[dict[str, Any]]:
        found = grouped(samples(_all(session), api.ctx.now()))
        return [
            waits_shown(group, figures)
            for group, figures in sorted(found.items(), key=lambda item: tuple(str(part) for part in item[0]))
            if provider in (None, group[0])
            and (gpu is None or group[1] == gpu.upper())
            and region in (None, group[2])
        ]

    return page(await api.read(find), None)


@router.get("/quota-history", summary="The history of a limit and its usage")
async def history(
    api: CurrentApi,
    caller: CurrentCaller,
    quota_id: Annotated[str, Query(max_length=255, description="A quota's id.")],
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Response:
    """Newest first; each row holds from `read_at` until the next. Kept for a quarter."""
    statement = select(QuotaReading).where(QuotaReading.quota_id == quota_id)
    if cursor:
        statement = statement.where(col(QuotaReading.id) < decode_cursor(cursor, (int,))[0])

    def find(session: Session) -> tuple[list[dict[str, Any]], str | None]:
        rows = session.exec(statement.order_by(col(QuotaReading.id).desc()).limit(limit + 1)).all()
        more = encode_cursor(rows[limit - 1].id) if len(rows) > limit else None
        fields = ("read_at", "limit", "usage")
        return [{name: getattr(row, name) for name in fields} for row in rows[:limit]], more

    return page(*await api.read(find))


async def _reading(api: Api, find: Any) -> Any:
    try:
        return await api.read(find)
    except AskError as error:
        raise invalid(error.field, error.problem, error.allowed) from None


async def _decide(api: Api, caller: Caller, request_id: str, decide: Any) -> Response:
    global_only(caller, Role.ADMIN)

    def write(session: Session) -> dict[str, Any]:
        row = session.exec(
            select(QuotaRequest).where(QuotaRequest.id == request_id).with_for_update()
        ).first()
        if row is None:
            raise not_found("quota request")
        try:
            decide(session, row)
        except UndecidableError as error:
            raise Problem(409, str(error)) from None
        return request_shown(row, caller, api.ctx.now())

    shown = await api.write(write)
    api.ctx.wake("quota_desk")
    return json_response(shown)


def _row(session: Session, request_id: str) -> QuotaRequest:
    row = session.get(QuotaRequest, request_id)
    if row is None:
        raise not_found("quota request")
    return row


def _all(session: Session) -> list[QuotaRequest]:
    return list(session.exec(select(QuotaRequest)).all())


def _wish(ctx: Context, body: NewQuotaRequest) -> Wish:
    name, count = _card(body.gpu)
    return Wish(
        provider=body.provider,
        account=_account(ctx, body),
        region=body.region,
        capacity_type=body.capacity_type,
        gpu=name,
        gpus=count,
        instance_type=body.instance_type,
        instances=body.instances,
        up_to=body.up_to,
        why=body.why,
    )


def _card(text: str | None) -> tuple[str | None, int | None]:
    if text is None:
        return None, None
    try:
        wish = read_gpu(text)
    except UnknownGpuError as error:
        raise invalid("gpu", str(error), error.near) from None
    except ValueError as error:
        raise invalid("gpu", str(error)) from None
    if len(wish.names) != 1:
        raise invalid("gpu", "name one card: H100:16")
    if not 1 <= wish.count <= MOST_GPUS:
        raise invalid("gpu", f"ask for 1 to {MOST_GPUS} GPUs")
    return wish.names[0], wish.count


def _account(ctx: Context, body: NewQuotaRequest) -> str:
    """The account that is named, or the cloud's only one, if it has the region."""
    accounts = {account for provider, account in ctx.providers if provider == body.provider}
    if not accounts:
        known = sorted({provider for provider, _ in ctx.providers})
        raise invalid("provider", f"no account of {body.provider} is in the settings", known)
    if body.account is None and len(accounts) > 1:
        raise invalid("account", "is required: the cloud has several", sorted(accounts))
    account = body.account or next(iter(accounts))
    adapter = ctx.provider(body.provider, account)
    if adapter is None:
        raise invalid("account", f"{account} is not in the settings", sorted(accounts))
    if body.region not in adapter.regions:
        raise invalid("region", f"{body.region} is not in the account's settings", adapter.regions)
    return account
