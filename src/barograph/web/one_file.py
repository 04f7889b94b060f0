"""Writes a run as the page of the web UI in one file, without a server."""

from __future__ import annotations

from functools import partial

from barograph.errors import SettingsError
from barograph.web.server import EXTRA


def run_as_file(url: str, *, title: str, saved_unix: float) -> str:
    """Return the page about a run as one HTML file, with the answers to all that the page asks.

    Args:
        url: Path or URL of the run.
        title: Its name.
        saved_unix: The time now, as seconds since 1970.

    Raises:
        SettingsError: The extra is not installed, or the page was not built.
    """
    try:
        from barograph.web.app import application
        from barograph.web.in_process import get_inside
        from barograph.web.saved import packed, page_with, saved_answers
    except ModuleNotFoundError:
        raise SettingsError(EXTRA) from None
    answers = saved_answers(partial(get_inside, application([url], hosts=[])), ["0"])
    return page_with(packed(answers, start="#/run/0", saved_unix=saved_unix), title=title)
