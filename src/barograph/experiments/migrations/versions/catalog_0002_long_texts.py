"""Texts of any length in PostgreSQL, whose ordered indexes refuse more than 2,700 bytes."""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Index texts by their hash."""
    if op.get_bind().dialect.name != "postgresql":
        return
    for name, table, column in (("parameters_by_text", "parameters", "text"), ("tags_by_text", "tags", "text"),
                                ("items_by_name", "items", "name")):
        op.drop_index(name, table)
        op.create_index(f"{name}_hash", table, [column], postgresql_using="hash")
