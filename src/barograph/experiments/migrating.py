"""Migrates a catalog to the newest schema with the migrations in `migrations/versions`."""

from __future__ import annotations

from pathlib import Path

from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from sqlalchemy import Connection

from barograph.experiments import migrations

_SCRIPTS = ScriptDirectory(str(Path(next(iter(migrations.__path__)))))


def known_revisions() -> list[str]:
    """Return the schemas that can be migrated, oldest first."""
    return [script.revision for script in reversed(list(_SCRIPTS.walk_revisions()))]


def migrate(connection: Connection) -> None:
    """Migrate a database to the newest schema within the connection's transaction."""
    context = MigrationContext.configure(
        connection, opts={"fn": lambda revision, _: _SCRIPTS._upgrade_revs("head", revision)}
    )
    with Operations.context(context):
        context.run_migrations()
