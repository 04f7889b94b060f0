"""Routes for the jobs of this user on this machine: queue, history and output."""

from __future__ import annotations

import math
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from barograph.jobs.home import JobsHome
from barograph.jobs.job_history import history_of, output_of_job
from barograph.jobs.job_report import JobReport, JobView, reports_of
from barograph.jobs.state import Phase
from barograph.model.plain import plain
from barograph.store.urls import store_from_url
from barograph.web.answers import json_answer, number_in
from barograph.web.places import Places

_MOST_JOBS = 200


def job_routes(places: Places) -> list[BaseRoute]:
    """Return the routes of jobs: the newest of all, one with its history (`name`), and its output."""

    def jobs(request: Request) -> Response:
        home = JobsHome()
        records = home.all()
        reports = reports_of([*home.damaged(), *reversed(records[-_MOST_JOBS:])])
        order = [report.name for report in reversed(reports) if report.phase is Phase.QUEUED]
        return json_answer(request, [_shown(report, places, order) for report in reports])

    def job(request: Request) -> Response:
        view = _view(request)
        report = view.report()
        return json_answer(request, {**_shown(report, places, []), "history": plain(history_of(view.store))})

    def output(request: Request) -> Response:
        view = _view(request)
        state = view.refresh()
        asked = number_in(request, "attempt")
        attempt = state.attempt if asked is None else asked
        found = output_of_job(view.store, attempt, view.submission.spec.instances) if attempt >= 0 else []
        return json_answer(request, {"attempt": attempt, "attempts": state.attempt + 1, "instances": plain(found)})

    return [Route("/api/jobs", jobs), Route("/api/job", job), Route("/api/job-output", output)]


def _view(request: Request) -> JobView:
    # By its record alone: a name that is a path would open any place.
    record = JobsHome().named(request.query_params.get("name", ""))
    return JobView(record.name, store_from_url(record.url))


def _shown(report: JobReport, places: Places, queue: list[str]) -> dict[str, Any]:
    key = next((root.key_of(report.url) for root in places.roots
                if report.url.startswith(f"{root.place.rstrip('/')}/")), None)
    cost = report.bill.line.removeprefix("cost ") if report.bill and not math.isnan(report.bill.cost) else ""
    return {**report.to_json(), "cost": cost, "is_over": report.is_over, "run": key if report.attempt >= 0 else None,
            "queue": queue.index(report.name) + 1 if report.name in queue else None}
