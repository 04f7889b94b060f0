"""Hands the jobs over from a running controller to one of a newer Barograph, after an upgrade.

    controller.json   version of the controller that runs
    handover.json     version of one that waits for it to end

Instances continue, as after a controller was killed. An older Barograph asks for nothing, so that two versions that are
used in turn do not replace each other all the time.
"""

from __future__ import annotations

import contextlib
import json
import re

from barograph.errors import JobRefused
from barograph.jobs.home import JobsHome
from barograph.version import __version__

_RUNNING, _ASKED = "controller.json", "handover.json"


def note_running(home: JobsHome) -> None:
    """Record that this process is the controller now."""
    (home.path / _ASKED).unlink(missing_ok=True)
    _write(home, _RUNNING)


def note_ended(home: JobsHome) -> None:
    """Remove the record of this controller, which still has the lock."""
    with contextlib.suppress(OSError):
        (home.path / _RUNNING).unlink(missing_ok=True)


def is_noted(home: JobsHome) -> bool:
    """Return whether there is a record of a controller, which may have been killed."""
    return (home.path / _RUNNING).exists()


def is_older_running(home: JobsHome) -> bool:
    """Return whether the controller that runs has an older version than this process."""
    running = _version(home, _RUNNING)
    return running is not None and running < _parsed(__version__)


def ask_for_handover(home: JobsHome) -> None:
    """Ask the controller that runs to end."""
    _write(home, _ASKED)


def is_asked(home: JobsHome) -> bool:
    """Return whether a newer controller waits for this one to end."""
    asked = _version(home, _ASKED)
    return asked is not None and asked > _parsed(__version__)


def _write(home: JobsHome, name: str) -> None:
    with contextlib.suppress(JobRefused):  # a full disk; the jobs go on
        home.write_note(name, {"version": __version__})


def _version(home: JobsHome, name: str) -> tuple[int, ...] | None:
    try:
        return _parsed(str(json.loads((home.path / name).read_bytes())["version"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _parsed(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)))
