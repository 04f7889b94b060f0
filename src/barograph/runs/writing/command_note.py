"""The files, output and options of a command that ended without training.

A training sends these to its writer process. A command that ends before its first step has none, although its output
is needed just then. So its process writes a file for the process that started it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from pathlib import Path

from barograph.model.origin import Option, Untrained
from barograph.runs.format.layout import ORIGIN, OUTPUT
from barograph.runs.state.output import OutputWriter
from barograph.runs.writing.data_writer import DataWriter
from barograph.runs.writing.options_writer import OptionsWriter
from barograph.runs.writing.writer_messages import Around
from barograph.store.base import Store

_MOST_BYTES = 64 * 2**20
_WORKER = "p0"


def take_in(store: Store, attempt: int, path: Path) -> None:
    """Write the note of a command into its run, unless a worker has written its own, as trainings do.

    Raises:
        StoreError: The store rejects it.
    """
    note = _note(path)
    if note is None:
        return
    around, untrained = note
    if _is_recorded(store, attempt):
        return
    output = OutputWriter(store, attempt, os.environ)
    output.add(around.printed, around.left_out)
    output.write(_WORKER, last=True)
    options = OptionsWriter(store, attempt, os.environ)
    options.put(around.options or {})
    options.write(_WORKER, untrained)
    data = DataWriter(store, attempt)
    data.add(around.opened, around.beyond)
    data.finish(_WORKER)


def _is_recorded(store: Store, attempt: int) -> bool:
    parts = [part.name.rpartition("/")[2] for part in store.list(OUTPUT)]
    about = re.compile(rf"{ORIGIN}/{attempt:04d}-(?:options|data)-")
    return (any(name.startswith(f"{attempt:04d}-") for name in parts)
            or any(about.match(part.name) for part in store.list(ORIGIN)))


def _note(path: Path) -> tuple[Around, Untrained] | None:
    """Return the note; None if there is none, or an incomplete one of a killed command."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
        if path.stat().st_size <= _MOST_BYTES:
            said = json.loads(path.read_bytes())
            options = {name: Option(value, tuple(flags)) for name, (value, flags) in said["options"].items()}
            around = Around(tuple(said["opened"]), said["beyond"],
                            tuple((name, text) for name, text in said["printed"]), said["left_out"], options)
            return around, Untrained(tuple(map(str, said["frameworks"])), bool(said["loops"]), str(said["error"]))
    return None
