"""What `barograph export tensorboard` does and prints."""

from __future__ import annotations

import re
from pathlib import Path

from rich.text import Text

from barograph.cli.opening import run_at, tell_damage
from barograph.cli.printing import Printer
from barograph.cli.progress_bar import progress
from barograph.export.tensorboard import Exported, export_tensorboard
from barograph.runs.reader import Run
from barograph.watch.figures import count

DEFAULT_ROOT = "tensorboard"
"""Folder, below the working directory, of events whose place nobody chose: what TensorBoard is to be shown."""


def export_and_tell(place: str, out: Path | None, *, as_json: bool) -> None:
    """Write the run at `place` as event files, and say what they hold.

    Raises:
        ExportError: The folder holds other events, or the run nothing to show.
        StoreDenied: The folder cannot be written.
        NotARun, NewerFormat, DamagedChunk, StoreError: The run cannot be read.
    """
    run = run_at(place)
    with progress("writing") as on_progress:
        exported = export_tensorboard(run, out or _usual_place(run), on_progress=on_progress)
    printer = Printer()
    if as_json:
        printer.json({**exported.to_json(), "damage": run.damage})
    else:
        _print(printer, exported)
    tell_damage(run, place)


def _usual_place(run: Run) -> Path:
    name = re.sub(r"[^\w.-]+", "-", run.manifest.name).strip("-.") or run.manifest.run_id
    return Path(DEFAULT_ROOT) / name


def _print(printer: Printer, exported: Exported) -> None:
    what = [count(exported.scalars, "scalar"), count(exported.histograms, "histogram"),
            count(exported.texts, "finding")]
    printer.line(Text.assemble(("written", "bold green"), f": {', '.join(what)}."))
    printer.entries([
        ("run", exported.run), ("folders", ", ".join(f"{exported.out}/{folder}" for folder in exported.folders)),
        ("next", f"tensorboard --logdir {exported.out}"),
    ])
