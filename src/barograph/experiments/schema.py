"""Tables of a catalog, the same in SQLite and PostgreSQL.

They are derived from journals and runs, and can be rebuilt. SQLite has no NaN, so numeric columns store it as null;
where a number is required, null means NaN.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    SmallInteger,
    String,
    Table,
    Text,
)

METADATA = MetaData()

_ID = BigInteger().with_variant(Integer, "sqlite")
"""SQLite assigns row numbers only if the type is called INTEGER."""

OF_ROOT = ""
"""Value of the column `place` for the root's own journal."""


def _by_text(name: str, column: str, *columns: str) -> tuple[Index, Index]:
    """Return the indexes by a text: one for SQLite, and one for PostgreSQL, whose ordered indexes refuse long texts."""
    return (Index(name, *columns).ddl_if(dialect="sqlite"),
            Index(f"{name}_hash", column, postgresql_using="hash").ddl_if(dialect="postgresql"))


BATCHES = Table(
    "batches", METADATA,
    # Batches of journals that have been indexed.
    Column("place", Text, nullable=False),
    Column("name", Text, nullable=False),
    PrimaryKeyConstraint("place", "name"),
    sqlite_with_rowid=False,
)

ENTRIES = Table(
    "entries", METADATA,
    Column("id", _ID, primary_key=True),
    Column("uid", Text, nullable=False),
    Column("place", Text, nullable=False),
    Column("batch", Text, nullable=False),
    Column("position", Integer, nullable=False),
    Column("verb", String(16), nullable=False),
    Column("data", Text, nullable=False),
    Column("time_unix", Double, nullable=False),
    Column("by", Text, nullable=False),
    Index("entries_of_uid", "uid", "batch", "position"),
    Index("entries_of_place", "place"),
)

NAMES = Table(
    "names", METADATA,
    # Names of parameters, metrics and tags, stored once.
    Column("id", _ID, primary_key=True),
    Column("text", Text, nullable=False, unique=True),
)

ITEMS = Table(
    "items", METADATA,
    Column("id", _ID, primary_key=True),
    Column("uid", Text, nullable=False, unique=True),
    Column("kind", String(16), nullable=False),
    Column("name", Text, nullable=False),
    Column("parent", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("hypothesis", Text, nullable=False),
    Column("variables", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("message", Text, nullable=False),
    Column("created_unix", Double, nullable=False),
    Column("started_unix", Double),
    Column("ended_unix", Double),
    Column("changed_unix", Double, nullable=False),
    Column("steps", BigInteger),
    Column("place", Text, nullable=False),
    Column("job", Text, nullable=False),
    Column("command", Text, nullable=False),
    Column("repository", Text, nullable=False),
    Column("branch", Text, nullable=False),
    Column("commit", Text, nullable=False),
    Column("dirty", Boolean),
    Column("host", Text, nullable=False),
    Column("by", Text, nullable=False),
    Column("uri", Text, nullable=False),
    Column("media_type", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("size_bytes", BigInteger),
    Column("starred", Boolean, nullable=False),
    Column("archived", Boolean, nullable=False),
    Column("deleted_unix", Double),
    Index("items_by_kind", "kind", "created_unix"),
    *_by_text("items_by_name", "name", "name"),
    Index("items_by_parent", "parent"),
    # Most searches want the newest items that are neither archived nor deleted.
    Index("items_by_age", "archived", "deleted_unix", "created_unix"),
)

MEMBERS = Table(
    "members", METADATA,
    Column("trial", Text, nullable=False),
    Column("component", Text, nullable=False),
    PrimaryKeyConstraint("component", "trial"),
    Index("members_of_trial", "trial", "component"),
    sqlite_with_rowid=False,
)

PARAMETERS = Table(
    "parameters", METADATA,
    Column("item_id", BigInteger, nullable=False),
    Column("name_id", Integer, nullable=False),
    Column("type", SmallInteger, nullable=False),
    Column("number", Double),
    Column("text", Text),
    PrimaryKeyConstraint("item_id", "name_id"),
    Index("parameters_by_number", "name_id", "number", "item_id"),
    *_by_text("parameters_by_text", "text", "name_id", "text", "item_id"),
    sqlite_with_rowid=False,
)

METRICS = Table(
    "metrics", METADATA,
    Column("item_id", BigInteger, nullable=False),
    Column("name_id", Integer, nullable=False),
    Column("last", Double),
    Column("min", Double),
    Column("max", Double),
    Column("mean", Double),
    Column("std", Double),
    Column("count", BigInteger, nullable=False),
    Column("first_step", BigInteger, nullable=False),
    Column("last_step", BigInteger, nullable=False),
    PrimaryKeyConstraint("item_id", "name_id"),
    Index("metrics_by_last", "name_id", "last", "item_id"),
    Index("metrics_by_min", "name_id", "min", "item_id"),
    Index("metrics_by_max", "name_id", "max", "item_id"),
    sqlite_with_rowid=False,
)

TAGS = Table(
    "tags", METADATA,
    Column("item_id", BigInteger, nullable=False),
    Column("name_id", Integer, nullable=False),
    Column("text", Text, nullable=False),
    PrimaryKeyConstraint("item_id", "name_id"),
    *_by_text("tags_by_text", "text", "name_id", "text", "item_id"),
    sqlite_with_rowid=False,
)

NOTES = Table(
    "notes", METADATA,
    Column("item_id", BigInteger, nullable=False),
    Column("position", Integer, nullable=False),
    Column("time_unix", Double, nullable=False),
    Column("by", Text, nullable=False),
    Column("text", Text, nullable=False),
    PrimaryKeyConstraint("item_id", "position"),
)

LINKS = Table(
    "links", METADATA,
    # Artifacts that an item read ("input") or made ("output").
    Column("item_id", BigInteger, nullable=False),
    Column("role", String(8), nullable=False),
    Column("name", Text, nullable=False),
    Column("artifact", Text, nullable=False),
    Column("uri", Text, nullable=False),
    Column("media_type", Text, nullable=False),
    Column("digest", Text, nullable=False),
    Column("size_bytes", BigInteger, nullable=False),
    PrimaryKeyConstraint("item_id", "role", "name"),
    Index("links_of_artifact", "artifact"),
)

RELATIONS = Table(
    "relations", METADATA,
    Column("source", Text, nullable=False),
    Column("relation", String(24), nullable=False),
    Column("target", Text, nullable=False),
    Column("time_unix", Double, nullable=False),
    PrimaryKeyConstraint("source", "relation", "target"),
    Index("relations_of_target", "target"),
)

FINDINGS = Table(
    "findings", METADATA,
    Column("item_id", BigInteger, nullable=False),
    Column("finding", Text, nullable=False),
    Column("code", Text, nullable=False),
    Column("rule", Text, nullable=False),
    Column("severity", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("step", BigInteger),
    PrimaryKeyConstraint("item_id", "finding"),
    Index("findings_by_code", "code", "item_id"),
    Index("findings_by_rule", "rule", "item_id"),
)

SHEETS = Table(
    "sheets", METADATA,
    # Packed parameters and tags of an item; see `packing`.
    Column("item_id", BigInteger, primary_key=True, autoincrement=False),
    Column("numbers", LargeBinary, nullable=False),
    Column("texts", Text, nullable=False),
)

METRIC_SHEETS = Table(
    "metric_sheets", METADATA,
    # Packed metrics of an item.
    Column("item_id", BigInteger, primary_key=True, autoincrement=False),
    Column("data", LargeBinary, nullable=False),
)

FED = Table(
    "fed", METADATA,
    # Indexed runs, with the mark and stamp by which changes are detected.
    Column("place", Text, primary_key=True),
    Column("uid", Text, nullable=False),
    Column("mark", Text, nullable=False),
)

ROOT = Table(
    "root", METADATA,
    # One row: the root that this catalog belongs to.
    Column("url", Text, primary_key=True),
)

OF_ITEMS = (PARAMETERS, METRICS, TAGS, NOTES, LINKS, FINDINGS, SHEETS, METRIC_SHEETS)
"""Tables whose rows belong to one item."""

RECORDED = (METRICS, METRIC_SHEETS, FINDINGS)
"""Tables filled from a run's records rather than from entries."""
