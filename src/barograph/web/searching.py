"""Routes for lists of the runs below a root, from its catalog."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.routing import Route

from barograph.errors import BarographError
from barograph.experiments.recent import last_losses, recent_runs
from barograph.experiments.run_columns import usual_columns
from barograph.experiments.run_listing import RunPage, colors_at, differing_columns, run_page
from barograph.experiments.search.completing import completions_at, problem_in
from barograph.model.clock import Clock, SystemClock
from barograph.model.plain import plain
from barograph.queries.run_list import runs_at
from barograph.web.answers import cell, number_in
from barograph.web.asked_runs import MOST_COLUMNS, AskedRuns, answering, columns_by
from barograph.web.catalogs import Catalogs
from barograph.web.known_columns import KnownColumns
from barograph.web.places import Places, Root
from barograph.web.trial_runs import trials_in

MOST_ROWS = 500
_MOST_ROWS_READ = 100
_MOST_LIVE, _MOST_RECENT, _MOST_STUDIES = 48, 24, 24


class RunLists:
    """Routes of the pages Runs and Now.

    Args:
        places: Where runs are.
        catalogs: Their catalogs.
        clock: Decides what "3 days ago" means.
    """

    def __init__(self, places: Places, catalogs: Catalogs, clock: Clock | None = None) -> None:
        self._places = places
        self._clock = clock or SystemClock()
        self._indexes = catalogs.indexes
        self._columns = KnownColumns(self._clock)
        self._asked = AskedRuns(places, catalogs)

    def routes(self) -> list[Route]:
        """Return the routes."""
        asked: tuple[Callable[[Request], Any], ...] = (
            self.search, self.columns, self.suggest, self.now, self.colors, self.problems)
        return [Route(f"/api/{answer.__name__}", answering(answer)) for answer in asked]

    def search(self, request: Request) -> Any:
        """One page of a search: number of runs, columns, and rows with `key`."""
        with self._asked.of(request) as asked:
            ids, query = asked.ids, request.query_params
            group = query.get("group")
            if group is not None:
                # Here, because groups are compared by their curves, and reading these imports Arrow.
                self._indexes.before_records()
                from barograph.experiments.run_groups import members_of_group

                ids = members_of_group(asked.connection, ids, columns_by(request), query.get("metric", ""), group)
            columns = query.getlist("column")[:MOST_COLUMNS]
            if not columns:
                columns = usual_columns(self._columns.recorded(asked.root.number, asked.connection, ids),
                                        runs=len(ids))
            if query.get("differs"):
                columns = differing_columns(self._columns.of(asked.root.number, asked.connection, ids), columns)
            page = run_page(asked.connection, ids, columns=columns,
                            offset=max(0, number_in(request, "offset", 0) or 0),
                            limit=min(MOST_ROWS, max(1, number_in(request, "limit", 200) or 200)),
                            search=asked.search)
        return {**_page_to_json(asked.root, page), "indexing": plain(self._indexes.of(asked.root))}

    def columns(self, request: Request) -> Any:
        """All columns that the runs of a search can have, those with most values first in each group."""
        with self._asked.of(request) as asked:
            found = self._columns.of(asked.root.number, asked.connection, asked.ids)
            usual = usual_columns(found, runs=len(asked.ids))
        pattern = request.query_params.get("match", "").lower()
        fitting = [column for column in found if pattern in column.name.lower()]
        most = max(1, number_in(request, "limit", 400) or 400)
        return plain({"columns": fitting[:most], "count": len(fitting), "usual": usual})

    def suggest(self, request: Request) -> Any:
        """Completions of an unfinished search at the cursor, and where the search is invalid."""
        text = request.query_params.get("q", "")
        at = number_in(request, "at", len(text))
        catalog = self._indexes.catalog(self._asked.root(request))
        with catalog.reading() as connection:
            found = completions_at(connection, text, max(0, min(len(text) if at is None else at, len(text))))
        return plain({"start": found.start, "items": found.items,
                      "problem": problem_in(text, now_unix=self._clock.unix())})

    def now(self, request: Request) -> Any:
        """Live and recent runs, of all roots; of those that are trials, the keys of their studies."""
        runs: list[Any] = []
        studies: list[str] = []
        indexing, live, count = [], 0, 0
        for root in self._places.roots:
            try:
                catalog = self._indexes.catalog(root)
                found = recent_runs(catalog, most_live=_MOST_LIVE, most_recent=_MOST_RECENT, group_of=trials_in(root))
                some = (*found.live, *found.recent)
                rows = runs_at([one.place for one in some])
                logged = last_losses(catalog, [one.place for one, row in zip(some, rows, strict=True)
                                               if row.loss is None])
            except BarographError as error:  # one place that cannot be read does not hide the others
                indexing.append({"root": root.place, **plain(self._indexes.of(root)), "failure": str(error)})
                continue
            runs += [{"key": root.key_of(row.place), **row.to_json(), "name": one.name, "starred": one.starred,
                      "sentence": row.sentence,
                      "loss": cell(row.loss if row.loss is not None else logged.get(one.place))}
                     for one, row in zip(some, rows, strict=True)]
            indexing.append({"root": root.place, **plain(self._indexes.of(root))})
            live, count = live + found.live_count, count + found.count
            studies += found.groups[:_MOST_STUDIES]
        return {"runs": runs, "studies": studies, "live": live, "count": count,
                "roots": [root.place for root in self._places.roots], "indexing": indexing}

    def problems(self, request: Request) -> Any:
        """The title of each run's first open problem, by key; a run without one is left out."""
        keys = request.query_params.getlist("run")[:_MOST_ROWS_READ]
        rows = runs_at([self._places.place_of(key) for key in keys])
        return {key: row.problem for key, row in zip(keys, rows, strict=True) if row.problem}

    def colors(self, request: Request) -> Any:
        """The colors that users chose for runs, by key; a run without one is left out."""
        by_root: dict[int, dict[str, str]] = {}
        for key in request.query_params.getlist("run")[:MOST_ROWS]:
            place = self._places.place_of(key)
            by_root.setdefault(int(key.partition("/")[0]), {})[place] = key
        found = {}
        for number, keys in by_root.items():
            with self._indexes.catalog(self._places.roots[number]).reading() as connection:
                found.update({keys[place]: color for place, color in colors_at(connection, list(keys)).items()})
        return found


def _page_to_json(root: Root, page: RunPage) -> dict[str, Any]:
    rows = [{"key": root.key_of(run.place), **plain(run), "values": [cell(value) for value in run.values]}
            for run in page.runs]
    return {"count": page.count, "columns": list(page.columns), "rows": rows, "hints": list(page.hints)}
