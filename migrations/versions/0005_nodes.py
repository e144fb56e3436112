"""Standing nodes.

Revision: 0005_nodes, after 0004_reservations.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
import sqlmodel.sql.sqltypes
from alembic import op
from sqlalchemy import Text
from sqlalchemy.dialects import postgresql

revision = "0005_nodes"
down_revision = "0004_reservations"
branch_labels = None
depends_on = None


def _text(name: str, length: int, *, nullable: bool = False) -> sa.Column[Any]:
    return sa.Column(name, sqlmodel.sql.sqltypes.AutoString(length=length), nullable=nullable)


def _time(name: str, *, nullable: bool = True) -> sa.Column[Any]:
    return sa.Column(name, sqlmodel.sql.sqltypes.UTCDateTime(), nullable=nullable)


def _document(name: str) -> sa.Column[Any]:
    kind = sa.JSON().with_variant(postgresql.JSONB(astext_type=Text()), "postgresql")
    return sa.Column(name, kind, nullable=False)


def upgrade() -> None:
    op.create_table(
        "node",
        _text("id", 40),
        _text("name", 40),
        _text("pool", 40),
        _text("region", 64),
        _text("zone", 64),
        _text("instance_type", 64),
        _document("type"),
        sa.Column("price_micros", sa.Integer(), nullable=False),
        sa.Column("draining", sa.Boolean(), nullable=False),
        _time("created_at", nullable=False),
        _text("created_by", 40),
        _text("enrol_hash", 64, nullable=True),
        _time("enrol_until"),
        _time("enrolled_at"),
        _text("session_hash", 64, nullable=True),
        _time("seen_at"),
        sa.Column("reachable", sa.Boolean(), nullable=False),
        _text("agent_version", 32, nullable=True),
        _text("boot_id", 64, nullable=True),
        _text("private_ip", 45, nullable=True),
        _document("facts"),
        _text("use_id", 80, nullable=True),
        _text("token", 32, nullable=True),
        sa.Column("rank", sa.Integer(), nullable=True),
        _text("attempt_id", 40, nullable=True),
        _text("job_id", 40, nullable=True),
        _text("deployment_id", 40, nullable=True),
        _time("assigned_at"),
        _time("given_at"),
        _time("release_at"),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
    )
    for column in ("pool", "enrol_hash", "session_hash", "use_id", "token"):
        op.create_index(f"ix_node_{column}", "node", [column], unique=False)


def downgrade() -> None:
    op.drop_table("node")
