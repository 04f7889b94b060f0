"""Runs by the place of their store, deleted items, and counts of runs."""

from __future__ import annotations

from sqlalchemy import func, select

from barograph.experiments.catalog import UNDO_DAYS, Catalog
from barograph.experiments.item import Item, items_by_id
from barograph.experiments.schema import FINDINGS, ITEMS
from barograph.experiments.writing import storable
from barograph.model.finding import FindingState
from barograph.model.items import ItemKind


def run_at(catalog: Catalog, url: str) -> Item | None:
    """Return the run whose store has that URL, even if deleted; None if unknown."""
    with catalog.reading() as connection:
        found = connection.execute(select(ITEMS.c.id).where(
            ITEMS.c.place == storable(url), ITEMS.c.kind == ItemKind.RUN,
        ).order_by(ITEMS.c.archived, ITEMS.c.id.desc())).scalars().first()
        return None if found is None else items_by_id(connection, [found])[0]


def deleted_items(catalog: Catalog, now_unix: float) -> list[Item]:
    """Return the deleted items that can be restored, last deleted first."""
    with catalog.reading() as connection:
        return items_by_id(connection, connection.execute(
            select(ITEMS.c.id).where(ITEMS.c.deleted_unix >= now_unix - UNDO_DAYS * 86_400)
            .order_by(ITEMS.c.deleted_unix.desc(), ITEMS.c.id)).scalars().all())


def counts_of_runs(catalog: Catalog) -> tuple[dict[str, int], dict[str, int]]:
    """Return the number of runs by state, and of their open findings by severity; without archived and deleted runs."""
    listed = ITEMS.c.kind == ItemKind.RUN, ITEMS.c.archived.is_(False), ITEMS.c.deleted_unix.is_(None)
    with catalog.reading() as connection:
        states = connection.execute(select(ITEMS.c.state, func.count()).where(*listed).group_by(ITEMS.c.state))
        severities = connection.execute(
            select(FINDINGS.c.severity, func.count()).join(ITEMS, ITEMS.c.id == FINDINGS.c.item_id)
            .where(*listed, FINDINGS.c.state == FindingState.OPEN).group_by(FINDINGS.c.severity))
        return ({str(state): int(count) for state, count in states},
                {str(severity): int(count) for severity, count in severities})
