"""Routes for saving the page as a file."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from barograph.web.answers import json_answer
from barograph.web.in_process import get_inside
from barograph.web.saved import page_with, saved_answers


def saving_routes() -> list[Route]:
    """Return the routes: the page without data, and the responses of runs and studies."""
    return [Route("/offline.html", _page), Route("/api/answers", _answers)]


def _page(request: Request) -> Response:
    return HTMLResponse(page_with())


def _answers(request: Request) -> Response:
    return json_answer(request, saved_answers(
        partial(get_inside, request.app), request.query_params.getlist("run"), request.query_params.getlist("study")))
