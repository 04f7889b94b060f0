"""Garbage collection of unused artifacts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import Connection, or_, select

from barograph.errors import CatalogError
from barograph.experiments.artifacts import ARTIFACTS, SCHEME, kept_before, place_of, remove
from barograph.experiments.catalog import UNDO_DAYS, Catalog
from barograph.experiments.run_entries import GONE
from barograph.experiments.schema import ITEMS, LINKS
from barograph.runs.state.process import may_run
from barograph.store.base import ObjectInfo
from barograph.store.files import FileStore

_DAY_SECS = 86_400.0


@dataclass(frozen=True, slots=True)
class Collection:
    """Unused artifacts of a root.

    Attributes:
        unwanted: Names of unused artifacts.
        before_unix: All were stored before this time.
        kept: Number of used artifacts stored before this time.
        of_gone: Number of those used only by runs whose directories no longer exist.
        of_gone_bytes: Total size of those.
    """

    unwanted: tuple[ObjectInfo, ...]
    before_unix: float
    kept: int
    of_gone: int
    of_gone_bytes: int

    @property
    def size_bytes(self) -> int:
        """Total size of the unused artifacts."""
        return sum(item.size_bytes for item in self.unwanted)


def collection_of(
    catalog: Catalog, *, now_unix: float, grace_secs: float, with_gone: bool = False,
    progress: Callable[[int, int], object] = lambda done, total: None,
) -> Collection:
    """Return the artifacts that no item uses, including deleted items that can still be restored.

    Args:
        catalog: Catalog of the root.
        now_unix: Seconds since 1970 UTC.
        grace_secs: Younger artifacts stay, because their user may not be recorded yet.
        with_gone: Ignore uses by runs whose directories no longer exist.
        progress: See `Feeder.feed`.

    Raises:
        CatalogError: Something cannot be read, so its artifacts are unknown.
        StoreError: The root cannot be read.
    """
    before_unix = now_unix - grace_secs
    candidates = kept_before(catalog.store, before_unix)
    # Artifacts are listed before uses are read: what is logged in between is used, or young.
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
    """Delete the unused artifacts; return how many were deleted and their size in bytes.

    Concurrent collections are safe; artifacts that were logged again meanwhile stay. What killed processes did not
    finish writing is removed, too.
    """
    if isinstance(catalog.store, FileStore):
        catalog.store.remove_unfinished([ARTIFACTS], older_than_secs=time.time() - found.before_unix,
                                        is_running=may_run)
    return remove(catalog.store, [item.name for item in found.unwanted], found.before_unix)


def wanted_places(connection: Connection, now_unix: float) -> set[str]:
    """Return the names of the artifacts that items use."""
    return _wanted(connection, now_unix, with_gone=False)


def _wanted(connection: Connection, now_unix: float, *, with_gone: bool) -> set[str]:
    statement = select(LINKS.c.uri).distinct().join(ITEMS, ITEMS.c.id == LINKS.c.item_id).where(
        LINKS.c.uri.like(f"{SCHEME}%"),
        or_(ITEMS.c.deleted_unix.is_(None), ITEMS.c.deleted_unix >= now_unix - UNDO_DAYS * _DAY_SECS))
    if with_gone:
        statement = statement.where(ITEMS.c.state != GONE)
    return {place_of(str(uri).removeprefix(SCHEME)) for uri in connection.execute(statement).scalars()}


