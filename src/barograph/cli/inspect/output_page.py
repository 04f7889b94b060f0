"""Output of `barograph show --output`: the printed output of the script."""

from __future__ import annotations

import sys

from barograph.cli.opening import run_at
from barograph.cli.printing import Printer
from barograph.model.one_line import harmless
from barograph.queries.output import WorkerOutput, output_of


def print_output(place: str, worker: str | None, *, as_json: bool) -> None:
    """Print the output of a run's workers in its last attempt.

    Raises:
        NotARun, NewerFormat, DamagedChunk, StoreError: The run cannot be read.
    """
    found = output_of(run_at(place).store, worker)
    if as_json:
        Printer().json([item.to_json() for item in found])
        return
    for item in found:
        if len(found) > 1:
            print(f"== {item.worker} ==")
        _print(item)
    if not found:
        print("barograph: no output of the script was saved in this run.", file=sys.stderr)


def _print(item: WorkerOutput) -> None:
    for stream, text in item.texts:
        if stream in ("out", "err"):
            sys.stdout.write(harmless(text) if sys.stdout.isatty() else text)
        else:
            sys.stdout.write(f"\n[… {int(text):,} characters omitted …]\n")
