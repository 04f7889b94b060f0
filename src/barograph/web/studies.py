"""Routes for studies: list, overview, contours, and the study of a run."""

from __future__ import annotations

import math
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from barograph.errors import BadSpace, BarographError, SettingsError, TuneError, UnknownStudy
from barograph.model.plain import plain
from barograph.tune.analysis import contour
from barograph.tune.later_jobs import trial_job_of
from barograph.tune.overview import StudyRow, check_parameters, plan_of
from barograph.tune.studies import was_deleted
from barograph.web.answers import json_answer
from barograph.web.open_studies import OpenStudies


def study_routes(studies: OpenStudies) -> list[BaseRoute]:
    """Return the routes of studies. A study is named by `study`, two of its parameters by `x` and `y`."""

    def listed(request: Request) -> Response:
        """All studies, or those named: also ones that are too deep below a root to be found."""
        asked = request.query_params.getlist("study")
        keys, problems = (asked, []) if asked else studies.keys()
        rows = [(key, row) for key in keys if (row := row_of(studies, key)) is not None]
        rows.sort(key=lambda row: (row[1].state != "running", -_or_zero(row[1].changed_unix), row[0]))
        return json_answer(request, {"studies": [{"key": key, **row.to_json()} for key, row in rows],
                                     "problems": problems})

    def one(request: Request) -> Response:
        key = request.query_params.get("study", "")
        found = studies.overview(key)
        with studies.study(key) as study:
            plan = plan_of(study)
        return json_answer(request, {**found, "key": key, "runs_at": plan and studies.key_of(plan.root)})

    def surface(request: Request) -> Response:
        x, y = (request.query_params.get(name, "") for name in ("x", "y"))
        with studies.study(request.query_params.get("study", "")) as study:
            check_parameters(study, (x, y))
            try:
                found = contour(study, x, y)
            except BadSpace:
                raise
            except TuneError as error:  # too few trials
                raise SettingsError(str(error)) from None
        return json_answer(request, plain(found))

    def of_run(request: Request) -> Response:
        key = studies.key_of_run(request.query_params.get("run", ""))
        return json_answer(request, _of_run(studies, key, request.query_params.get("run", "").rpartition("/")[2]))

    return [Route("/api/studies", listed), Route("/api/study", one), Route("/api/study-contour", surface),
            Route("/api/study-of-run", of_run)]


def row_of(studies: OpenStudies, key: str) -> StudyRow | None:
    """Return a study as a row of the list; None if it was deleted."""
    try:
        name = studies.name_of(key)
    except BarographError:
        name = key
    try:
        return studies.row(key)
    except BarographError as error:
        if isinstance(error, UnknownStudy) and was_deleted(studies.place_of(key)):
            return None
        return StudyRow(name, "unreadable", problem=str(error))


def _of_run(studies: OpenStudies, key: str, job: str) -> dict[str, Any]:
    """Return the study and the trial of a job; null if the job is not a trial."""
    try:
        with studies.study(key) as study:
            trial = next((trial for trial in study.trials if trial.job and trial.job == trial_job_of(job)), None)
            name = studies.name_of(key)
    except BarographError:
        trial = None
    if trial is None:
        return {"study": None, "name": "", "trial": None}
    return {"study": key, "name": name, "trial": trial.number}


def _or_zero(value: float) -> float:
    return 0.0 if math.isnan(value) else value
