"""The control API of the local clouds, for tests and the demo: look at the truth, make things happen.

GET  /control/ledger                  objects, events, calls, bill
GET  /control/endpoints               each face's URL, by name
GET  /control/instances               each instance: provider, id, name, state and so on
GET  /control/console/PROVIDER/ID     what an instance has printed
POST /control/{capacity,price,quota}  a rule as in the scenario
POST /control/quota_review            how requests for more fare from now on, as in the scenario
POST /control/reservation             a reservation as in the scenario; its times count from now
POST /control/fault                   an event of the scenario, without `do` and `at`
POST /control/restore                 {"where": {...}, "what": [...]}
POST /control/preempt                 {"provider", "id", "notice": true, "seconds": null}
POST /control/kill                    {"provider", "id", "seen": true}
POST /control/events                  a list of events as in the scenario; `at` counts from now
POST /control/tick                    let happen what is due
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from sandbox.ledger import stamp
from sandbox.quota_reviews import ReviewRule
from sandbox.reservations import ReservationRule
from sandbox.scenario import CapacityRule, Event, PriceRule, QuotaRule, Restore, SetFault, describe
from sandbox.vm import Vm
from sandbox.world import World

_EVENTS: TypeAdapter[list[Event]] = TypeAdapter(list[Event])


class _Target(BaseModel):
    model_config = ConfigDict(extra="forbid")

    provider: Literal["aws", "gcp", "azure"]
    id: str


class _Preempt(_Target):
    notice: bool = True
    seconds: float | None = None


class _Kill(_Target):
    seen: bool = True


class _NotThereError(Exception):
    """No such instance."""


def app(world: World) -> Starlette:
    """The control API over one world."""

    def fault(body: dict[str, Any]) -> None:
        world.add_fault(SetFault.model_validate({"at": 0, "do": "fault", **body}).rule())

    orders: dict[str, Callable[[Any], object]] = {
        "capacity": lambda body: world.set_capacity(CapacityRule.model_validate(body)),
        "price": lambda body: world.set_price(PriceRule.model_validate(body)),
        "quota": lambda body: world.set_quota(QuotaRule.model_validate(body)),
        "quota_review": lambda body: world.set_review(ReviewRule.model_validate(body)),
        "reservation": lambda body: world.reserve(ReservationRule.model_validate(body)),
        "fault": fault,
        "restore": lambda body: world.restore(Restore.model_validate({"at": 0, "do": "restore", **body})),
        "preempt": lambda body: _preempt(world, _Preempt.model_validate(body)),
        "kill": lambda body: _kill(world, _Kill.model_validate(body)),
        "events": lambda body: world.add_events(_EVENTS.validate_python(body)),
        "tick": lambda body: world.tick(),
    }

    async def order(request: Request) -> Response:
        action = orders.get(request.path_params["order"])
        if action is None:
            return _problem(404, f"no such order; there are {', '.join(orders)}")
        try:
            body = json.loads(await request.body() or b"{}")
            await run_in_threadpool(action, body)
        except ValidationError as error:
            return _problem(422, describe(error))
        except (ValueError, TypeError) as error:
            return _problem(422, f"the body is no JSON object: {error}")
        except _NotThereError as error:
            return _problem(404, str(error))
        return JSONResponse({})

    async def ledger(request: Request) -> Response:
        return JSONResponse(await run_in_threadpool(world.ledger))

    async def endpoints(request: Request) -> Response:
        return JSONResponse(world.endpoints)

    async def instances(request: Request) -> Response:
        return JSONResponse([_shown(vm) for vm in world.all_vms()])

    async def console(request: Request) -> Response:
        vm = world.vm(request.path_params["provider"], request.path_params["id"])
        if vm is None:
            return _problem(404, "no such instance")
        return PlainTextResponse(world.machines.console(vm))

    return Starlette(
        routes=[
            Route("/control/ledger", ledger),
            Route("/control/endpoints", endpoints),
            Route("/control/instances", instances),
            Route("/control/console/{provider}/{id}", console),
            Route("/control/{order}", order, methods=["POST"]),
        ]
    )


def _problem(status: int, detail: str) -> Response:
    return JSONResponse({"status": status, "detail": detail}, status, media_type="application/problem+json")


def _named(world: World, target: _Target) -> Vm:
    vm = world.vm(target.provider, target.id)
    if vm is None:
        raise _NotThereError(f"no instance {target.id} on {target.provider}")
    return vm


def _preempt(world: World, order: _Preempt) -> None:
    world.preempt(_named(world, order), order.notice, order.seconds)


def _kill(world: World, order: _Kill) -> None:
    world.kill(_named(world, order), order.seen)


def _shown(vm: Vm) -> dict[str, Any]:
    times = ("created_at", "running_at", "notice_deadline", "ending_at", "ended_at")
    shown = {name: getattr(vm, name) for name in times}
    plain = ("provider", "id", "name", "region", "zone", "instance_type", "capacity_type", "state")
    return {
        **{name: getattr(vm, name) for name in plain},
        **{name: stamp(at) if at else None for name, at in shown.items()},
        "end_reason": vm.end_reason,
        "reservation": vm.reservation,
        "private_ip": vm.private_ip,
        "public_ip": vm.public_ip,
        "tags": vm.tags,
        "objects": vm.objects,
    }
