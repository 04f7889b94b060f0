"""Artifacts that nobody has any more: found, and deleted where that is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Connection, or_, select

from barograph.errors import CatalogError
from barograph.experiments.artifacts import SCHEME, kept_before, place_of, remove
from barograph.experiments.catalog import UNDO_DAYS, Catalog
from barograph.experiments.schema import ITEMS, LINKS
from barograph.store.base import ObjectInfo

GONE = "gone"
"""State of a run whose folder is no longer there."""
_DAY_SECS = 86_400.0


@dataclass(frozen=True, slots=True)
class Collection:
    """Artifacts of a root of runs that may go.

    Attributes:
        unwanted: That nobody has, by name.
        before_unix: They were put before that time.
        kept: How many others there are, since before that time.
        of_gone: How many of these only runs have whose folders are no longer there.
        of_gone_bytes: How large those are.
    """

    unwanted: tuple[ObjectInfo, ...]
    before_unix: float
    kept: int
    of_gone: int
    of_gone_bytes: int

    @property
    def size_bytes(self) -> int:
        """Of what may go."""
        return sum(item.size_bytes for item in self.unwanted)


def collection_of(
    catalog: Catalog, *, now_unix: float, grace_secs: float, with_gone: bool = False,
    progress: Callable[[int, int], object] = lambda done, total: None,
) -> Collection:
    """Return the artifacts that no item has: not a run, nor what was deleted and can still be restored.

    Args:
        catalog: Of the root.
        now_unix: Seconds since 1970 UTC.
        grace_secs: What was put later than so long ago stays: who put it may not have said yet that he has it.
        with_gone: Runs whose folders are no longer there have nothing.
        progress: See `Feeder.feed`.

    Raises:
        CatalogError: Something could not be read, so nobody knows what is wanted.
        StoreError: The root cannot be read.
    """
    before_unix = now_unix - grace_secs
    candidates = kept_before(catalog.store, before_unix)
    # Listed first, asked then: what is logged in between is wanted, or young.
    damage = catalog.feed(thorough=True, progress=progress).damage
    if damage:
        raise CatalogError(f"{len(damage)} items below {catalog.store.url} cannot be read, so the artifacts they "
                           f"use are unknown. Nothing was deleted. First: {damage[0]}")
    with catalog.reading() as connection:
        by_all = _wanted(connection, now_unix, with_gone=False)
        by_living = _wanted(connection, now_unix, with_gone=True)
    wanted = by_living if with_gone else by_all
    of_gone = [item for item in candidates if item.name in by_all - by_living]
    unwanted = tuple(item for item in candidates if item.name not in wanted)
    return Collection(unwanted, before_unix, len(candidates) - len(unwanted), len(of_gone),
                      sum(item.size_bytes for item in of_gone))


def collect(catalog: Catalog, found: Collection) -> tuple[int, int]:
    """Delete what may go, and return how many artifacts these were and how many bytes they took.

    Who collects at the same time deletes the same; what was logged again meanwhile stays.
    """
    return remove(catalog.store, [item.name for item in found.unwanted], found.before_unix)


def wanted_places(connection: Connection, now_unix: float) -> set[str]:
    """Return the names of the artifacts that some item has."""
    return _wanted(connection, now_unix, with_gone=False)


def _wanted(connection: Connection, now_unix: float, *, with_gone: bool) -> set[str]:
    statement = select(LINKS.c.uri).distinct().join(ITEMS, ITEMS.c.id == LINKS.c.item_id).where(
        LINKS.c.uri.like(f"{SCHEME}%"),
        or_(ITEMS.c.deleted_unix.is_(None), ITEMS.c.deleted_unix >= now_unix - UNDO_DAYS * _DAY_SECS))
    if with_gone:
        statement = statement.where(ITEMS.c.state != GONE)
    return {place_of(str(uri).removeprefix(SCHEME)) for uri in connection.execute(statement).scalars()}


