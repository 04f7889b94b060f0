"""Output of `barograph keys`."""

from __future__ import annotations

import sys

from barograph.cli.opening import print_damage, run_at
from barograph.cli.printing import Cell, Column, Printer
from barograph.cli.signs import count_of_bad
from barograph.model.key import kind_from_name
from barograph.model.one_line import shown_lines
from barograph.queries.keys import KeyRow, keys_of, without_counts
from barograph.queries.workers import chosen, figures_of
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
        UnknownName: The kind does not exist.
        UnknownKey: No key matches; the message lists the recorded ones.
        UnknownWorker: The worker does not exist.
        NotARun, StoreError: The run cannot be read.
    """
    if kind is not None:
        kind_from_name(kind)
    printer = Printer()
    run, shown = chosen(run_at(place), worker)
    rows = keys_of(run, kind, path)
    if as_json:
        printer.json([row.to_json() for row in rows])
    elif rows:
        shown_rows = without_counts(rows) if printer.on_terminal and kind is None and path == "*" else rows
        printer.table(_COLUMNS, [_row(row) for row in shown_rows])
        if left_out := len(rows) - len(shown_rows):
            kinds = sorted({row.key.kind.value for row in rows} - {row.key.kind.value for row in shown_rows})
            printer.line(f"{left_out} counts of classes are not shown: {', '.join(f'--kind {kind}' for kind in kinds)}",
                         indent=2)
    else:
        printer.line("No data in this run can be read." if run.damage else "Nothing has been recorded in this run yet.")
    if others := figures_of(run, shown):
        # On standard error, since the rows are for grep and awk.
        print(f"barograph: this is {shown_lines(others)}", file=sys.stderr)
    print_damage(run, place)


def _row(row: KeyRow) -> list[Cell]:
    where: list[Cell] = [
        str(row.key), row.layer, row.dtype, row.mode.value, f"{row.steps}", f"{row.first_step}", f"{row.last_step}",
        figure(row.value),
    ]
    seen = row.summary
    if seen is None:
        return [*where, "", "", "", ""]
    return [*where, figure(seen.l2), figure(seen.std), share(seen.sparsity), count_of_bad(seen.nonfinite)]
