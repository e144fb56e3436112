"""What becomes of launches and instances, and jobs with a deadline."""

from __future__ import annotations

import sqlalchemy as sa
import sqlmodel.sql.sqltypes
from alembic import op

revision = "0006_observations"
down_revision = "0005_nodes"
branch_labels = None
depends_on = None

_TEXT = sqlmodel.sql.sqltypes.AutoString
_TIME = sqlmodel.sql.sqltypes.UTCDateTime
_CAPACITY = sa.Enum("reserved", "on_demand", "spot", native_enum=False, length=24)


def upgrade() -> None:
    op.create_table(
        "observation",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("at", _TIME(), nullable=False),
        sa.Column(
            "outcome",
            sa.Enum("granted", "refused", "lost", "left", native_enum=False, length=24),
            nullable=False,
        ),
        sa.Column("provider", _TEXT(length=16), nullable=False),
        sa.Column("account", _TEXT(length=40), nullable=False),
        sa.Column("region", _TEXT(length=64), nullable=False),
        sa.Column("zone", _TEXT(length=64), nullable=False),
        sa.Column("instance_type", _TEXT(length=64), nullable=False),
        sa.Column("capacity_type", _CAPACITY, nullable=False),
        sa.Column("gpu", _TEXT(length=40), nullable=True),
        sa.Column("gpus_per_node", sa.Integer(), nullable=False),
        sa.Column("nodes", sa.Integer(), nullable=False),
        sa.Column("seconds", sa.Float(), nullable=False),
        sa.Column("attempt_id", _TEXT(length=40), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_observation_at", "observation", ["at"], unique=False)
    op.create_index("observation_by_outcome", "observation", ["outcome", "at"], unique=False)
    op.create_table(
        "evidence",
        sa.Column("id", _TEXT(length=255), nullable=False),
        sa.Column("provider", _TEXT(length=16), nullable=False),
        sa.Column("account", _TEXT(length=40), nullable=False),
        sa.Column("region", _TEXT(length=64), nullable=False),
        sa.Column("zone", _TEXT(length=64), nullable=False),
        sa.Column("instance_type", _TEXT(length=64), nullable=False),
        sa.Column("capacity_type", _CAPACITY, nullable=False),
        sa.Column("available", sa.Boolean(), nullable=False),
        sa.Column("since", _TIME(), nullable=False),
        sa.Column("seen", _TIME(), nullable=False),
        sa.Column("up_seconds", sa.Float(), nullable=False),
        sa.Column("losses", sa.Float(), nullable=False),
        sa.Column("down_seconds", sa.Float(), nullable=False),
        sa.Column("gains", sa.Float(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_evidence_seen", "evidence", ["seen"], unique=False)
    op.add_column("job", sa.Column("deadline", _TIME(), nullable=True))
    op.add_column(
        "job", sa.Column("deadline_at_risk", sa.Boolean(), nullable=False, server_default=sa.false())
    )


def downgrade() -> None:
    op.drop_column("job", "deadline_at_risk")
    op.drop_column("job", "deadline")
    op.drop_index("ix_evidence_seen", table_name="evidence")
    op.drop_table("evidence")
    op.drop_index("observation_by_outcome", table_name="observation")
    op.drop_index("ix_observation_at", table_name="observation")
    op.drop_table("observation")
