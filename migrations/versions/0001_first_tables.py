"""The first tables.

Revision: 0001, the first. Changes are made by further migrations, never here.
"""

from __future__ import annotations

import sqlalchemy as sa
import sqlmodel.sql.sqltypes
from alembic import op
from sqlalchemy import Text
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "block",
        sa.Column("id", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=False),
        sa.Column("kind", sqlmodel.sql.sqltypes.AutoString(length=24), nullable=False),
        sa.Column(
            "scope",
            sa.JSON().with_variant(postgresql.JSONB(astext_type=Text()), "postgresql"),
            nullable=False,
        ),
        sa.Column("code", sqlmodel.sql.sqltypes.AutoString(length=128), nullable=False),
        sa.Column("message", sqlmodel.sql.sqltypes.AutoString(), nullable=False),
        sa.Column("since", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=False),
        sa.Column("until", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("repeats", sa.Integer(), nullable=False),
        sa.Column("trial_attempt", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_block_until", "block", ["until"], unique=False)

    op.create_table(
        "deployment",
        sa.Column("id", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.Column("created_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=False),
        sa.Column("sweep_confirmed", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "event",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=False),
        sa.Column("kind", sqlmodel.sql.sqltypes.AutoString(length=48), nullable=False),
        sa.Column("subject", sqlmodel.sql.sqltypes.AutoString(length=16), nullable=False),
        sa.Column("subject_id", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=False),
        sa.Column("job_id", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=True),
        sa.Column("project_id", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=True),
        sa.Column("message", sqlmodel.sql.sqltypes.AutoString(), nullable=False),
        sa.Column(
            "data", sa.JSON().with_variant(postgresql.JSONB(astext_type=Text()), "postgresql"), nullable=False
        ),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("event_by_job", "event", ["job_id", "id"], unique=False)
    op.create_index("event_by_subject", "event", ["subject", "subject_id", "id"], unique=False)
    op.create_index("ix_event_at", "event", ["at"], unique=False)
    op.create_index("ix_event_project_id", "event", ["project_id"], unique=False)

    op.create_table(
        "instance",
        sa.Column("claim_owner", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=True),
        sa.Column("claim_token", sqlmodel.sql.sqltypes.AutoString(length=32), nullable=True),
        sa.Column("claim_until", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("wake_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("id", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.Column("node", sa.Integer(), nullable=False),
        sa.Column("token", sqlmodel.sql.sqltypes.AutoString(length=32), nullable=False),
        sa.Column(
            "state",
            sa.Enum(
                "planned",
                "requested",
                "unconfirmed",
                "pending",
                "running",
                "terminating",
                "terminated",
                name="instancestate",
                native_enum=False,
                length=24,
            ),
            nullable=False,
        ),
        sa.Column("reason", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=True),
        sa.Column("purpose", sqlmodel.sql.sqltypes.AutoString(length=16), nullable=False),
        sa.Column("provider", sqlmodel.sql.sqltypes.AutoString(length=16), nullable=False),
        sa.Column("account", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.Column("region", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=False),
        sa.Column("zone", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=False),
        sa.Column("instance_type", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=False),
        sa.Column(
            "capacity_type",
            sa.Enum("reserved", "on_demand", "spot", name="capacitytype", native_enum=False, length=24),
            nullable=False,
        ),
        sa.Column("provider_id", sqlmodel.sql.sqltypes.AutoString(length=255), nullable=True),
        sa.Column("operation", sqlmodel.sql.sqltypes.AutoString(length=4096), nullable=True),
        sa.Column("planned_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=False),
        sa.Column("requested_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("running_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("terminating_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("terminate_sent_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("terminate_tries", sa.Integer(), nullable=False),
        sa.Column("terminated_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("ending_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column(
            "cloud_state",
            sa.Enum(
                "pending",
                "running",
                "stopping",
                "stopped",
                "terminated",
                "absent",
                "unknown",
                name="instancestate",
                native_enum=False,
                length=24,
            ),
            nullable=True,
        ),
        sa.Column("cloud_seen_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column(
            "cloud_end_reason",
            sa.Enum(
                "preempted",
                "user",
                "capacity",
                "host_failure",
                "max_age",
                "unknown",
                name="endreason",
                native_enum=False,
                length=24,
            ),
            nullable=True,
        ),
        sa.Column("unknown_since", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("private_ip", sqlmodel.sql.sqltypes.AutoString(length=45), nullable=True),
        sa.Column("public_ip", sqlmodel.sql.sqltypes.AutoString(length=45), nullable=True),
        sa.Column("reachable", sa.Boolean(), nullable=False),
        sa.Column("session_hash", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=True),
        sa.Column("agent_version", sqlmodel.sql.sqltypes.AutoString(length=32), nullable=True),
        sa.Column(
            "agent_state",
            sa.Enum(
                "preparing",
                "ready",
                "running",
                "draining",
                "exited",
                name="agentstate",
                native_enum=False,
                length=24,
            ),
            nullable=True,
        ),
        sa.Column("agent_seen_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("boot_id", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=True),
        sa.Column(
            "facts",
            sa.JSON().with_variant(postgresql.JSONB(astext_type=Text()), "postgresql"),
            nullable=False,
        ),
        sa.Column("notice_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("notice_deadline", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("notice_kind", sqlmodel.sql.sqltypes.AutoString(length=24), nullable=True),
        sa.Column("exit_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("exit_reason", sqlmodel.sql.sqltypes.AutoString(length=24), nullable=True),
        sa.Column("exit_detail", sqlmodel.sql.sqltypes.AutoString(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("instance_by_place", "instance", ["provider", "account", "region", "state"], unique=False)
    op.create_index("instance_by_provider_id", "instance", ["provider_id"], unique=False)
    op.create_index("instance_by_state", "instance", ["state", "wake_at"], unique=False)
    op.create_index("ix_instance_session_hash", "instance", ["session_hash"], unique=False)
    op.create_index("ix_instance_token", "instance", ["token"], unique=False)
    op.create_index("ix_instance_wake_at", "instance", ["wake_at"], unique=False)

    op.create_table(
        "offer",
        sa.Column("id", sqlmodel.sql.sqltypes.AutoString(length=255), nullable=False),
        sa.Column("provider", sqlmodel.sql.sqltypes.AutoString(length=16), nullable=False),
        sa.Column("account", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.Column("region", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=False),
        sa.Column("zone", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=False),
        sa.Column("instance_type", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=False),
        sa.Column(
            "capacity_type",
            sa.Enum("reserved", "on_demand", "spot", name="capacitytype", native_enum=False, length=24),
            nullable=False,
        ),
        sa.Column("reservation", sqlmodel.sql.sqltypes.AutoString(length=255), nullable=True),
        sa.Column("price_micros", sa.Integer(), nullable=True),
        sa.Column("priced_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("price_source", sqlmodel.sql.sqltypes.AutoString(length=16), nullable=False),
        sa.Column("subnet", sqlmodel.sql.sqltypes.AutoString(length=255), nullable=True),
        sa.Column(
            "type", sa.JSON().with_variant(postgresql.JSONB(astext_type=Text()), "postgresql"), nullable=False
        ),
        sa.Column("seen_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("offer_by_place", "offer", ["provider", "account", "region"], unique=False)

    op.create_table(
        "poll",
        sa.Column("claim_owner", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=True),
        sa.Column("claim_token", sqlmodel.sql.sqltypes.AutoString(length=32), nullable=True),
        sa.Column("claim_until", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("wake_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("id", sqlmodel.sql.sqltypes.AutoString(length=160), nullable=False),
        sa.Column("kind", sqlmodel.sql.sqltypes.AutoString(length=16), nullable=False),
        sa.Column("provider", sqlmodel.sql.sqltypes.AutoString(length=16), nullable=False),
        sa.Column("account", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.Column("region", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=False),
        sa.Column("tried_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("succeeded_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("error", sqlmodel.sql.sqltypes.AutoString(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("ix_poll_wake_at", "poll", ["wake_at"], unique=False)

    op.create_table(
        "quota",
        sa.Column("id", sqlmodel.sql.sqltypes.AutoString(length=255), nullable=False),
        sa.Column("provider", sqlmodel.sql.sqltypes.AutoString(length=16), nullable=False),
        sa.Column("account", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.Column("region", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=True),
        sa.Column("key", sqlmodel.sql.sqltypes.AutoString(length=128), nullable=False),
        sa.Column("name", sqlmodel.sql.sqltypes.AutoString(length=255), nullable=False),
        sa.Column(
            "unit",
            sa.Enum("vcpu", "gpu", "instance", name="quotaunit", native_enum=False, length=24),
            nullable=False,
        ),
        sa.Column("limit", sa.Float(), nullable=True),
        sa.Column("usage", sa.Float(), nullable=True),
        sa.Column(
            "gates",
            sa.JSON().with_variant(postgresql.JSONB(astext_type=Text()), "postgresql"),
            nullable=False,
        ),
        sa.Column("adjustable", sa.Boolean(), nullable=True),
        sa.Column("read_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_index("quota_by_place", "quota", ["provider", "account", "region"], unique=False)

    op.create_table(
        "project",
        sa.Column("id", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.Column("name", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.Column("created_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "blob",
        sa.Column("project_id", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.Column("sha256", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=False),
        sa.Column("used_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["project.id"],
        ),
        sa.PrimaryKeyConstraint("project_id", "sha256"),
    )
    op.create_table(
        "job",
        sa.Column("claim_owner", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=True),
        sa.Column("claim_token", sqlmodel.sql.sqltypes.AutoString(length=32), nullable=True),
        sa.Column("claim_until", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("wake_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("id", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.Column("project_id", sqlmodel.sql.sqltypes.AutoString(), nullable=False),
        sa.Column("name", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=False),
        sa.Column(
            "run_class",
            sa.Enum("core", "exploration", "preprocessing", name="runclass", native_enum=False, length=24),
            nullable=False,
        ),
        sa.Column("priority", sa.Integer(), nullable=False),
        sa.Column(
            "state",
            sa.Enum(
                "queued",
                "starting",
                "running",
                "stopping",
                "succeeded",
                "failed",
                "cancelled",
                name="jobstate",
                native_enum=False,
                length=24,
            ),
            nullable=False,
        ),
        sa.Column("reason", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=True),
        sa.Column("detail", sqlmodel.sql.sqltypes.AutoString(), nullable=True),
        sa.Column(
            "spec", sa.JSON().with_variant(postgresql.JSONB(astext_type=Text()), "postgresql"), nullable=False
        ),
        sa.Column("idempotency_key", sqlmodel.sql.sqltypes.AutoString(length=128), nullable=True),
        sa.Column("body_hash", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=False),
        sa.Column("submitted_by", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.Column("submitted_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=False),
        sa.Column("waiting_since", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("started_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("ended_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("cancel_requested_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("checkpoint", sqlmodel.sql.sqltypes.AutoString(length=255), nullable=True),
        sa.Column("checkpoint_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column(
            "decision",
            sa.JSON().with_variant(postgresql.JSONB(astext_type=Text()), "postgresql"),
            nullable=False,
        ),
        sa.Column(
            "retries_used",
            sa.JSON().with_variant(postgresql.JSONB(astext_type=Text()), "postgresql"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["project.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("project_id", "idempotency_key"),
    )
    op.create_index("ix_job_wake_at", "job", ["wake_at"], unique=False)
    op.create_index("job_by_project", "job", ["project_id", "submitted_at", "id"], unique=False)
    op.create_index("job_by_state", "job", ["state", "priority", "submitted_at"], unique=False)
    op.create_index("job_by_time", "job", ["submitted_at", "id"], unique=False)

    op.create_table(
        "secret",
        sa.Column("id", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.Column("project_id", sqlmodel.sql.sqltypes.AutoString(), nullable=False),
        sa.Column("name", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=False),
        sa.Column("ciphertext", sa.LargeBinary(), nullable=False),
        sa.Column("key_id", sqlmodel.sql.sqltypes.AutoString(length=16), nullable=False),
        sa.Column("updated_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["project.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("project_id", "name"),
    )
    op.create_index("ix_secret_project_id", "secret", ["project_id"], unique=False)

    op.create_table(
        "token",
        sa.Column("id", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.Column("name", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=False),
        sa.Column("project_id", sqlmodel.sql.sqltypes.AutoString(), nullable=True),
        sa.Column(
            "role",
            sa.Enum("admin", "member", "viewer", name="role", native_enum=False, length=24),
            nullable=False,
        ),
        sa.Column("hash", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=False),
        sa.Column("created_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=False),
        sa.Column("expires_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("revoked_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("last_used_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["project.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("hash"),
    )
    op.create_index("ix_token_project_id", "token", ["project_id"], unique=False)

    op.create_table(
        "attempt",
        sa.Column("claim_owner", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=True),
        sa.Column("claim_token", sqlmodel.sql.sqltypes.AutoString(length=32), nullable=True),
        sa.Column("claim_until", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("wake_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("id", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.Column("job_id", sqlmodel.sql.sqltypes.AutoString(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column(
            "state",
            sa.Enum(
                "planned",
                "launching",
                "booting",
                "running",
                "draining",
                "ended",
                name="attemptstate",
                native_enum=False,
                length=24,
            ),
            nullable=False,
        ),
        sa.Column("reason", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=True),
        sa.Column("detail", sqlmodel.sql.sqltypes.AutoString(), nullable=True),
        sa.Column("provider", sqlmodel.sql.sqltypes.AutoString(length=16), nullable=False),
        sa.Column("account", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.Column("region", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=False),
        sa.Column("zone", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=False),
        sa.Column("instance_type", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=False),
        sa.Column(
            "capacity_type",
            sa.Enum("reserved", "on_demand", "spot", name="capacitytype", native_enum=False, length=24),
            nullable=False,
        ),
        sa.Column("reservation", sqlmodel.sql.sqltypes.AutoString(length=255), nullable=True),
        sa.Column("nodes", sa.Integer(), nullable=False),
        sa.Column("gpus_per_node", sa.Integer(), nullable=False),
        sa.Column("price_micros", sa.Integer(), nullable=False),
        sa.Column("token", sqlmodel.sql.sqltypes.AutoString(length=32), nullable=False),
        sa.Column(
            "request",
            sa.JSON().with_variant(postgresql.JSONB(astext_type=Text()), "postgresql"),
            nullable=False,
        ),
        sa.Column("operation", sqlmodel.sql.sqltypes.AutoString(length=4096), nullable=True),
        sa.Column("replaces", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=True),
        sa.Column("master_port", sa.Integer(), nullable=True),
        sa.Column("planned_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=False),
        sa.Column("sent_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("sends", sa.Integer(), nullable=False),
        sa.Column("unseen_since", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("accepted_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("proved_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("launch_deadline", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("boot_deadline", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("may_start_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("running_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("run_deadline", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("drain_reason", sqlmodel.sql.sqltypes.AutoString(length=64), nullable=True),
        sa.Column("draining_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("drain_deadline", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("ended_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("error_kind", sqlmodel.sql.sqltypes.AutoString(length=24), nullable=True),
        sa.Column("error_code", sqlmodel.sql.sqltypes.AutoString(length=128), nullable=True),
        sa.Column("checkpoint", sqlmodel.sql.sqltypes.AutoString(length=255), nullable=True),
        sa.Column("checkpoint_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["job_id"],
            ["job.id"],
        ),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("job_id", "number"),
        sa.UniqueConstraint("token"),
    )
    op.create_index("attempt_by_state", "attempt", ["state", "wake_at"], unique=False)
    op.create_index("ix_attempt_job_id", "attempt", ["job_id"], unique=False)
    op.create_index("ix_attempt_wake_at", "attempt", ["wake_at"], unique=False)

    op.create_table(
        "attempt_instance",
        sa.Column("attempt_id", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("instance_id", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt_id"],
            ["attempt.id"],
        ),
        sa.ForeignKeyConstraint(
            ["instance_id"],
            ["instance.id"],
        ),
        sa.PrimaryKeyConstraint("attempt_id", "rank"),
    )
    op.create_index("ix_attempt_instance_instance_id", "attempt_instance", ["instance_id"], unique=False)

    op.create_table(
        "charge",
        sa.Column("attempt_id", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.Column("instance_id", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.Column("starts", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=False),
        sa.Column("job_id", sqlmodel.sql.sqltypes.AutoString(), nullable=False),
        sa.Column("project_id", sqlmodel.sql.sqltypes.AutoString(), nullable=False),
        sa.Column("ends", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True),
        sa.Column("price_micros", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt_id"],
            ["attempt.id"],
        ),
        sa.ForeignKeyConstraint(
            ["instance_id"],
            ["instance.id"],
        ),
        sa.ForeignKeyConstraint(
            ["job_id"],
            ["job.id"],
        ),
        sa.ForeignKeyConstraint(
            ["project_id"],
            ["project.id"],
        ),
        sa.PrimaryKeyConstraint("attempt_id", "instance_id", "starts"),
    )
    op.create_index("ix_charge_job_id", "charge", ["job_id"], unique=False)
    op.create_index("ix_charge_project_id", "charge", ["project_id"], unique=False)

    op.create_table(
        "log_chunk",
        sa.Column("attempt_id", sqlmodel.sql.sqltypes.AutoString(length=40), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("offset", sa.BigInteger(), nullable=False),
        sa.Column("bytes", sa.Integer(), nullable=False),
        sa.Column("received_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt_id"],
            ["attempt.id"],
        ),
        sa.PrimaryKeyConstraint("attempt_id", "rank", "offset"),
    )


def downgrade() -> None:
    op.drop_table("log_chunk")
    op.drop_index("ix_charge_project_id", table_name="charge")
    op.drop_index("ix_charge_job_id", table_name="charge")

    op.drop_table("charge")
    op.drop_index("ix_attempt_instance_instance_id", table_name="attempt_instance")

    op.drop_table("attempt_instance")
    op.drop_index("ix_attempt_wake_at", table_name="attempt")
    op.drop_index("ix_attempt_job_id", table_name="attempt")
    op.drop_index("attempt_by_state", table_name="attempt")

    op.drop_table("attempt")
    op.drop_index("ix_token_project_id", table_name="token")

    op.drop_table("token")
    op.drop_index("ix_secret_project_id", table_name="secret")

    op.drop_table("secret")
    op.drop_index("job_by_time", table_name="job")
    op.drop_index("job_by_state", table_name="job")
    op.drop_index("job_by_project", table_name="job")
    op.drop_index("ix_job_wake_at", table_name="job")

    op.drop_table("job")
    op.drop_table("blob")
    op.drop_table("project")
    op.drop_index("quota_by_place", table_name="quota")

    op.drop_table("quota")
    op.drop_index("ix_poll_wake_at", table_name="poll")

    op.drop_table("poll")
    op.drop_index("offer_by_place", table_name="offer")

    op.drop_table("offer")
    op.drop_index("ix_instance_wake_at", table_name="instance")
    op.drop_index("ix_instance_token", table_name="instance")
    op.drop_index("ix_instance_session_hash", table_name="instance")
    op.drop_index("instance_by_state", table_name="instance")
    op.drop_index("instance_by_provider_id", table_name="instance")
    op.drop_index("instance_by_place", table_name="instance")

    op.drop_table("instance")
    op.drop_index("ix_event_project_id", table_name="event")
    op.drop_index("ix_event_at", table_name="event")
    op.drop_index("event_by_subject", table_name="event")
    op.drop_index("event_by_job", table_name="event")

    op.drop_table("event")
    op.drop_table("deployment")
    op.drop_index("ix_block_until", table_name="block")

    op.drop_table("block")
