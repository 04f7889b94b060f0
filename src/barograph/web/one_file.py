"""Writes a run or a study as the page of the web UI in one file, without a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from urllib.parse import quote

from barograph.errors import SettingsError
from barograph.tune.study import Study
from barograph.web.server import EXTRA


def study_as_file(study: Study, *, title: str, saved_unix: float) -> str:
    """Return the page about a study as one HTML file; arguments and errors as for `run_as_file`."""
    return _as_file([], title=title, saved_unix=saved_unix, studies={title: study})


def run_as_file(url: str, *, title: str, saved_unix: float) -> str:
    """Return the page about a run as one HTML file, with the answers to all that the page asks.

    Args:
        url: Path or URL of the run.
        title: Its name.
        saved_unix: The time now, as seconds since 1970.

    Raises:
        SettingsError: The extra is not installed, or the page was not built.
    """
    return _as_file([url], title=title, saved_unix=saved_unix)


def _as_file(
    roots: Sequence[str], *, title: str, saved_unix: float, studies: Mapping[str, Study] | None = None
) -> str:
    try:
        from barograph.web.app import application
        from barograph.web.in_process import get_inside
        from barograph.web.saved import packed, page_with, saved_answers
    except ModuleNotFoundError:
        raise SettingsError(EXTRA) from None
    keys = list(studies or ())
    app = application(roots, hosts=[], studies=studies)
    answers = saved_answers(partial(get_inside, app), [] if keys else ["0"], keys)
    start = f"#/study/{quote(keys[0], safe='')}" if keys else "#/run/0"
    return page_with(packed(answers, start=start, saved_unix=saved_unix), title=title)
