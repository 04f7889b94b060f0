"""All routes except those of the lists of runs: what they import takes much longer to load and twice the memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from barograph.model.clock import Clock
from barograph.tune.study import Study
from barograph.web import inside
from barograph.web.answers import json_answer
from barograph.web.asked_runs import AskedRuns
from barograph.web.catalogs import Catalogs
from barograph.web.changes import Changes, change_routes
from barograph.web.charting import charting_routes
from barograph.web.comparing import comparing_routes
from barograph.web.edits import edit_routes
from barograph.web.files import file_routes
from barograph.web.grouping import grouping_routes
from barograph.web.jobs import job_routes
from barograph.web.lineage import lineage_routes
from barograph.web.open_studies import OpenStudies
from barograph.web.opened import OpenRuns
from barograph.web.places import Places
from barograph.web.questions import QUESTIONS, Question
from barograph.web.run_charts import RunCharts
from barograph.web.saving import saving_routes
from barograph.web.schema import schema_of
from barograph.web.shapes import SHAPES
from barograph.web.studies import study_routes


def other_routes(
    places: Places, catalogs: Catalogs, *, clock: Clock | None, studies: Mapping[str, Study] | None
) -> list[BaseRoute]:
    """Return the routes; arguments as in `application`."""
    opened = OpenRuns(places, clock=clock)
    tuned = OpenStudies(places, studies)
    changes = Changes(places, on_change=opened.has_changed, clock=clock)

    def schema(request: Request) -> Response:
        return json_answer(request, schema_of(SHAPES))

    def about(question: Question) -> Any:
        def answer(request: Request) -> Response:
            keys = request.query_params.getlist("run")
            found = []
            for key in keys:
                with opened.run(key) as reader:
                    found.append(question(reader, request))
            return json_answer(request, found[0] if len(found) == 1 else found)
        return answer

    about_runs = [Route(f"/api/{name}", about(question))
                  for name, question in {**QUESTIONS, **inside.QUESTIONS}.items()]
    return [*RunCharts(AskedRuns(places, catalogs)).routes(),
            *charting_routes(opened),
            *grouping_routes(opened, catalogs),
            *edit_routes(places, catalogs, clock),
            *file_routes(places, catalogs),
            *lineage_routes(places, catalogs),
            *job_routes(places, tuned),
            *study_routes(tuned),
            *comparing_routes(opened, catalogs),
            Route("/api/schema", schema),
            *saving_routes(),
            *change_routes(changes),
            *about_runs, inside.latent_route(opened)]
