"""Searches of the runs below a root, a page at a time, straight from the catalog."""

from __future__ import annotations

import threading
from typing import Any

from barograph.experiments.catalog import Catalog
from barograph.experiments.finding import usual
from barograph.experiments.handle import catalog_at
from barograph.experiments.search.parser import search_from_text
from barograph.experiments.tabulating import component_table
from barograph.model.clock import Clock, SystemClock
from barograph.model.items import ItemKind
from barograph.model.plain import plain
from barograph.web.places import Root

MOST_ROWS = 500
_FRESH_SECS = 2.0


class Searches:
    """Searches the catalogs of roots, which are brought up to date at most every two seconds.

    Args:
        clock: Decides when.
    """

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._fed_at: dict[int, float] = {}
        self._lock = threading.Lock()

    def page(self, root: Root, question: str, *, order: str, offset: int, limit: int) -> dict[str, Any]:
        """Return a page of the runs that match.

        Args:
            root: Where they are.
            question: The search, see `search.parser`; "": all runs.
            order: "FIELD asc" or "FIELD desc", if the question has no order; "": newest first.
            offset, limit: Which rows.

        Returns:
            Number of all rows, columns that people want first, and the rows with `key`.

        Raises:
            SearchError: The search is invalid; the message points at the place.
            CatalogError: The catalog cannot be read.
        """
        catalog = self._catalog(root)
        text = question if not order or search_from_text(question).orders else f"{question} order by {order}"
        with catalog.reading() as connection:
            ids = catalog.ids(text, connection, kinds=(ItemKind.RUN,))
            table = component_table(connection, ids[offset:offset + min(limit, MOST_ROWS)])
        columns = [name for name in usual(table, search_from_text(text)).table.columns if name != "uid"] \
            if len(table) else []
        rows = [{"key": root.key_of(str(row.get("place", ""))), **{name: row.get(name) for name in ("uid", *columns)}}
                for row in table.rows()]
        return {"count": len(ids), "columns": columns, "rows": plain(rows)}

    def _catalog(self, root: Root) -> Catalog:
        with self._lock:
            catalog, now = catalog_at(root.place), self._clock.monotonic()
            if now - self._fed_at.get(root.number, -_FRESH_SECS) >= _FRESH_SECS:
                catalog.feed()
                self._fed_at[root.number] = self._clock.monotonic()
        return catalog
