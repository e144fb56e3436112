"""Standing nodes behind the interface of a cloud: a launch gives nodes out, an end asks for them back.

What the database says is the truth here, so nothing lags and no answer is lost. No machine is ever ended: an
instance of this provider is one use of a node by one attempt, and is over once the node's agent says that
nothing of it is left.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from sqlmodel import Session, col, select

from providers.errors import ErrorKind, ProviderError
from providers.quota_requests import CloudQuotaRequest, QuotaIncrease, QuotaRequestListing
from providers.quotas import QuotaListing
from providers.reservations import ReservationListing
from providers.signals import SignalListing
from providers.vocabulary import (
    CapacityType,
    CheckResult,
    CloudInstance,
    InstanceRef,
    InstanceState,
    Launched,
    LaunchRequest,
    Listing,
    OfferListing,
    Scope,
)
from service.context import STANDING, Context
from service.nodes.model import Node, NodeState
from service.nodes.pools import ACCOUNT, refresh


class StandingProvider:
    """All standing nodes of this service, as one account."""

    provider = STANDING
    account = ACCOUNT
    regions: tuple[str, ...] = ()
    consistency_window = timedelta(0)
    reclaims_powered_off = False

    def __init__(self, ctx: Context) -> None:
        self._ctx = ctx

    def check(self) -> Sequence[CheckResult]:
        return ()

    def offers(self, region: str) -> OfferListing:
        """None are read: pools are offered as they change."""
        return OfferListing(())

    def built_in_offers(self, region: str) -> OfferListing:
        return OfferListing(())

    def quotas(self, region: str) -> QuotaListing:
        return QuotaListing(())

    def spot_signals(self, region: str) -> SignalListing:
        return SignalListing(())

    def quota_requests(self, region: str) -> QuotaRequestListing:
        return QuotaRequestListing(())

    def request_quota(self, increase: QuotaIncrease) -> CloudQuotaRequest:
        raise ProviderError(ErrorKind.UNSUPPORTED, "nodes of ours have no quotas")

    def reservations(self, region: str) -> ReservationListing:
        """None are read: pools are counted as they change."""
        return ReservationListing(())

    def prepare(self, request: LaunchRequest) -> LaunchRequest:
        """A node has the image that it has."""
        if request.image is not None:
            scope = Scope(provider=STANDING, account=ACCOUNT, image=request.image)
            message = f"a standing node cannot boot the machine image {request.image}"
            raise ProviderError(ErrorKind.INVALID_REQUEST, message, code="MachineImage", scope=scope)
        return request.with_resolved(image="standing", subnet=None)

    def launch(self, request: LaunchRequest) -> Launched:
        """Give out as many free nodes of the pool as asked for, or refuse; the same token, the same nodes."""

        def give(session: Session) -> Launched:
            before = _of_token(session, request.token)
            nodes = before or _choose(session, self._ctx, request)
            refresh(session, self._ctx)
            return Launched(tuple(_shown(node) for node in nodes))

        return self._ctx.database.write(give)

    def find(self, request: LaunchRequest) -> Listing:
        nodes = self._ctx.database.read(lambda session: _of_token(session, request.token))
        return Listing(tuple(_shown(node) for node in nodes))

    def describe(self, refs: Sequence[InstanceRef]) -> Sequence[CloudInstance]:
        """A use that no node has any more is over."""
        ids = [ref.provider_id for ref in refs]
        in_use = select(Node).where(col(Node.use_id).in_(ids))
        rows = self._ctx.database.read(lambda session: session.exec(in_use).all())
        found = {node.use_id: node for node in rows}
        return [
            _shown(found[ref.provider_id])
            if ref.provider_id in found
            else CloudInstance(ref.provider_id, ref.region, ref.zone, InstanceState.TERMINATED)
            for ref in refs
        ]

    def list_instances(self, region: str, deployment: str) -> Listing:
        in_use = select(Node).where(
            Node.region == region, Node.deployment_id == deployment, col(Node.use_id).is_not(None)
        )
        rows = self._ctx.database.read(lambda session: session.exec(in_use).all())
        return Listing(tuple(_shown(node) for node in rows))

    def terminate(self, refs: Sequence[InstanceRef]) -> None:
        """Ask for the nodes back. One whose agent was never told of the use is free at once; any other when
        its agent says so.
        """
        ids = [ref.provider_id for ref in refs]

        def ask(session: Session) -> None:
            in_use = select(Node).where(col(Node.use_id).in_(ids)).order_by(col(Node.name)).with_for_update()
            for node in session.exec(in_use).all():
                if node.given_at is None:
                    free(node)
                else:
                    node.release_at = node.release_at or self._ctx.now()
                session.add(node)
            session.flush()
            refresh(session, self._ctx)

        self._ctx.database.write(ask)

    def close(self) -> None:
        """Nothing is held."""


def free(node: Node) -> None:
    """Nothing of its last use is left on a node."""
    node.use_id = node.token = node.rank = node.attempt_id = node.job_id = node.deployment_id = None
    node.assigned_at = node.given_at = node.release_at = None


def _of_token(session: Session, token: str) -> list[Node]:
    return list(session.exec(select(Node).where(Node.token == token).order_by(col(Node.rank))).all())


def _choose(session: Session, ctx: Context, request: LaunchRequest) -> list[Node]:
    key, now, silent_after = request.offer, ctx.now(), ctx.settings.times.silent_after
    of_pool = select(Node).where(Node.pool == key.reservation, Node.instance_type == key.instance_type)
    rows = session.exec(of_pool.order_by(col(Node.name)).with_for_update()).all()
    # Under the lock, once more: the same launch may have been sent twice at a time.
    given = [node for node in rows if node.token == request.token]
    if given:
        return sorted(given, key=lambda node: node.rank or 0)
    idle = [node for node in rows if node.state(now, silent_after) is NodeState.IDLE]
    if len(idle) < request.nodes:
        scope = Scope(provider=STANDING, account=ACCOUNT, region=key.region, reservation=key.reservation)
        message = f"{len(idle)} of {len(rows)} nodes of the pool {key.reservation} are free"
        raise ProviderError(ErrorKind.CAPACITY, message, code="PoolExhausted", scope=scope)
    for rank, node in enumerate(idle[: request.nodes]):
        node.use_id = f"{node.name}.{request.token[:16]}"
        node.token, node.rank, node.assigned_at = request.token, rank, now
        node.attempt_id, node.job_id = request.tags.get("corral-attempt"), request.tags.get("corral-job")
        node.deployment_id = request.tags.get("corral-deployment")
        session.add(node)
    session.flush()
    return idle[: request.nodes]


def _shown(node: Node) -> CloudInstance:
    return CloudInstance(
        provider_id=node.use_id or "",
        region=node.region,
        zone=node.zone,
        state=InstanceState.RUNNING if node.release_at is None else InstanceState.STOPPING,
        name=node.name,
        node=node.rank,
        tags={
            "corral-deployment": node.deployment_id or "",
            "corral-attempt": node.attempt_id or "",
            "corral-job": node.job_id or "",
            "corral-token": node.token or "",
        },
        instance_type=node.instance_type,
        capacity_type=CapacityType.RESERVED,
        created_at=node.assigned_at,
        private_ip=node.private_ip,
    )
