"""Live and recent runs of a catalog, for an overview that does not read every run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import nan

from sqlalchemy import Connection, select

from barograph.experiments.catalog import Catalog
from barograph.experiments.run_listing import found_runs, search_with
from barograph.experiments.schema import ITEMS, METRICS, NAMES
from barograph.queries.loss_name import training_loss

_MOST_READ, _READ_TOGETHER = 2000, 200
"""Maximum number of runs that are read to find enough of those that belong to no group; and how many at once."""

LIVE = "state in ('running', 'starting', 'unknown')"
"""Search that finds live runs."""


@dataclass(frozen=True, slots=True)
class RecentRun:
    """A run, by its place.

    Attributes:
        place: URL of its directory.
        name: Name in the catalog.
        starred: Whether a user starred it.
    """

    place: str
    name: str
    starred: bool


@dataclass(frozen=True, slots=True)
class RecentRuns:
    """Live runs and the newest others.

    Attributes:
        live: Live runs, newest first.
        recent: The newest other runs, newest first.
        live_count, count: Number of all live runs that belong to no group, and of all runs.
        groups: Groups of the live and newest runs, the newest first.
    """

    live: tuple[RecentRun, ...]
    recent: tuple[RecentRun, ...]
    live_count: int
    count: int
    groups: tuple[str, ...] = ()


def recent_runs(
    catalog: Catalog, *, most_live: int, most_recent: int, group_of: Callable[[str], str] = lambda place: ""
) -> RecentRuns:
    """Return the live runs and the newest others; archived and deleted ones are left out.

    Args:
        catalog: The catalog.
        most_live, most_recent: Maximum number of each.
        group_of: Returns the group of the run at a place, "" for none. Runs of groups are left out.
    """
    with catalog.reading() as connection:
        live = found_runs(catalog, connection, search_with(LIVE))
        recent = found_runs(catalog, connection, search_with(f"not {LIVE} limit {_MOST_READ}"))
        count = len(found_runs(catalog, connection, search_with("")))
        groups: dict[str, None] = {}

        def alone(ids: list[int], most: int) -> tuple[list[RecentRun], int]:
            """Return the first runs that belong to no group, and how many were passed over."""
            found: list[RecentRun] = []
            passed = 0
            for start in range(0, min(len(ids), _MOST_READ), _READ_TOGETHER):
                if len(found) >= most:
                    break
                for run in _runs(connection, ids[start:start + _READ_TOGETHER]):
                    if group := group_of(run.place):
                        groups[group] = None
                        passed += 1
                    else:
                        found.append(run)
            return found[:most], passed

        now, trials = alone(live, most_live)
        others, _ = alone(recent, most_recent)
        return RecentRuns(tuple(now), tuple(others), len(live) - trials, count, tuple(groups))


def last_losses(catalog: Catalog, places: Sequence[str]) -> dict[str, float]:
    """Return the last training loss among the metrics of each run that has one, by its place. Losses may be NaN.

    Args:
        catalog: The catalog.
        places: URLs of the directories of the runs.
    """
    if not places:
        return {}
    with catalog.reading() as connection:
        # First the few names: a run may have a hundred thousand metrics.
        ending = connection.execute(select(NAMES.c.id, NAMES.c.text).where(NAMES.c.text.ilike("%loss")))
        names = {number: text for number, text in ending if training_loss([text])}
        rows = connection.execute(
            select(ITEMS.c.place, METRICS.c.name_id, METRICS.c.last).join(METRICS, METRICS.c.item_id == ITEMS.c.id)
            .where(ITEMS.c.place.in_(places), ITEMS.c.deleted_unix.is_(None), METRICS.c.name_id.in_(list(names))))
        losses: dict[str, dict[str, float]] = {}
        for place, name, last in rows:
            losses.setdefault(place, {})[names[name]] = nan if last is None else last
    return {place: of_run[training_loss(of_run)] for place, of_run in losses.items()}


def _runs(connection: Connection, ids: list[int]) -> tuple[RecentRun, ...]:
    columns = ITEMS.c
    rows = connection.execute(select(columns.id, columns.place, columns.name, columns.starred).where(
        columns.id.in_(ids), columns.place != ""))
    found = {number: RecentRun(place, name, bool(starred)) for number, place, name, starred in rows}
    return tuple(found[number] for number in ids if number in found)
