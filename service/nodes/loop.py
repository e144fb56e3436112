"""The nodes loop: notices which nodes have fallen silent, and counts the pools anew."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlmodel import Session, col, select

from service.context import Context
from service.nodes.model import Node
from service.nodes.pools import refresh


def step(ctx: Context) -> datetime | None:
    """Look whether a node's time to speak is over; when the next one's is."""
    due = ctx.database.read(lambda session: _next_due(session, ctx))
    if due is not None and due <= ctx.now():
        ctx.database.write(lambda session: refresh(session, ctx))
        return ctx.database.read(lambda session: _next_due(session, ctx))
    return due


def _next_due(session: Session, ctx: Context) -> datetime | None:
    """When the first of the nodes that count as reachable will have been silent for too long."""
    spoke = select(Node.seen_at).where(col(Node.reachable).is_(True)).order_by(col(Node.seen_at)).limit(1)
    seen = session.exec(spoke).first()
    return None if seen is None else seen + timedelta(seconds=ctx.settings.times.silent_after)
