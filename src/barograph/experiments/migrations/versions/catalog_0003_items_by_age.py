"""An index for the newest items of a large catalog."""

from __future__ import annotations

from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the index."""
    op.create_index("items_by_age", "items", ["archived", "deleted_unix", "created_unix"])


def downgrade() -> None:
    """Drop the index."""
    op.drop_index("items_by_age", "items")
