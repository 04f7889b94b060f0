"""What `barograph keys` prints."""

from __future__ import annotations

import sys

from barograph.cli.figures import summary_to_json
from barograph.cli.opening import and_others, run_at, tell_damage
from barograph.cli.printing import Cell, Column, Printer
from barograph.cli.signs import count_of_bad
from barograph.errors import UnknownKey, nearest
from barograph.model.key import kind_from_name
from barograph.model.one_line import shown_lines
from barograph.runs.reading.inventory import Entry, inventory
from barograph.runs.reading.one_worker import OneWorker, speaker_of
from barograph.runs.reading.reader import Run
from barograph.watch.figures import figure, share

_COLUMNS = (
    Column("key"), Column("layer", spare=2), Column("dtype", spare=5), Column("mode"), Column("steps", right=True),
    Column("first", right=True, spare=4), Column("last", right=True), Column("value", right=True),
    Column("norm", right=True), Column("std", right=True, spare=1), Column("zeros", right=True, spare=3),
    Column("nan/inf", right=True),
)


def print_keys(place: str, kind: str | None, path: str, worker: str | None = None, *, as_json: bool) -> None:
    """Print the keys of the run at `place`.

    Raises:
        UnknownName: There is no such kind.
        UnknownKey: Nothing of that kind and path was recorded; the message says what was.
        UnknownWorker: There is no such worker.
        NotARun, StoreError: The run cannot be read.
    """
    if kind is not None:
        kind_from_name(kind)
    run, printer = run_at(place), Printer()
    shown = worker if worker is not None else speaker_of(run)
    run = OneWorker(run.store, shown) if shown is not None else run
    entries = inventory(run, kind, path)
    if not entries and (kind is not None or path != "*"):
        raise UnknownKey(_nothing(run, kind, path))
    if as_json:
        printer.json([_to_json(entry) for entry in entries])
    elif entries:
        printer.table(_COLUMNS, [_row(entry) for entry in entries])
    else:
        printer.line("No data in this run can be read." if run.damage else "Nothing has been recorded in this run yet.")
    if others := and_others(run, shown):
        # Not among the rows, which are for grep and awk.
        print(f"barograph: this is {shown_lines(others)}", file=sys.stderr)
    tell_damage(run, place)


def _row(entry: Entry) -> list[Cell]:
    where: list[Cell] = [
        str(entry.key), entry.layer, entry.dtype, entry.mode.value, f"{entry.steps}", f"{entry.first_step}",
        f"{entry.last_step}", figure(entry.value),
    ]
    seen = entry.summary
    if seen is None:
        return [*where, "", "", "", ""]
    return [*where, figure(seen.l2), figure(seen.std), share(seen.sparsity), count_of_bad(seen.nonfinite)]


def _nothing(run: Run, kind: str | None, path: str) -> str:
    recorded = run.keys()
    if kind is not None and all(key.kind != kind for key in recorded):
        return f"Nothing of kind {kind} was recorded. {nearest(kind, {key.kind.value for key in recorded})}"
    known = [key.path for key in recorded if kind is None or key.kind == kind]
    what = f" of kind {kind}" if kind is not None else ""
    return f'No path{what} matches "{path}". {_nearest_path(path, known)}'


def _nearest_path(path: str, known: list[str]) -> str:
    said = nearest(path.replace("*", ""), known)
    # All names of a large model are no help.
    return said if said.startswith("Did") or len(known) <= 12 else f"There are {len(known)}, {known[0]} among them."


def _to_json(entry: Entry) -> dict[str, object]:
    return {
        "key": str(entry.key), "kind": entry.key.kind, "path": entry.key.path, "layer": entry.layer,
        "dtype": entry.dtype, "mode": entry.mode, "steps": entry.steps, "first_step": entry.first_step,
        "last_step": entry.last_step, "saved": entry.saved, "value": entry.value,
        "summary": None if entry.summary is None else summary_to_json(entry.summary),
    }
