"""The catalogs of the served roots, and the items in them by the keys of the page."""

from __future__ import annotations

from collections.abc import Callable

from barograph.errors import CatalogUnavailable, ObjectNotFound, UnknownItem, UnknownName
from barograph.experiments.catalog import Catalog
from barograph.experiments.item import Item
from barograph.experiments.labels import run_at
from barograph.model.clock import Clock
from barograph.runs.format.layout import MANIFEST
from barograph.store.base import Store
from barograph.store.urls import store_from_url
from barograph.web.in_flight import InFlight
from barograph.web.indexing import PATIENCE_SECS, Indexes
from barograph.web.places import Places


class Catalogs:
    """The catalogs of roots, updated on request; see `Indexes`.

    Args:
        places: The roots.
        clock: Decides when.
        patience_secs, in_flight, before_records: As for `Indexes`.

    Attributes:
        indexes: The catalogs and the progress of their updates.
    """

    def __init__(
        self, places: Places, clock: Clock | None = None, *, patience_secs: float = PATIENCE_SECS,
        in_flight: InFlight | None = None, before_records: Callable[[], object] = lambda: None,
    ) -> None:
        self._places = places
        self.indexes = Indexes(clock, patience_secs=patience_secs, in_flight=in_flight,
                               before_records=before_records)

    def at(self, number: int) -> Catalog:
        """Return the updated catalog of a root; without the update if that takes long.

        Raises:
            UnknownName: There is no such root.
            CatalogError, StoreError: It cannot be read, or is not open yet.
        """
        if not 0 <= number < len(self._places.roots):
            raise UnknownName(f"There is no root {number}.")
        return self.indexes.catalog(self._places.roots[number])

    def run(self, key: str) -> tuple[Catalog, Item]:
        """Return a run and its catalog, even if the run is deleted in the catalog.

        Raises:
            UnknownName: The key is not below a root.
            UnknownItem: The catalog does not know the run yet.
            CatalogError, StoreError: The catalog cannot be read, or has not been read completely.
        """
        store, number = store_from_url(self._places.place_of(key)), int(key.partition("/")[0])
        catalog = self.at(number)
        item = run_at(catalog, store.url)
        if item is None and _is_run(store):  # it has just begun
            read = self.indexes.read_again(self._places.roots[number])
            item = run_at(read, store.url) if read is not None else None
            if read is None:
                raise CatalogUnavailable("Barograph is still reading the catalog, and this run is not in it yet. Try "
                                         f"again in a minute ({store.url}).")
        if item is None:
            raise UnknownItem(f"The catalog does not have the run at {store.url}.")
        return catalog, item

    def item(self, number: int, uid: str) -> tuple[Catalog, Item]:
        """Return an item by its root and its ID, even if it is deleted.

        Raises:
            UnknownItem: No item has the ID.
            UnknownName, CatalogError, StoreError: As `at`.
        """
        catalog = self.at(number)
        item = catalog.item_by_uid(uid)
        if item is None:
            raise UnknownItem(f"No item has the ID {uid[:200]!r}.")
        return catalog, item


def _is_run(store: Store) -> bool:
    try:
        store.get(MANIFEST)
    except ObjectNotFound:
        return False
    return True
