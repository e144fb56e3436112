"""Reservations, what vendors say of spot capacity, and offers that were not read yet.

Revision: 0004_reservations, after 0003_notifications.
"""

from __future__ import annotations

import sqlalchemy as sa
import sqlmodel.sql.sqltypes
from alembic import op
from sqlalchemy import Text
from sqlalchemy.dialects import postgresql

revision = "0004_reservations"
down_revision = "0003_notifications"
branch_labels = None
depends_on = None


def _text(length: int) -> sqlmodel.sql.sqltypes.AutoString:
    return sqlmodel.sql.sqltypes.AutoString(length=length)


def _place() -> tuple[sa.Column[str], ...]:
    lengths = {"provider": 16, "account": 40, "region": 64, "zone": 64}
    return tuple(sa.Column(name, _text(length), nullable=False) for name, length in lengths.items())


def upgrade() -> None:
    op.create_table(
        "reservation",
        *_place(),
        sa.Column("id", _text(255), nullable=False),
        sa.Column("name", _text(255), nullable=False),
        sa.Column(
            "kind",
            sa.Enum(
                "capacity_reservation",
                "capacity_block",
                "future_reservation",
                "standing",
                name="reservationkind",
                native_enum=False,
                length=24,
            ),
            nullable=False,
        ),
        sa.Column(
            "state",
            sa.Enum(
                "scheduled",
                "active",
                "ended",
                "unknown",
                name="reservationstate",
                native_enum=False,
                length=24,
            ),
            nullable=False,
        ),
        sa.Column("instance_type", _text(64), nullable=False),
        sa.Column(
            "type", sa.JSON().with_variant(postgresql.JSONB(astext_type=Text()), "postgresql"), nullable=False
        ),
        sa.Column("targeted", sa.Boolean(), nullable=False),
        sa.Column("total", sa.Integer(), nullable=True),
        sa.Column("used", sa.Integer(), nullable=True),
        sa.Column("starts_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("ends_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("price_micros", sa.Integer(), nullable=True),
        sa.Column("read_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("provider", "account", "region", "zone", "id"),
    )
    op.create_table(
        "signal",
        *_place(),
        sa.Column("instance_type", _text(64), nullable=False),
        sa.Column("source", _text(64), nullable=False),
        sa.Column("obtainability", sa.Float(), nullable=True),
        sa.Column("eviction_rate", sa.Float(), nullable=True),
        sa.Column("read_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("provider", "account", "region", "zone", "instance_type", "source"),
    )
    op.add_column("offer", sa.Column("built_in", sa.Boolean(), nullable=False, server_default=sa.false()))


def downgrade() -> None:
    op.drop_column("offer", "built_in")
    op.drop_table("signal")
    op.drop_table("reservation")
