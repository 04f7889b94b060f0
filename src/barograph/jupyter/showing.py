"""Chooses how a run or an experiment is shown below a cell: the live page, or a picture of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import urlencode

from barograph.errors import SettingsError
from barograph.experiments.experiment import Experiment, Trial
from barograph.experiments.handle import Handle
from barograph.jupyter.drawing import handle_html, run_html
from barograph.queries.run_list import GOING_ON
from barograph.runs.reading.glance import glance
from barograph.runs.reading.reader import RunReader
from barograph.store.urls import store_from_url
from barograph.tune.overview import overview_of
from barograph.tune.study import Study
from barograph.tune.study_page import study_fragment

_STUDY = "study"
"""Key of the study that is shown."""


class Picture:
    """HTML that a notebook shows.

    Args:
        html: The HTML.
    """

    def __init__(self, html: str) -> None:
        self._html = html

    def __repr__(self) -> str:
        return "Picture()"

    def _repr_html_(self) -> str:
        return self._html


def page_of_run(url: str) -> Any:
    """Return the page of a run, which follows it until it ends; a `Picture` without anywidget.

    Raises:
        NotARun, NewerFormat, DamagedChunk, StoreError: The run cannot be read.
    """
    run = RunReader(store_from_url(url))
    return _page(url, "#/run/0", run_html(run), lambda: glance(run.store).state in GOING_ON)


def page_of_item(item: Handle) -> Any:
    """Return the page of an experiment or a trial, which lists its runs; a `Picture` without anywidget.

    Raises:
        SettingsError: It has no page.
    """
    if not isinstance(item, Experiment | Trial):
        raise SettingsError(f"{item.name} has no page. Show an experiment, a trial or a run.")
    field = "experiment" if isinstance(item, Experiment) else "trial"
    name = item.name.replace("'", "''")
    query = urlencode({"q": f"{field} = '{name}'"})
    return _page(item.catalog.store.url, f"#/runs?{query}", handle_html(item), None)


def page_of_study(study: Study) -> Any:
    """Return the page of a study, which follows it until it is over; a `Picture` without anywidget."""
    picture = study_fragment(overview_of(study, _STUDY))
    return _page("", f"#/study/{_STUDY}", picture, lambda: not study.over or bool(study.running), {_STUDY: study})


def _page(
    root: str, start: str, picture: str, goes_on: Callable[[], bool] | None, studies: Mapping[str, Study] | None = None
) -> Any:
    try:
        from barograph.jupyter.page_widget import PageWidget
        from barograph.web.app import application
        from barograph.web.in_process import get_inside
    except ModuleNotFoundError:
        return Picture(picture)
    try:
        app = application([root] if root else [], hosts=[], studies=studies)
        widget = PageWidget(partial(get_inside, app), start=start, picture=picture)
    except SettingsError:
        return Picture(picture)  # the page was not built
    if goes_on is not None and goes_on():
        widget.follow(goes_on)
    return widget
