"""When the log of an attempt was deleted."""

from __future__ import annotations

import sqlalchemy as sa
import sqlmodel.sql.sqltypes
from alembic import op

revision = "0007_logs_expired"
down_revision = "0006_observations"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("attempt", sa.Column("logs_expired_at", sqlmodel.sql.sqltypes.UTCDateTime(), nullable=True))


def downgrade() -> None:
    with op.batch_alter_table("attempt") as attempt:
        attempt.drop_column("logs_expired_at")
