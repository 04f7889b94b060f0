"""Live and recent runs of a catalog, so that a page of what goes on need not read every run."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, select

from barograph.experiments.catalog import Catalog
from barograph.experiments.run_listing import found_runs, search_with
from barograph.experiments.schema import ITEMS

LIVE = "state in ('running', 'starting', 'unknown')"
"""Search of the runs that may go on."""


@dataclass(frozen=True, slots=True)
class RecentRuns:
    """Runs that go on, and the newest others.

    Attributes:
        live: URLs of runs that go on, newest first.
        recent: URLs of the newest other runs, newest first.
        live_count, count: Number of all runs that go on, and of all runs.
    """

    live: tuple[str, ...]
    recent: tuple[str, ...]
    live_count: int
    count: int


def recent_runs(catalog: Catalog, *, most_live: int, most_recent: int) -> RecentRuns:
    """Return the runs that go on, and the newest others; archived and deleted ones are left out.

    Args:
        catalog: The catalog.
        most_live, most_recent: Maximum number of each.
    """
    with catalog.reading() as connection:
        live = found_runs(catalog, connection, search_with(LIVE))
        recent = found_runs(catalog, connection, search_with(f"not {LIVE} limit {most_recent}"))
        count = len(found_runs(catalog, connection, search_with("")))
        return RecentRuns(_places(connection, live[:most_live]), _places(connection, recent), len(live), count)


def _places(connection: Connection, ids: list[int]) -> tuple[str, ...]:
    rows = {row[0]: row[1] for row in connection.execute(select(ITEMS.c.id, ITEMS.c.place).where(ITEMS.c.id.in_(ids)))}
    return tuple(rows[number] for number in ids if rows.get(number))
