"""Starts recording in a process that `barograph run` started, as soon as it has imported a framework."""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
from collections.abc import Callable, Sequence

from barograph.capture import surroundings
from barograph.capture.afterword import leave_word
from barograph.capture.imports import after_import, forget
from barograph.capture.integrations import installed_integrations
from barograph.model.launch import LAUNCH_VARIABLE, integrations_from_launch


def arm(begin: Callable[[], None] | None = None, modules: Sequence[str] | None = None) -> None:
    """Wait for the import of a framework; costs a few microseconds an import until then.

    Args:
        begin: What to do then; None: begin to record.
        modules: Those that are waited for, any of them; None: those of every installed integration.
    """
    if begin is None and '"origin": true' in os.environ.get(LAUNCH_VARIABLE, ""):
        # Before the script's first line: data may be read and things printed before a framework is imported.
        atexit.register(leave_word, surroundings.begin(), os.getpid())
    armed = _Armed(begin or _begin)
    _armed.append(armed)
    for name in _modules_waited_for() if modules is None else modules:
        after_import(name, armed.fire)


def begin_if_armed() -> None:
    """Begin now rather than at the import of a framework, if that was still waited for."""
    for armed in list(_armed):
        armed.fire()


class _Armed:
    """Runs a callback once, at the first import of one of several modules."""

    def __init__(self, begin: Callable[[], None]) -> None:
        self._begin = begin

    def fire(self) -> None:
        if self in _armed:
            _armed.remove(self)
            forget(self.fire)
            self._begin()


_armed: list[_Armed] = []


def _modules_waited_for() -> list[str]:
    try:
        listed = integrations_from_launch(json.loads(os.environ.get(LAUNCH_VARIABLE) or "{}"))
    except (ValueError, TypeError, AttributeError):
        listed = None  # whoever begins the recording reports it; a process that does not train must not fail
    return [item.module for item in (installed_integrations().found if listed is None else listed)]


def _begin() -> None:
    begin = time.perf_counter()
    try:
        from barograph.capture.recording import start_from_launch

        start_from_launch(os.environ, begin)
    except Exception as error:
        if '"strict": true' in os.environ.get(LAUNCH_VARIABLE, ""):
            raise
        print(f"Barograph: cannot record this process: {error}", file=sys.stderr)
