"""Routes for charts and groups of the runs that a search finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from starlette.requests import Request
from starlette.routing import Route

from barograph.experiments.run_groups import run_groups
from barograph.experiments.run_points import run_importances, run_points
from barograph.model.plain import plain
from barograph.web.asked_runs import MOST_COLUMNS, AskedRuns, answering, columns_by


class RunCharts:
    """Routes of the charts above the list of runs.

    Args:
        asked: Finds the runs of a request.
    """

    def __init__(self, asked: AskedRuns) -> None:
        self._asked = asked

    def routes(self) -> list[Route]:
        """Return the routes."""
        answers: tuple[Callable[[Request], Any], ...] = self.groups, self.points, self.importance
        return [Route(f"/api/{answer.__name__}", answering(answer)) for answer in answers]

    def groups(self, request: Request) -> Any:
        """Groups of runs with the verdict of a statistical test."""
        with self._asked.of(request) as asked:
            found = run_groups(asked.connection, asked.ids, columns_by(request), request.query_params.get("metric", ""),
                               less_is_better={"1": True, "0": False}.get(request.query_params.get("less", "")))
        return {**found.to_json(asked.root.key_of), "runs": len(asked.ids)}

    def points(self, request: Request) -> Any:
        """Columns of all runs of a search, for charts."""
        with self._asked.of(request) as asked:
            found = run_points(asked.connection, asked.ids, request.query_params.getlist("column")[:MOST_COLUMNS])
        data = plain({"count": found.count, "names": found.names, "colors": found.colors, "columns": found.columns})
        return {**data, "keys": [asked.root.key_of(place) for place in found.places]}

    def importance(self, request: Request) -> Any:
        """How much a metric depends on each parameter."""
        with self._asked.of(request) as asked:
            return plain(run_importances(asked.connection, asked.ids, request.query_params.get("metric", "")))
