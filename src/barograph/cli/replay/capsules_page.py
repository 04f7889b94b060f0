"""What `barograph capsules` prints."""

from __future__ import annotations

from dataclasses import asdict

from barograph.cli.opening import run_at
from barograph.cli.printing import Column, Printer
from barograph.errors import DamagedChunk, NewerFormat
from barograph.model.capsule import CapsuleHead
from barograph.runs.reading.glance import glance
from barograph.runs.state.capsules import capsule_names, read_head
from barograph.watch.figures import local_time
from barograph.watch.wording import shown

_COLUMNS = (Column("step", right=True), Column("optimizer"), Column("held"), Column("when"), Column("why"),
            Column("place"))


def print_capsules(place: str, *, as_json: bool) -> None:
    """Print the capsules of the run at `place`; one that cannot be read is named among them.

    Raises:
        NotARun: There is none.
        StoreError: It cannot be read.
    """
    store = run_at(place).store
    printer = Printer()
    heads: list[tuple[str, CapsuleHead | str]] = []
    for name in capsule_names(store):
        where = f"{place.rstrip('/')}/capsules/{name}"
        try:
            heads.append((where, read_head(store, name)))
        except (DamagedChunk, NewerFormat) as error:
            heads.append((where, str(error)))
    if as_json:
        printer.json([{"place": where, **({"damaged": head} if isinstance(head, str) else asdict(head))}
                      for where, head in heads])
        return
    if not heads:
        printer.line("No capsules in this run. The flight recorder saves them: barograph run --record")
        for state in glance(store).newest_workers:
            if state.ending is not None and state.ending.reason:
                printer.line(f"Run ended: {shown(state.ending.reason)}")
        return
    printer.table(_COLUMNS, [
        ["", "", "", "", shown(head), shown(where)] if isinstance(head, str) else
        [f"{head.step}", shown(head.optimizer), head.held.value, local_time(head.made_unix), shown(head.text),
         shown(where)]
        for where, head in heads
    ])
    printer.line(f"Replay one in the folder of its script:  barograph replay {shown(heads[-1][0])}")
