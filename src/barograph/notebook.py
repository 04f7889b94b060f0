"""Barograph in a notebook: `%load_ext barograph`, and live charts of runs."""

from __future__ import annotations

import os
from typing import Any

from barograph.errors import SettingsError
from barograph.experiments.component import Component
from barograph.experiments.handle import Handle
from barograph.jupyter.display import CellDisplay, Display
from barograph.jupyter.live import LiveView
from barograph.jupyter.magic import Magic
from barograph.jupyter.showing import page_of_item, page_of_run, page_of_study
from barograph.model.clock import Clock, SystemClock
from barograph.runs.reading.reader import RunReader
from barograph.store.urls import store_from_url
from barograph.tune.study import Study

__all__ = ["LiveView", "load_ipython_extension", "show", "watch"]


def show(shown: Any) -> Any:
    """Return the page of a run, an experiment or a study, as in `barograph studio`, for the last line of a cell.

    Charts zoom, layers open, and what is still recorded appears. Without anywidget, or where a notebook is shown
    without a kernel, it is a picture.

    Args:
        shown: A path or URL of a run, the result of `barograph.open`, `attach`, `tracking.Run` or `list_runs`, or an
            `Experiment`, `Trial` or `Study`.

    Raises:
        SettingsError: `shown` has no page.
        NotARun: The path has no run.
    """
    if isinstance(shown, Handle) and not isinstance(shown, Component):
        return page_of_item(shown)
    if isinstance(shown, Study):
        return page_of_study(shown)
    return page_of_run(_place(shown))


def watch(
    run: Any, *metrics: str, every_secs: float = 2.0, display: Display | None = None, clock: Clock | None = None
) -> LiveView:
    """Draw a run below this cell until it ends; return the live view at once.

    A thread redraws it when data changes, using at most a twentieth of its time.

    Args:
        run: A path or URL, or the result of `barograph.open`, `attach`, `tracking.Run` or `list_runs`.
        metrics: Names of curves, such as "loss" or "gradient_norm". None given: the losses and the first scalars.
        every_secs: Minimum time between two redraws.
        display: Output to draw on. None: below this cell.
        clock: None: the system clock.

    Raises:
        SettingsError: `run` is not a run.
        NotARun: The path has no run.

    Example:
        >>> watch("runs/none")
        Traceback (most recent call last):
        ...
        barograph.errors.NotARun: Not a run: there is no run.json (...).
    """
    shown = display or CellDisplay()
    return LiveView(RunReader(store_from_url(_place(run))), metrics, display=shown, clock=clock or SystemClock(),
                    every_secs=every_secs).start()


def load_ipython_extension(shell: Any) -> None:
    """Register `%barograph` and `%%barograph`; IPython calls it for `%load_ext barograph`."""
    Magic(shell).load()


def _place(run: Any) -> str:
    if isinstance(run, str | os.PathLike):
        return os.fspath(run)
    place = run.place if isinstance(run, Component) else getattr(run, "url", "")
    if not isinstance(place, str) or not place:
        raise SettingsError(f"Expected a run or its path, not {type(run).__name__}.")
    return place
