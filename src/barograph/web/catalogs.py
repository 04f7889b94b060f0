"""The catalogs of the served roots, and the items in them by the keys of the page."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet

from barograph.errors import CatalogUnavailable, UnknownItem, UnknownName
from barograph.experiments.catalog import Catalog
from barograph.experiments.handle import catalog_at
from barograph.experiments.item import Item
from barograph.experiments.labels import run_at
from barograph.model.clock import Clock, SystemClock
from barograph.store.urls import store_from_url
from barograph.web.places import Places

_FRESH_SECS = 2.0
_PATIENCE_SECS = 5.0


class Catalogs:
    """Opens the catalogs of roots and brings them up to date at most every two seconds.

    The first look at many runs, or the migration of a catalog, takes long; requests do not wait for its end.

    Args:
        places: The roots.
        clock: Decides when.
        patience_secs: Longest wait of a request.
    """

    def __init__(self, places: Places, clock: Clock | None = None, *, patience_secs: float = _PATIENCE_SECS) -> None:
        self._places = places
        self._clock = clock or SystemClock()
        self._patience_secs = patience_secs
        self._open: dict[int, Catalog] = {}
        self._updates: dict[int, tuple[Future[None], float]] = {}
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
            self._update(number).result(self._patience_secs)
        except NotYet:
            if number not in self._open:
                place = self._places.roots[number].place
                raise CatalogUnavailable(f"The catalog of {place} is being read or migrated. Try again in a minute."
                                         ) from None
        return self._open[number]

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

    def _update(self, number: int) -> Future[None]:
        """Return the update that runs or that is fresh, else a new one."""
        with self._lock:
            known = self._updates.get(number)
            now = self._clock.monotonic()
            if known is not None:
                update, begun = known
                is_fresh = update.done() and update.exception() is None and now - begun < _FRESH_SECS
                if is_fresh or not update.done():
                    return update
            update = Future()
            self._updates[number] = update, now
        # A daemon, so that Ctrl-C does not wait for it.
        threading.Thread(target=self._bring_up_to_date, args=(number, update), name="barograph-catalog",
                         daemon=True).start()
        return update

    def _bring_up_to_date(self, number: int, update: Future[None]) -> None:
        try:
            catalog = self._open[number] = catalog_at(self._places.roots[number].place)
            catalog.feed()
        except BaseException as error:  # noqa: BLE001 - those who wait for it raise it
            update.set_exception(error)
        else:
            update.set_result(None)
