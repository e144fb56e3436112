"""A wish for GPUs or instances, turned into requests: planned first (dry), then written as the intent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlmodel import Session, col, select

from providers.quotas import Quota, needed
from providers.vocabulary import CapacityType, Offer
from service.context import Context
from service.events.record import record
from service.identifiers import new_id
from service.market.model import OfferRow
from service.market.offers import to_offer
from service.projects.model import Deployment
from service.quota_desk.decisions import approve_request
from service.quota_desk.justification import TEMPLATE, TemplateFaultError, render
from service.quota_desk.model import Origin, QuotaRequest
from service.quota_desk.sentences import asked_for
from service.quotas.headroom import headroom
from service.quotas.increases import Gate, Verdict, best_type, gates, instances_for
from service.quotas.model import QuotaRow
from service.quotas.rows import quota_id, to_quota
from service.states import REQUEST_OPEN, QuotaRequestState


class AskError(Exception):
    """A wish that cannot be asked for: the field, what is wrong, what is allowed."""

    def __init__(self, field: str, problem: str, allowed: Sequence[str] = ()) -> None:
        super().__init__(f"{field}: {problem}")
        self.field, self.problem, self.allowed = field, problem, tuple(allowed)


@dataclass(frozen=True, slots=True)
class Wish:
    """Room for so many more GPUs, or instances of a type, in one region of one account. `up_to`: GPUs or
    instances, the same as the wish, that are wanted in the end by re-filing.
    """

    provider: str
    account: str
    region: str
    capacity_type: CapacityType
    gpu: str | None = None
    gpus: int | None = None
    instance_type: str | None = None
    instances: int | None = None
    up_to: int | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Asked:
    """One limit of a plan: what it is, what it has to be, and the request for it that is open already."""

    gate: Gate
    quota_id: str
    open_request: QuotaRequest | None
    target: float | None
    justification: str


@dataclass(frozen=True, slots=True)
class AskPlan:
    """What a wish comes to. Nothing is written or sent for it."""

    wish: Wish
    offer: Offer
    instances: int
    limits: tuple[Asked, ...]

    @property
    def gpus(self) -> int:
        accelerator = self.offer.type.accelerator
        return self.instances * (accelerator.count if accelerator else 0)

    def to_file(self) -> list[Asked]:
        """The limits that a request is missing for."""
        return [one for one in self.limits if one.gate.verdict is Verdict.RAISE and one.open_request is None]


@dataclass(frozen=True, slots=True)
class Asker:
    """On whose behalf. `files`: at once; else it is proposed, for someone to approve."""

    origin: Origin
    files: bool
    by: str | None = None
    rule: str | None = None
    project_id: str | None = None
    job_id: str | None = None


def plan_ask(session: Session, ctx: Context, wish: Wish) -> AskPlan:
    """Every limit that the wish draws on. AskError says what cannot be asked for, before anything is."""
    offer = _offer(_offers(session, wish), wish)
    instances = wish.instances or instances_for(offer.type, wish.gpus or 0)
    return plan_for(session, ctx, wish, offer, instances)


def plan_for(session: Session, ctx: Context, wish: Wish, offer: Offer, instances: int) -> AskPlan:
    """The same for an offer that is chosen already."""
    quotas = _quotas(session, wish)
    room = headroom(session, ctx.now())
    found = gates(quotas, offer, instances, room.in_flight)
    if not found:
        problem = f"no quota is known that gates {offer.type.name} in {wish.region}; nothing can be asked for"
        raise AskError("region", problem)
    standing = open_requests(session, wish.provider, wish.account)
    limits = []
    for gate in found:
        row_id = quota_id(wish.provider, wish.account, gate.quota)
        target = _target(gate, offer, wish, instances)
        text = _justified(ctx, wish, offer, instances, gate)
        limits.append(Asked(gate, row_id, standing.get(row_id), target, text))
    return AskPlan(wish, offer, instances, tuple(limits))


def ask(session: Session, ctx: Context, wish: Wish, asker: Asker) -> list[QuotaRequest]:
    """Write the requests for a wish; the open ones are adopted, never doubled. In a write transaction.

    AskError if a limit that is too small cannot be raised, or if none has to be.
    """
    session.exec(select(Deployment.id).where(Deployment.id == ctx.deployment_id).with_for_update()).first()
    return write_requests(session, ctx, plan_ask(session, ctx, wish), asker)


def write_requests(session: Session, ctx: Context, plan: AskPlan, asker: Asker) -> list[QuotaRequest]:
    """The requests of a plan that was made under the deployment's lock."""
    refuse_hopeless(ctx, plan)
    ask_id = new_id("ask", ctx.now(), ctx.chance)
    written = []
    for one in plan.limits:
        if one.gate.verdict is not Verdict.RAISE:
            continue
        if one.open_request is not None:
            written.append(_adopted(session, ctx, one, one.open_request, asker))
        else:
            written.append(_written(session, ctx, plan, one, asker, ask_id))
    return written


def refuse_hopeless(ctx: Context, plan: AskPlan) -> None:
    """AskError for a plan that cannot help."""
    fixed = [one for one in plan.limits if one.gate.verdict is Verdict.FIXED]
    if fixed:
        quota = fixed[0].gate.quota
        raise AskError("region", f"{quota.name}: the cloud does not raise this limit ({quota.limit:g})")
    if not any(one.gate.verdict is Verdict.RAISE for one in plan.limits):
        unknown = [one.gate.quota.name for one in plan.limits if one.gate.verdict is Verdict.UNKNOWN]
        problem = "there is room already" if not unknown else f"the limit is unknown: {', '.join(unknown)}"
        raise AskError("gpus", f"nothing has to be asked for: {problem}")
    if plan.wish.provider == "gcp" and ctx.settings.quota_desk.contact is None:
        raise AskError(
            "contact", "set quota_desk.contact in the settings: the cloud requires an e-mail address"
        )


def open_requests(session: Session, provider: str, account: str) -> Mapping[str, QuotaRequest]:
    """The open request of each quota of an account, if there is one; of several the newest."""
    rows = session.exec(
        select(QuotaRequest)
        .where(
            QuotaRequest.provider == provider,
            QuotaRequest.account == account,
            col(QuotaRequest.state).in_(REQUEST_OPEN),
        )
        .order_by(col(QuotaRequest.created_at))
    ).all()
    return {row.quota_id: row for row in rows}


def _offers(session: Session, wish: Wish) -> list[Offer]:
    rows = session.exec(
        select(OfferRow).where(
            OfferRow.provider == wish.provider,
            OfferRow.account == wish.account,
            OfferRow.region == wish.region,
            OfferRow.capacity_type == wish.capacity_type,
        )
    ).all()
    return [to_offer(row) for row in rows]


def _offer(offers: Sequence[Offer], wish: Wish) -> Offer:
    """An offer of the type that the wish is counted in; which zone does not matter."""
    where = f"{wish.provider}/{wish.account} in {wish.region} as {wish.capacity_type}"
    if wish.instance_type is not None:
        named = [offer for offer in offers if offer.type.name == wish.instance_type]
        if not named:
            allowed = sorted({offer.type.name for offer in offers if _has(offer, wish.gpu)})
            raise AskError("instance_type", f"{wish.instance_type} is not offered by {where}", allowed)
        return named[0]
    fitting = [offer for offer in offers if _has(offer, wish.gpu)]
    type_ = best_type([offer.type for offer in fitting], wish.gpus or 0)
    if type_ is None:
        allowed = sorted({offer.type.accelerator.name for offer in offers if offer.type.accelerator})
        raise AskError("gpu", f"{wish.gpu} is not offered by {where}", allowed)
    return next(offer for offer in fitting if offer.type == type_)


def _has(offer: Offer, gpu: str | None) -> bool:
    accelerator = offer.type.accelerator
    return gpu is None or (accelerator is not None and accelerator.name == gpu)


def _quotas(session: Session, wish: Wish) -> list[Quota]:
    rows = session.exec(
        select(QuotaRow).where(QuotaRow.provider == wish.provider, QuotaRow.account == wish.account)
    ).all()
    return [to_quota(row) for row in rows if row.region in (wish.region, None)]


def _target(gate: Gate, offer: Offer, wish: Wish, instances: int) -> float | None:
    """The limit that is wanted in the end: what is asked for now, and what `up_to` is beyond it."""
    if gate.limit is None:
        return None
    if wish.up_to is None:
        return gate.limit
    wanted = wish.up_to if wish.instances is not None else instances_for(offer.type, wish.up_to)
    return gate.limit + max(0.0, needed(gate.quota.unit, offer.type, wanted - instances))


def _justified(ctx: Context, wish: Wish, offer: Offer, instances: int, gate: Gate) -> str:
    if gate.verdict is not Verdict.RAISE or gate.limit is None or gate.quota.limit is None:
        return ""
    desk, accelerator = ctx.settings.quota_desk, offer.type.accelerator
    about = {
        "provider": wish.provider,
        "account": wish.account,
        "region": gate.quota.region or "all regions",
        "place": wish.region,
        "quota": gate.quota.key,
        "name": gate.quota.name,
        "unit": str(gate.quota.unit),
        "limit_before": f"{gate.quota.limit:g}",
        "requested": f"{gate.limit:g}",
        "gpu": accelerator.name if accelerator else "CPU",
        "gpus": instances * (accelerator.count if accelerator else 0),
        "instance_type": offer.type.name,
        "instances": instances,
        "capacity_type": str(wish.capacity_type),
        "why": wish.why,
    }
    try:
        return render(desk.justification or TEMPLATE, about, desk.words)
    except TemplateFaultError as fault:
        raise AskError("justification", f"the template of the settings is at fault: {fault}") from None


def _adopted(
    session: Session, ctx: Context, one: Asked, standing: QuotaRequest, asker: Asker
) -> QuotaRequest:
    """The open request serves this wish too. Nobody makes more of it than they could ask for themselves: what
    is filed is what whoever may file has asked for, and a rule files no proposal but its own.
    """
    proposed = standing.state is QuotaRequestState.PROPOSED
    if proposed and asker.files and (asker.rule is None or asker.rule == standing.rule):
        standing.requested, standing.target = one.gate.limit, one.target
        standing.justification = one.justification or standing.justification
        approve_request(session, standing, asker.by, now=ctx.now())
    elif proposed and (one.gate.limit or 0.0) > (standing.requested or 0.0):
        standing.requested = one.gate.limit
        standing.target = max(standing.target or 0.0, one.target or 0.0)
        standing.justification = one.justification or standing.justification
        tell_new(session, standing, now=ctx.now())
    elif (proposed or asker.files) and one.target is not None:
        standing.target = max(standing.target or 0.0, one.target)
    session.add(standing)
    return standing


def _written(
    session: Session, ctx: Context, plan: AskPlan, one: Asked, asker: Asker, ask_id: str
) -> QuotaRequest:
    now, wish, quota = ctx.now(), plan.wish, one.gate.quota
    accelerator = plan.offer.type.accelerator
    row = QuotaRequest(
        id=new_id("qr", now, ctx.chance),
        ask_id=ask_id,
        provider=wish.provider,
        account=wish.account,
        region=quota.region,
        place_region=wish.region,
        quota_id=one.quota_id,
        key=quota.key,
        name=quota.name,
        unit=quota.unit,
        state=QuotaRequestState.DRAFT if asker.files else QuotaRequestState.PROPOSED,
        limit_before=quota.limit,
        requested=one.gate.limit,
        target=one.target,
        gpu=accelerator.name if accelerator else None,
        gpus=plan.gpus,
        instance_type=plan.offer.type.name,
        instances=plan.instances,
        capacity_type=wish.capacity_type,
        justification=one.justification,
        contact=ctx.settings.quota_desk.contact,
        origin=asker.origin,
        rule=asker.rule,
        requested_by=asker.by,
        project_id=asker.project_id,
        job_id=asker.job_id,
        created_at=now,
        wake_at=now if asker.files else _proposal_ends(ctx, now),
    )
    session.add(row)
    tell_new(session, row, now=now)
    return row


def _proposal_ends(ctx: Context, now: datetime) -> datetime:
    return now + timedelta(seconds=ctx.settings.quota_desk.proposals_last)


def tell_new(session: Session, row: QuotaRequest, *, now: datetime) -> None:
    """A request that has just been written is news."""
    who = f"rule {row.rule}" if row.rule else row.requested_by or row.origin
    said = "is about to be filed" if row.state is QuotaRequestState.DRAFT else "is proposed"
    record(
        session,
        f"quota_request_{row.state}",
        "quota_request",
        row.id,
        f"{asked_for(row)} {said} ({who})",
        at=now,
        job_id=row.job_id,
        project_id=row.project_id,
        to=str(row.state),
        origin=str(row.origin),
        rule=row.rule,
        **row.told(),
    )
