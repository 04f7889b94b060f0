"""An index by which the newest items of a large catalog are found without sorting all."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the index."""
    op.create_index("items_by_age", "items", ["archived", "deleted_unix", "created_unix"])


def downgrade() -> None:
    """Take the index away."""
    op.drop_index("items_by_age", "items")
