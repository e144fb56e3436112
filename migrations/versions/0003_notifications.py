"""Notifications: the outbox, notices, messages, channels, threads."""

from __future__ import annotations

import sqlalchemy as sa
import sqlmodel.sql.sqltypes
from alembic import op
from sqlalchemy import Text
from sqlalchemy.dialects import postgresql

revision = "0003_notifications"
down_revision = "0002_quota_requests"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "channel",
        sa.Column("claim_owner", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=True),
        sa.Column("claim_token", sqlmodel.sql.sqltypes.AutoString(length=32), nullable=True),
        sa.Column("claim_until", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("wake_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("id", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.Column("closed_until", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("error", sqlmodel.sql.sqltypes.AutoString(length=500), nullable=True),
        sa.Column("sent_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_channel_wake_at", "channel", ["wake_at"], unique=False)
    op.create_table(
        "message",
        sa.Column("id", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.Column("channel", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.Column("form", sqlmodel.sql.sqltypes.AutoString(length=16), nullable=False),
        sa.Column("subject", sqlmodel.sql.sqltypes.AutoString(length=96), nullable=True),
        sa.Column("topic", sqlmodel.sql.sqltypes.AutoString(length=48), nullable=True),
        sa.Column(
            "severity",
            sa.Enum("info", "warning", "error", "page", name="severity", native_enum=False, length=24),
            nullable=False,
        ),
        sa.Column("size", sa.Integer(), nullable=False),
        sa.Column(
            "state",
            sa.Enum("waiting", "sending", "sent", "dead", name="messagestate", native_enum=False, length=24),
            nullable=False,
        ),
        sa.Column("uncertain", sa.Boolean(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("error", sqlmodel.sql.sqltypes.AutoString(length=500), nullable=True),
        sa.Column(
            "receipt",
            sa.JSON().with_variant(postgresql.JSONB(astext_type=Text()), "postgresql"),
            nullable=False,
        ),
        sa.Column("created_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=False),
        sa.Column("sent_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_message_created_at", "message", ["created_at"], unique=False)
    op.create_index("message_by_channel", "message", ["channel", "state", "id"], unique=False)
    op.create_table(
        "notice",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("event_id", sa.BigInteger(), nullable=False),
        sa.Column("channel", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.Column("topic", sqlmodel.sql.sqltypes.AutoString(length=48), nullable=False),
        sa.Column(
            "severity",
            sa.Enum("info", "warning", "error", "page", name="severity", native_enum=False, length=24),
            nullable=False,
        ),
        sa.Column("subject", sqlmodel.sql.sqltypes.AutoString(length=96), nullable=False),
        sa.Column("due_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=False),
        sa.Column("held", sa.Boolean(), nullable=False),
        sa.Column("message_id", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_notice_message_id", "notice", ["message_id"], unique=False)
    op.create_index("notice_by_channel", "notice", ["channel", "message_id", "due_at"], unique=False)
    op.create_table(
        "outbox",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("event_id", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "thread",
        sa.Column("id", sqlmodel.sql.sqltypes.AutoString(length=160), nullable=False),
        sa.Column("channel", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.Column("subject", sqlmodel.sql.sqltypes.AutoString(length=96), nullable=False),
        sa.Column(
            "receipt",
            sa.JSON().with_variant(postgresql.JSONB(astext_type=Text()), "postgresql"),
            nullable=False,
        ),
        sa.Column("updated_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_thread_updated_at", "thread", ["updated_at"], unique=False)


def downgrade() -> None:
    op.drop_index("ix_thread_updated_at", table_name="thread")
    op.drop_table("thread")
    op.drop_table("outbox")
    op.drop_index("notice_by_channel", table_name="notice")
    op.drop_index("ix_notice_message_id", table_name="notice")
    op.drop_table("notice")
    op.drop_index("message_by_channel", table_name="message")
    op.drop_index("ix_message_created_at", table_name="message")
    op.drop_table("message")
    op.drop_index("ix_channel_wake_at", table_name="channel")
    op.drop_table("channel")
