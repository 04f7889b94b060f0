"""Starts recording in a process that `barograph run` started, as soon as it has imported a framework."""

from __future__ import annotations

import atexit
import json
import os
import sys
import time

from barograph.capture import armed, surroundings
from barograph.capture.command_note import write_note
from barograph.capture.integrations import installed_integrations
from barograph.model.launch_variable import LAUNCH_VARIABLE, integrations_from_launch


def arm() -> None:
    """Start recording once a supported framework has been imported."""
    if '"origin": true' in os.environ.get(LAUNCH_VARIABLE, ""):
        # Before the script's first line: it may read data and print before it imports a framework.
        atexit.register(write_note, surroundings.begin(), os.getpid())
    armed.arm(_begin, _modules_waited_for())


def _modules_waited_for() -> list[str]:
    try:
        listed = integrations_from_launch(json.loads(os.environ.get(LAUNCH_VARIABLE) or "{}"))
    except (ValueError, TypeError, AttributeError):
        listed = None  # reported when the recording starts; a process that does not train must not fail
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
