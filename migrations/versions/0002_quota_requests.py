"""Requests for more quota, and the history of limits and usage."""

from __future__ import annotations

import sqlalchemy as sa
import sqlmodel.sql.sqltypes
from alembic import op

revision = "0002_quota_requests"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "quota_reading",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("quota_id", sqlmodel.sql.sqltypes.AutoString(length=255), nullable=False),
        sa.Column("read_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=False),
        sa.Column("limit", sa.Float(), nullable=True),
        sa.Column("usage", sa.Float(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_quota_reading_read_at", "quota_reading", ["read_at"], unique=False)
    op.create_index("quota_reading_by_quota", "quota_reading", ["quota_id", "read_at"], unique=False)

    op.create_table(
        "quota_request",
        sa.Column("claim_owner", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=True),
        sa.Column("claim_token", sqlmodel.sql.sqltypes.AutoString(length=32), nullable=True),
        sa.Column("claim_until", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("wake_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("id", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.Column("ask_id", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.Column("provider", sqlmodel.sql.sqltypes.AutoString(length=16), nullable=False),
        sa.Column("account", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.Column("region", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=True),
        sa.Column("place_region", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=False),
        sa.Column("quota_id", sqlmodel.sql.sqltypes.AutoString(length=255), nullable=False),
        sa.Column("key", sqlmodel.sql.sqltypes.AutoString(length=128), nullable=False),
        sa.Column("name", sqlmodel.sql.sqltypes.AutoString(length=255), nullable=False),
        sa.Column(
            "unit",
            sa.Enum("vcpu", "gpu", "instance", name="quotaunit", native_enum=False, length=24),
            nullable=True,
        ),
        sa.Column(
            "state",
            sa.Enum(
                "proposed",
                "draft",
                "filed",
                "in_review",
                "approved",
                "partly_granted",
                "denied",
                "expired",
                "withdrawn",
                name="quotarequeststate",
                native_enum=False,
                length=24,
            ),
            nullable=False,
        ),
        sa.Column("reason", sqlmodel.sql.sqltypes.AutoString(length=32), nullable=True),
        sa.Column("detail", sqlmodel.sql.sqltypes.AutoString(), nullable=False),
        sa.Column("error", sqlmodel.sql.sqltypes.AutoString(), nullable=True),
        sa.Column("limit_before", sa.Float(), nullable=True),
        sa.Column("requested", sa.Float(), nullable=True),
        sa.Column("granted", sa.Float(), nullable=True),
        sa.Column("target", sa.Float(), nullable=True),
        sa.Column("gpu", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=True),
        sa.Column("gpus", sa.Integer(), nullable=True),
        sa.Column("instance_type", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=True),
        sa.Column("instances", sa.Integer(), nullable=True),
        sa.Column(
            "capacity_type",
            sa.Enum("reserved", "on_demand", "spot", name="capacitytype", native_enum=False, length=24),
            nullable=True,
        ),
        sa.Column("justification", sqlmodel.sql.sqltypes.AutoString(), nullable=False),
        sa.Column("contact", sqlmodel.sql.sqltypes.AutoString(length=255), nullable=True),
        sa.Column(
            "origin",
            sa.Enum("person", "rule", "refile", "console", name="origin", native_enum=False, length=24),
            nullable=False,
        ),
        sa.Column("rule", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=True),
        sa.Column("requested_by", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=True),
        sa.Column("decided_by", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=True),
        sa.Column("project_id", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=True),
        sa.Column("job_id", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=True),
        sa.Column("provider_id", sqlmodel.sql.sqltypes.AutoString(length=255), nullable=True),
        sa.Column("created_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=False),
        sa.Column("sent_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("filed_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("decided_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("closed_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("effective_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("seen_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("found_decided", sa.Boolean(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("follows", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=True),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_quota_request_ask_id", "quota_request", ["ask_id"], unique=False)
    op.create_index("ix_quota_request_created_at", "quota_request", ["created_at"], unique=False)
    op.create_index("ix_quota_request_job_id", "quota_request", ["job_id"], unique=False)
    op.create_index("ix_quota_request_state", "quota_request", ["state"], unique=False)
    op.create_index("ix_quota_request_wake_at", "quota_request", ["wake_at"], unique=False)
    op.create_index(
        "quota_request_by_place", "quota_request", ["provider", "account", "place_region"], unique=False
    )
    op.create_index("quota_request_by_quota", "quota_request", ["quota_id", "state"], unique=False)


def downgrade() -> None:

    op.drop_index("quota_request_by_quota", table_name="quota_request")
    op.drop_index("quota_request_by_place", table_name="quota_request")
    op.drop_index("ix_quota_request_wake_at", table_name="quota_request")
    op.drop_index("ix_quota_request_state", table_name="quota_request")
    op.drop_index("ix_quota_request_job_id", table_name="quota_request")
    op.drop_index("ix_quota_request_created_at", table_name="quota_request")
    op.drop_index("ix_quota_request_ask_id", table_name="quota_request")

    op.drop_table("quota_request")
    op.drop_index("quota_reading_by_quota", table_name="quota_reading")
    op.drop_index("ix_quota_reading_read_at", table_name="quota_reading")

    op.drop_table("quota_reading")
