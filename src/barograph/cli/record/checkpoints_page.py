"""What `barograph checkpoints` prints."""

from __future__ import annotations

from typing import Any

from barograph.cli.opening import run_at
from barograph.cli.printing import Column, Printer
from barograph.runs.reading.glance import RunState, glance
from barograph.runs.state.checkpoints import SavedCheckpoint, saved_checkpoints
from barograph.watch.figures import local_time, size
from barograph.watch.wording import shown

_COLUMNS = (Column("steps", right=True), Column("attempt", right=True), Column("saved"), Column("size", right=True),
            Column("state", prose=True), Column("name", spare=1))


def print_checkpoints(place: str, *, as_json: bool) -> None:
    """Print the checkpoints of the run at `place`, oldest first; one that cannot be read is named among them.

    Raises:
        NotARun: There is none.
        StoreError: It cannot be read.
    """
    store = run_at(place).store
    printer = Printer()
    saved = saved_checkpoints(store)
    if as_json:
        printer.json([_entry(item) for item in saved])
        return
    if not saved:
        printer.line("No checkpoints in this run. To save some: barograph run --checkpoint auto")
        return
    printer.table(_COLUMNS, [
        [f"{item.steps:,}", f"{item.attempt}", local_time(item.saved_unix), size(item.size_bytes),
         shown(_state(item)), shown(item.name)] for item in saved
    ])
    good = next((item for item in reversed(saved) if item.is_good), None)
    printer.line(_next(place, good, glance(store).state))


def _entry(item: SavedCheckpoint) -> dict[str, Any]:
    return {"name": item.name, "attempt": item.attempt, "steps": item.steps, "saved_unix": item.saved_unix,
            "size_bytes": item.size_bytes, "state": _word(item), "why_not": item.why_not}


def _word(item: SavedCheckpoint) -> str:
    if item.why_not is None:
        return "not read"
    return "passed over" if item.why_not else "good"


def _state(item: SavedCheckpoint) -> str:
    return f"skipped: {item.why_not}" if item.why_not else _word(item)


def _next(place: str, good: SavedCheckpoint | None, state: RunState) -> str:
    """Return what can be done with them."""
    if good is None:
        return "Training cannot resume from any of them."
    if state is RunState.FINISHED:
        return "The run has finished. There is nothing to resume."
    if state in (RunState.RUNNING, RunState.STARTING):
        return f"Training is still running. After it ends, barograph resume restarts it from step {good.steps:,}."
    return f"Resume from step {good.steps:,}, in the folder of the script:  barograph resume {shown(place)}"
