"""The runs that a request is about: a search, narrowed by filters, below a root."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from barograph.errors import UnknownName
from barograph.experiments.catalog import Catalog
from barograph.experiments.run_listing import found_runs, search_with
from barograph.experiments.search.syntax import Search
from barograph.web.answers import json_answer, number_in
from barograph.web.catalogs import Catalogs
from barograph.web.places import Places, Root

MOST_COLUMNS = 100


@dataclass(frozen=True, slots=True)
class Asked:
    """Runs of one root.

    Attributes:
        root: The root.
        catalog: Its catalog.
        connection: Connection to the catalog.
        search: The search.
        ids: Row numbers of the runs that it finds, in its order.
    """

    root: Root
    catalog: Catalog
    connection: Any
    search: Search
    ids: list[int]


class AskedRuns:
    """Finds the runs of a request.

    Args:
        places: Where runs are.
        catalogs: Their catalogs.
    """

    def __init__(self, places: Places, catalogs: Catalogs) -> None:
        self._places, self._indexes = places, catalogs.indexes

    @contextmanager
    def of(self, request: Request) -> Iterator[Asked]:
        """Yield the runs, with a connection that is open as long.

        Raises:
            UnknownName: There is no such root.
            SearchError: The search is invalid.
            CatalogError, StoreError: The catalog cannot be read.
        """
        root, query = self.root(request), request.query_params
        catalog = self._indexes.catalog(root)
        search = search_with(query.get("q", ""), filters=query.getlist("filter"), order=query.get("order", ""))
        with catalog.reading() as connection:
            yield Asked(root, catalog, connection, search, found_runs(catalog, connection, search))

    def root(self, request: Request) -> Root:
        """Return the root of a request.

        Raises:
            UnknownName: There is no such root.
        """
        number = number_in(request, "root", 0) or 0
        if not 0 <= number < len(self._places.roots):
            raise UnknownName(f"There is no root {number}.")
        return self._places.roots[number]


def columns_by(request: Request) -> str:
    """Return the columns that a request groups by."""
    return ",".join(request.query_params.getlist("by"))


def answering(answer: Callable[[Request], Any]) -> Callable[[Request], Response]:
    """Return an endpoint that sends what `answer` returns."""
    def endpoint(request: Request) -> Response:
        return json_answer(request, answer(request))
    return endpoint
