"""Barograph in a notebook: `%load_ext barograph`, and runs that are drawn while they go on."""

from __future__ import annotations

import os
from typing import Any

from barograph.errors import SettingsError
from barograph.experiments.component import Component
from barograph.jupyter.display import CellDisplay, Display
from barograph.jupyter.live import LiveView
from barograph.jupyter.magic import Magic
from barograph.model.clock import Clock, SystemClock
from barograph.runs.reading.reader import Run
from barograph.store.urls import store_from_url

__all__ = ["LiveView", "load_ipython_extension", "watch"]


def watch(
    run: Any, *metrics: str, every_secs: float = 2.0, display: Display | None = None, clock: Clock | None = None
) -> LiveView:
    """Draw a run below this cell until it has ended, and return at once what draws it.

    A thread draws it anew where anything has changed, at no more than a twentieth of its time.

    Args:
        run: Its place; or what `barograph.open`, `attach`, `tracking.Run` or `list_runs` gave.
        metrics: Names of curves, as "loss" or "gradient_norm"; none: the losses, and the first numbers.
        every_secs: Least time between two drawings.
        display: Where it is drawn; None: below this cell.
        clock: Time; None: the machine's.

    Raises:
        SettingsError: That is no run.
        NotARun: There is no run at that place.

    Example:
        >>> watch("runs/none")
        Traceback (most recent call last):
        ...
        barograph.errors.NotARun: There is no run here: no run.json (...).
    """
    shown = display or CellDisplay()
    return LiveView(Run(store_from_url(_place(run))), metrics, display=shown, clock=clock or SystemClock(),
                    every_secs=every_secs).start()


def load_ipython_extension(shell: Any) -> None:
    """Make `%barograph` and `%%barograph` known; IPython calls it for `%load_ext barograph`."""
    Magic(shell).load()


def _place(run: Any) -> str:
    if isinstance(run, str | os.PathLike):
        return os.fspath(run)
    place = run.place if isinstance(run, Component) else getattr(run, "url", "")
    if not isinstance(place, str) or not place:
        raise SettingsError(f"watch takes a run or its place; this is {type(run).__name__}, which has none.")
    return place
