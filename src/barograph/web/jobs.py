"""Routes for the jobs of this user on this machine: queue, history and output."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from barograph.errors import BarographError
from barograph.jobs.home import JobRecord, JobsHome
from barograph.jobs.job_history import history_of, output_of_job
from barograph.jobs.job_log import EVENTS, EventLog
from barograph.jobs.job_report import JobReport, JobView, reports_of
from barograph.jobs.state import JobState, Phase, state_after
from barograph.model.plain import plain
from barograph.store.urls import store_from_url
from barograph.web.answers import cell, json_answer, number_in
from barograph.web.open_studies import OpenStudies
from barograph.web.places import Places
from barograph.web.studies import row_of

_MOST_JOBS = 200


def job_routes(places: Places, studies: OpenStudies) -> list[BaseRoute]:
    """Return the routes of jobs: the newest of all, one with its history (`name`), and its output."""
    home = JobsHome()  # keeps records that do not change

    def jobs(request: Request) -> Response:
        """Jobs, the newest first, and the studies whose trials are jobs; with `study`, the jobs of that study.

        The job `name` is among them, however old it is.
        """
        records, asked = list(reversed(home.all())), request.query_params.get("study")
        keys = studies.keys_of_jobs(record.name for record in records)
        rows = {key: row for key in dict.fromkeys(keys.values()) if key and (row := row_of(studies, key)) is not None}
        listed = [record for record in records if (key if (key := keys[record.name]) in rows else None) == asked]
        older = [record for record in listed[_MOST_JOBS:] if record.name == request.query_params.get("name")]
        reports = reports_of([*([] if asked else home.damaged()), *listed[:_MOST_JOBS], *older])
        order = _waiting(reversed(records))
        return json_answer(request, {
            "jobs": [_shown(report, places, order) for report in reports],
            "left_out": len(listed[_MOST_JOBS:]) - len(older),
            "studies": [] if asked else [{"key": key, **row.to_json()} for key, row in rows.items()]})

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


def _waiting(records: Iterable[JobRecord]) -> list[str]:
    """Return the names of the jobs in the queue, in its order."""
    return [record.name for record in records if not record.over and _waits(record)]


def _waits(record: JobRecord) -> bool:
    try:
        state = state_after(EventLog(store_from_url(record.url), EVENTS).new(), JobState())
    except (BarographError, KeyError, TypeError, ValueError, AttributeError):  # its row says why it cannot be read
        return False
    return state.phase is Phase.QUEUED and not state.damaged and not math.isnan(state.submitted_unix)


def _view(request: Request) -> JobView:
    # By its record alone: a name that is a path would open any place.
    record = JobsHome().named(request.query_params.get("name", ""))
    return JobView(record.name, store_from_url(record.url))


def _shown(report: JobReport, places: Places, queue: list[str]) -> dict[str, Any]:
    key = next((root.key_of(report.url) for root in places.roots
                if report.url.startswith(f"{root.place.rstrip('/')}/")), None)
    cost = report.bill.line.removeprefix("cost ") if report.bill and not math.isnan(report.bill.cost) else ""
    return {**report.to_json(), "loss": cell(report.loss), "cost": cost, "is_over": report.is_over,
            "run": key if report.attempt >= 0 else None,
            "queue": queue.index(report.name) + 1 if report.name in queue else None}
