"""The first schema of a catalog. Never change it; write a new migration instead."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create every table."""
    # SQLite assigns row numbers only if the type is called INTEGER.
    number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "batches",
        sa.Column("place", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("place", "name"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "entries",
        sa.Column("id", number, primary_key=True),
        sa.Column("uid", sa.Text, nullable=False),
        sa.Column("place", sa.Text, nullable=False),
        sa.Column("batch", sa.Text, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("verb", sa.String(16), nullable=False),
        sa.Column("data", sa.Text, nullable=False),
        sa.Column("time_unix", sa.Double, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
    )
    op.create_index("entries_of_uid", "entries", ["uid", "batch", "position"])
    op.create_index("entries_of_place", "entries", ["place"])
    op.create_table(
        "names",
        sa.Column("id", number, primary_key=True),
        sa.Column("text", sa.Text, nullable=False, unique=True),
    )
    op.create_table(
        "items",
        sa.Column("id", number, primary_key=True),
        sa.Column("uid", sa.Text, nullable=False, unique=True),
        sa.Column("kind", sa.String(16), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("parent", sa.Text, nullable=False),
        sa.Column("description", sa.Text, nullable=False),
        sa.Column("hypothesis", sa.Text, nullable=False),
        sa.Column("variables", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.Column("created_unix", sa.Double, nullable=False),
        sa.Column("started_unix", sa.Double),
        sa.Column("ended_unix", sa.Double),
        sa.Column("changed_unix", sa.Double, nullable=False),
        sa.Column("steps", sa.BigInteger),
        sa.Column("place", sa.Text, nullable=False),
        sa.Column("job", sa.Text, nullable=False),
        sa.Column("command", sa.Text, nullable=False),
        sa.Column("repository", sa.Text, nullable=False),
        sa.Column("branch", sa.Text, nullable=False),
        sa.Column("commit", sa.Text, nullable=False),
        sa.Column("dirty", sa.Boolean),
        sa.Column("host", sa.Text, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("uri", sa.Text, nullable=False),
        sa.Column("media_type", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("size_bytes", sa.BigInteger),
        sa.Column("starred", sa.Boolean, nullable=False),
        sa.Column("archived", sa.Boolean, nullable=False),
        sa.Column("deleted_unix", sa.Double),
    )
    op.create_index("items_by_kind", "items", ["kind", "created_unix"])
    op.create_index("items_by_name", "items", ["name"])
    op.create_index("items_by_parent", "items", ["parent"])
    op.create_table(
        "members",
        sa.Column("trial", sa.Text, nullable=False),
        sa.Column("component", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("component", "trial"),
        sqlite_with_rowid=False,
    )
    op.create_index("members_of_trial", "members", ["trial", "component"])
    op.create_table(
        "parameters",
        sa.Column("item_id", sa.BigInteger, nullable=False),
        sa.Column("name_id", sa.Integer, nullable=False),
        sa.Column("type", sa.SmallInteger, nullable=False),
        sa.Column("number", sa.Double),
        sa.Column("text", sa.Text),
        sa.PrimaryKeyConstraint("item_id", "name_id"),
        sqlite_with_rowid=False,
    )
    op.create_index("parameters_by_number", "parameters", ["name_id", "number", "item_id"])
    op.create_index("parameters_by_text", "parameters", ["name_id", "text", "item_id"])
    op.create_table(
        "metrics",
        sa.Column("item_id", sa.BigInteger, nullable=False),
        sa.Column("name_id", sa.Integer, nullable=False),
        sa.Column("last", sa.Double),
        sa.Column("min", sa.Double),
        sa.Column("max", sa.Double),
        sa.Column("mean", sa.Double),
        sa.Column("std", sa.Double),
        sa.Column("count", sa.BigInteger, nullable=False),
        sa.Column("first_step", sa.BigInteger, nullable=False),
        sa.Column("last_step", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("item_id", "name_id"),
        sqlite_with_rowid=False,
    )
    op.create_index("metrics_by_last", "metrics", ["name_id", "last", "item_id"])
    op.create_index("metrics_by_min", "metrics", ["name_id", "min", "item_id"])
    op.create_index("metrics_by_max", "metrics", ["name_id", "max", "item_id"])
    op.create_table(
        "tags",
        sa.Column("item_id", sa.BigInteger, nullable=False),
        sa.Column("name_id", sa.Integer, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("item_id", "name_id"),
        sqlite_with_rowid=False,
    )
    op.create_index("tags_by_text", "tags", ["name_id", "text", "item_id"])
    op.create_table(
        "notes",
        sa.Column("item_id", sa.BigInteger, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("time_unix", sa.Double, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("item_id", "position"),
    )
    op.create_table(
        "links",
        sa.Column("item_id", sa.BigInteger, nullable=False),
        sa.Column("role", sa.String(8), nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("artifact", sa.Text, nullable=False),
        sa.Column("uri", sa.Text, nullable=False),
        sa.Column("media_type", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("size_bytes", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("item_id", "role", "name"),
    )
    op.create_index("links_of_artifact", "links", ["artifact"])
    op.create_table(
        "relations",
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("relation", sa.String(24), nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("time_unix", sa.Double, nullable=False),
        sa.PrimaryKeyConstraint("source", "relation", "target"),
    )
    op.create_index("relations_of_target", "relations", ["target"])
    op.create_table(
        "findings",
        sa.Column("item_id", sa.BigInteger, nullable=False),
        sa.Column("finding", sa.Text, nullable=False),
        sa.Column("code", sa.Text, nullable=False),
        sa.Column("rule", sa.Text, nullable=False),
        sa.Column("severity", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("step", sa.BigInteger),
        sa.PrimaryKeyConstraint("item_id", "finding"),
    )
    op.create_index("findings_by_code", "findings", ["code", "item_id"])
    op.create_index("findings_by_rule", "findings", ["rule", "item_id"])
    op.create_table(
        "sheets",
        sa.Column("item_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("numbers", sa.LargeBinary, nullable=False),
        sa.Column("texts", sa.Text, nullable=False),
    )
    op.create_table(
        "metric_sheets",
        sa.Column("item_id", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    op.create_table(
        "fed",
        sa.Column("place", sa.Text, primary_key=True),
        sa.Column("uid", sa.Text, nullable=False),
        sa.Column("mark", sa.Text, nullable=False),
    )
    op.create_table(
        "root",
        sa.Column("url", sa.Text, primary_key=True),
    )
