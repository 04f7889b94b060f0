"""The catalogs of the served roots, and the items in them by the keys of the page."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet

from barograph.errors import CatalogUnavailable, UnknownItem, UnknownName
from barograph.experiments.catalog import Catalog
from barograph.experiments.item import Item
from barograph.experiments.labels import run_at
from barograph.store.urls import store_from_url
from barograph.web.indexing import Indexes
from barograph.web.places import Places

_PATIENCE_SECS = 5.0


class Catalogs:
    """Returns catalogs to requests, which do not wait until a catalog is migrated.

    Args:
        places: The roots.
        indexes: Opens their catalogs and brings them up to date.
        patience_secs: Longest wait of a request.
    """

    def __init__(self, places: Places, indexes: Indexes, *, patience_secs: float = _PATIENCE_SECS) -> None:
        self._places = places
        self._indexes = indexes
        self._patience_secs = patience_secs
        self._known: dict[int, Catalog] = {}
        self._waits: dict[int, Future[Catalog]] = {}
        self._lock = threading.Lock()

    def at(self, number: int) -> Catalog:
        """Return the catalog of a root, up to date; as it was if bringing it up to date takes long.

        Raises:
            UnknownName: There is no such root.
            CatalogError, StoreError: It cannot be read, or is not open yet.
        """
        if not 0 <= number < len(self._places.roots):
            raise UnknownName(f"There is no root {number}.")
        try:
            self._known[number] = self._wait(number).result(self._patience_secs)
        except NotYet:
            if number not in self._known:
                place = self._places.roots[number].place
                raise CatalogUnavailable(f"The catalog of {place} is being read or migrated. Try again in a minute."
                                         ) from None
        return self._known[number]

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
            UnknownName, CatalogError, StoreError: As `at`.
        """
        catalog = self.at(number)
        item = catalog.item_by_uid(uid)
        if item is None:
            raise UnknownItem(f"No item has the ID {uid[:200]!r}.")
        return catalog, item

    def _wait(self, number: int) -> Future[Catalog]:
        """Return the wait for a catalog that is under way, else a new one."""
        with self._lock:
            known = self._waits.get(number)
            if known is not None and not known.done():
                return known
            wait = self._waits[number] = Future()
        # A daemon, so that Ctrl-C does not wait for it.
        threading.Thread(target=self._ask, args=(number, wait), name="barograph-catalog", daemon=True).start()
        return wait

    def _ask(self, number: int, wait: Future[Catalog]) -> None:
        try:
            wait.set_result(self._indexes.catalog(self._places.roots[number]))
        except BaseException as error:  # noqa: BLE001 - those who wait for it raise it
            wait.set_exception(error)
