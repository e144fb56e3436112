"""Pools of standing nodes as reservations: one row and one offer a pool, counted when something changes."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from functools import partial

from sqlmodel import Session, col, select

from providers.reservations import ReservationKind, ReservationState
from service.context import STANDING, Context
from service.db import after_commit
from service.events.record import record
from service.market.blocks import wake_waiting
from service.market.model import BlockRow
from service.nodes.model import Node, NodeState
from service.reservations.model import ReservationRow
from service.reservations.reader import drop, write

ACCOUNT = "nodes"


def refresh(session: Session, ctx: Context) -> None:
    """Bring the pools' counts up to date, and tell whose nodes fell silent. To be called after any change of
    a node.
    """
    now, silent_after = ctx.now(), ctx.settings.times.silent_after
    pools: dict[str, list[Node]] = defaultdict(list)
    for node in session.exec(select(Node).where(col(Node.enrolled_at).is_not(None))).all():
        pools[node.pool].append(node)
        _note_reachable(session, ctx, node, silent_after)
    rows = session.exec(select(ReservationRow).where(ReservationRow.provider == STANDING)).all()
    before = {row.id: row for row in rows}
    for pool, nodes in pools.items():
        _count(session, before.get(pool), _row(pool, nodes, now, silent_after), now)
    for pool in before.keys() - pools.keys():
        drop(session, before[pool])


def _row(pool: str, nodes: list[Node], now: datetime, silent_after: float) -> ReservationRow:
    """What can serve: nodes that are given away, and those that could be."""
    states = [node.state(now, silent_after) for node in nodes]
    used = sum(node.use_id is not None for node in nodes)
    first = min(nodes, key=lambda node: node.name)
    return ReservationRow(
        provider=STANDING,
        account=ACCOUNT,
        region=first.region,
        zone=first.zone,
        id=pool,
        name=pool,
        kind=ReservationKind.STANDING,
        state=ReservationState.ACTIVE,
        instance_type=first.instance_type,
        type={
            **first.type,
            "vcpus": min(node.type["vcpus"] for node in nodes),
            "memory_gib": min(node.type["memory_gib"] for node in nodes),
        },
        targeted=True,
        total=used + states.count(NodeState.IDLE),
        used=used,
        price_micros=first.price_micros or None,
        read_at=now,
    )


def _count(session: Session, before: ReservationRow | None, row: ReservationRow, now: datetime) -> None:
    same = ("total", "used", "type", "price_micros", "zone", "region")
    if before is not None and all(getattr(before, name) == getattr(row, name) for name in same):
        return
    free_before = 0 if before is None else (before.total or 0) - (before.used or 0)
    write(session, row, now)
    if (row.total or 0) - (row.used or 0) > free_before:
        # That it was full is no longer true.
        for block in session.exec(select(BlockRow)).all():
            if (block.scope.get("provider"), block.scope.get("reservation")) == (STANDING, row.id):
                session.delete(block)
        wake_waiting(session, now)


def _note_reachable(session: Session, ctx: Context, node: Node, silent_after: float) -> None:
    now = ctx.now()
    reachable = not node.is_silent(now, silent_after)
    if reachable == node.reachable:
        return
    node.reachable = reachable
    session.add(node)
    after_commit(session, partial(ctx.wake, "nodes"))
    kind = "node_reachable" if reachable else "node_unreachable"
    words = "speaks" if reachable else f"has not spoken for {silent_after:.0f} s; it is not offered"
    record(session, kind, "node", node.id, f"node {node.name} {words}", at=now, job_id=node.job_id)
