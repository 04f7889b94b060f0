"""Output of `barograph capsules`."""

from __future__ import annotations

from barograph.cli.opening import run_at
from barograph.cli.printing import Column, Printer
from barograph.queries.capsules import CapsuleRow, capsules_of
from barograph.runs.reading.glance import glance
from barograph.watch.figures import local_time
from barograph.watch.wording import shown

_COLUMNS = (Column("step", right=True), Column("optimizer"), Column("held"), Column("when"), Column("why"),
            Column("place"))


def print_capsules(place: str, *, as_json: bool) -> None:
    """Print the capsules of the run at `place`, including damaged ones.

    Raises:
        NotARun: There is no run.
        StoreError: The run cannot be read.
    """
    store, printer = run_at(place).store, Printer()
    rows = capsules_of(store, place)
    if as_json:
        printer.json([row.to_json() for row in rows])
        return
    if not rows:
        printer.line("No capsules in this run. The flight recorder saves them: barograph run --record")
        for state in glance(store).newest_workers:
            if state.ending is not None and state.ending.reason:
                printer.line(f"Run ended: {shown(state.ending.reason)}")
        return
    printer.table(_COLUMNS, [_cells(row) for row in rows])
    printer.line(f"Replay one, in the folder of its script:  barograph replay {shown(rows[-1].place)}")


def _cells(row: CapsuleRow) -> list[str]:
    head = row.head
    if head is None:
        return ["", "", "", "", shown(row.damaged), shown(row.place)]
    return [f"{head.step}", shown(head.optimizer), head.held.value, local_time(head.made_unix), shown(head.text),
            shown(row.place)]
