"""The first schema of a catalog."""

from __future__ import annotations

from alembic import op

from barograph.experiments.schema import METADATA

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make every table."""
    METADATA.create_all(op.get_bind())


def downgrade() -> None:
    """Take every table away."""
    METADATA.drop_all(op.get_bind())
