"""Output of `barograph checkpoints`."""

from __future__ import annotations

from barograph.cli.opening import run_at
from barograph.cli.printing import Column, Printer
from barograph.queries.checkpoints import checkpoints_of, how_to_resume
from barograph.runs.reading.glance import glance
from barograph.watch.figures import local_time, size
from barograph.watch.wording import shown

_COLUMNS = (Column("steps", right=True), Column("attempt", right=True), Column("saved"), Column("size", right=True),
            Column("state", prose=True), Column("name", spare=1))


def print_checkpoints(place: str, *, as_json: bool) -> None:
    """Print the checkpoints of the run at `place`, oldest first, including damaged ones.

    Raises:
        NotARun: There is no run at `place`.
        StoreError: The run cannot be read.
    """
    store, printer = run_at(place).store, Printer()
    rows = checkpoints_of(store)
    if as_json:
        printer.json([row.to_json() for row in rows])
        return
    if not rows:
        printer.line("No checkpoints in this run. To save some: barograph run --checkpoint auto")
        return
    printer.table(_COLUMNS, [
        [f"{row.steps:,}", f"{row.attempt}", local_time(row.saved_unix), size(row.size_bytes),
         shown(f"skipped: {row.why_not}" if row.why_not else row.state), shown(row.name)] for row in rows
    ])
    printer.line(how_to_resume(rows, glance(store).state, shown(place)))
