"""What bears our tag but should not be there: orphans, and instances that came back from the dead.

Only what stood in a listing, is older than the grace time and is unknown to a database that is ours and not
empty is touched. An orphan is watched for a while first: one whose agent still speaks to us is somebody's
job, so it is quarantined and a person is told (`corral instance adopt|end`).
"""

from __future__ import annotations

from datetime import timedelta

from sqlmodel import Session, col, select

from providers.errors import ProviderError
from providers.interface import Provider
from providers.vocabulary import CapacityType, CloudInstance, Listing
from providers.vocabulary import InstanceState as CloudState
from service.context import Context
from service.events.record import record
from service.identifiers import new_id
from service.instances.model import Instance
from service.jobs.model import Job
from service.projects.model import Deployment
from service.states import InstanceState

# One that is stopping may be so for ever: what is left of a machine that is gone shows like that.
ALIVE = frozenset({CloudState.PENDING, CloudState.RUNNING, CloudState.STOPPING, CloudState.STOPPED})
ORPHAN = "orphan"
QUARANTINED = "quarantined"
ADOPTED = "adopted"
WATCHED_FOR = timedelta(minutes=5)


def sweep(ctx: Context, provider: Provider, region: str, listing: Listing) -> None:
    """Look through a listing for what should not be there."""
    alive = [fact for fact in listing.instances if fact.state in ALIVE]
    if not alive:
        return
    undead = ctx.database.write(lambda session: _sort(session, ctx, provider, region, alive))
    if undead:
        try:
            provider.terminate([row.ref for row in undead])
        except ProviderError:
            return  # the next listing shows them again


def _sort(
    session: Session, ctx: Context, provider: Provider, region: str, alive: list[CloudInstance]
) -> list[Instance]:
    """Enter orphans as rows; return the rows that are over with us and alive in the cloud."""
    ids = [fact.provider_id for fact in alive]
    rows = {
        row.provider_id: row
        for row in session.exec(
            select(Instance).where(
                Instance.provider == provider.provider,
                Instance.account == provider.account,
                col(Instance.provider_id).in_(ids),
            )
        ).all()
    }
    undead = [row for row in rows.values() if row.state is InstanceState.TERMINATED]
    if _may_sweep(session, ctx):
        for fact in alive:
            if fact.provider_id not in rows and not _launch_is_open(session, fact):
                _enter_orphan(session, ctx, provider, region, fact)
    return undead


def _may_sweep(session: Session, ctx: Context) -> bool:
    """Only a database that is ours, confirmed, and has known a job."""
    deployment = session.get(Deployment, ctx.deployment_id)
    known = session.exec(select(Job.id).limit(1)).first()
    return deployment is not None and deployment.sweep_confirmed and known is not None


def _launch_is_open(session: Session, fact: CloudInstance) -> bool:
    """True while the token is one of ours whose answer we have not written down yet."""
    token = fact.tags.get("corral-token")
    if token is None:
        return False
    waiting = select(Instance.id).where(
        Instance.token == token,
        col(Instance.provider_id).is_(None),
        col(Instance.state) != InstanceState.TERMINATED,
    )
    return session.exec(waiting.limit(1)).first() is not None


def _enter_orphan(
    session: Session, ctx: Context, provider: Provider, region: str, fact: CloudInstance
) -> None:
    now = ctx.now()
    grace = timedelta(seconds=ctx.settings.times.orphan_grace)
    if fact.created_at is None or now - fact.created_at < grace:
        return
    orphan = Instance(
        id=new_id("i", now, ctx.chance),
        node=fact.node or 0,
        token=fact.tags.get("corral-token", "")[:32],
        state=InstanceState.RUNNING,
        reason=ORPHAN,
        purpose=ORPHAN,
        provider=provider.provider,
        account=provider.account,
        region=region,
        zone=fact.zone,
        instance_type=fact.instance_type,
        capacity_type=fact.capacity_type or CapacityType.ON_DEMAND,
        provider_id=fact.provider_id,
        planned_at=now,
        running_at=fact.created_at,
        cloud_state=fact.state,
        cloud_seen_at=now,
        wake_at=now,
    )
    session.add(orphan)
    record(
        session,
        "orphan_found",
        "instance",
        orphan.id,
        f"{provider.provider}/{fact.zone}: {fact.provider_id} bears our tag and no row knows it; "
        "it is ended unless its agent speaks to us",
        at=now,
        provider_id=fact.provider_id,
    )
