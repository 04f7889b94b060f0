"""The catalogs of the served roots, and the items in them by the keys of the page."""

from __future__ import annotations

import threading

from barograph.errors import SettingsError, UnknownItem
from barograph.experiments.catalog import Catalog
from barograph.experiments.handle import catalog_at
from barograph.experiments.item import Item
from barograph.experiments.labels import run_at
from barograph.model.clock import Clock, SystemClock
from barograph.store.urls import store_from_url
from barograph.web.places import Places

_FRESH_SECS = 2.0


class Catalogs:
    """Opens the catalogs of roots and brings them up to date at most every two seconds.

    Args:
        places: The roots.
        clock: Decides when.
    """

    def __init__(self, places: Places, clock: Clock | None = None) -> None:
        self._places = places
        self._clock = clock or SystemClock()
        self._fed_at: dict[int, float] = {}
        self._lock = threading.Lock()

    def at(self, number: int) -> Catalog:
        """Return the catalog of a root, up to date.

        Raises:
            SettingsError: There is no such root.
            CatalogError, StoreError: It cannot be read.
        """
        if not 0 <= number < len(self._places.roots):
            raise SettingsError(f"There is no root {number}.")
        with self._lock:
            catalog, now = catalog_at(self._places.roots[number].place), self._clock.monotonic()
            if now - self._fed_at.get(number, -_FRESH_SECS) >= _FRESH_SECS:
                catalog.feed()
                self._fed_at[number] = self._clock.monotonic()
        return catalog

    def run(self, key: str) -> tuple[Catalog, Item]:
        """Return a run and its catalog, even if the run is deleted in the catalog.

        Raises:
            UnknownName: The key names no place below a root.
            UnknownItem: The catalog does not know the run yet.
            CatalogError, StoreError: The catalog cannot be read.
        """
        place = self._places.place_of(key)
        catalog = self.at(int(key.partition("/")[0]))
        item = run_at(catalog, store_from_url(place).url)
        if item is None:
            raise UnknownItem(f"The catalog does not have the run at {place}.")
        return catalog, item

    def item(self, number: int, uid: str) -> tuple[Catalog, Item]:
        """Return an item by its root and its ID, even if it is deleted.

        Raises:
            UnknownItem: No item has the ID.
            SettingsError, CatalogError, StoreError: As `at`.
        """
        catalog = self.at(number)
        item = catalog.item_by_uid(uid)
        if item is None:
            raise UnknownItem(f"No item has the ID {uid[:200]!r}.")
        return catalog, item
