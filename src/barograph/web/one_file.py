"""Writes the page of a run or a study as one HTML file that needs no server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from urllib.parse import quote

from barograph.errors import SettingsError
from barograph.experiments.roots import root_of_places
from barograph.tune.study import Study
from barograph.web.places import Places
from barograph.web.server import EXTRA


def study_as_file(study: Study, *, title: str, saved_unix: float) -> str:
    """Return the page of a study as one HTML file; arguments and errors as for `run_as_file`."""
    return _as_file([], title=title, saved_unix=saved_unix, studies={title: study})


def run_as_file(url: str, *, title: str, saved_unix: float) -> str:
    """Return the page of a run as one HTML file with all its data.

    Args:
        url: Path or URL of the run.
        title: Its name.
        saved_unix: The time now, as seconds since 1970.

    Raises:
        SettingsError: The extra is not installed, or the page was not built.
    """
    # What people changed, and the files that the script logged, are in the catalog of all runs.
    root = root_of_places([url]) or url
    return _as_file([root], title=title, saved_unix=saved_unix, run=url)


def _as_file(
    roots: Sequence[str], *, title: str, saved_unix: float, run: str = "", studies: Mapping[str, Study] | None = None
) -> str:
    try:
        from barograph.web.app import application
        from barograph.web.in_process import get_inside
        from barograph.web.saved import packed, page_with, saved_answers
    except ModuleNotFoundError:
        raise SettingsError(EXTRA) from None
    keys, runs = list(studies or ()), [root.key_of(run) for root in Places(roots).roots if run]
    app = application(roots, hosts=[], studies=studies)
    answers = saved_answers(partial(get_inside, app), runs, keys)
    start = f"#/run/{quote(runs[0])}" if runs else f"#/study/{quote(keys[0], safe='')}"
    return page_with(packed(answers, start=start, saved_unix=saved_unix), title=title)
