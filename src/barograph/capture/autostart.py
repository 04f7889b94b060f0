"""Starts recording in a process that `barograph run` started, as soon as it has imported a framework."""

from __future__ import annotations

import atexit
import os
import sys
import time

from barograph.capture import armed, surroundings
from barograph.capture.command_note import leave_word
from barograph.capture.integrations import modules_waited_for
from barograph.model.launch import LAUNCH_VARIABLE


def arm() -> None:
    """Begin to record once a framework that can be recorded has been imported."""
    if '"origin": true' in os.environ.get(LAUNCH_VARIABLE, ""):
        # Before the script's first line: data may be read and things printed before a framework is imported.
        atexit.register(leave_word, surroundings.begin(), os.getpid())
    armed.arm(_begin, modules_waited_for())


def _begin() -> None:
    begin = time.perf_counter()
    try:
        from barograph.capture.recording import start_from_launch

        start_from_launch(os.environ, begin)
    except Exception as error:
        if '"strict": true' in os.environ.get(LAUNCH_VARIABLE, ""):
            raise
        print(f"Barograph: cannot record this process: {error}", file=sys.stderr)
