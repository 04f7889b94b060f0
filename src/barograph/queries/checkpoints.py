"""The checkpoints of a run, and from which one training can resume."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from barograph.model.plain import plain
from barograph.runs.reading.glance import RunState
from barograph.runs.state.checkpoints import SavedCheckpoint, saved_checkpoints
from barograph.store.base import Store


@dataclass(frozen=True, slots=True)
class CheckpointRow:
    """One checkpoint.

    Attributes:
        name: Name of its metadata file in the store; of several workers, the first one's.
        attempt: Attempt that saved it.
        steps: Optimizer steps made by then.
        saved_unix: When it was saved, by the store's clock.
        size_bytes: Size of all its files.
        state: "good": training can resume from it; "passed over": it cannot; "not read": a newer one is good.
        why_not: Why it was passed over; "" if it is good; None if it was not read.
    """

    name: str
    attempt: int
    steps: int
    saved_unix: float
    size_bytes: int
    state: str
    why_not: str | None

    def to_json(self) -> dict[str, Any]:
        """Return it as strict JSON data."""
        data: dict[str, Any] = plain(self)
        return data


def checkpoints_of(store: Store) -> list[CheckpointRow]:
    """Return the checkpoints of a run, oldest first.

    Raises:
        StoreError: The store cannot be read.
    """
    return [_row(item) for item in saved_checkpoints(store)]


def how_to_resume(rows: list[CheckpointRow], state: RunState, place: str) -> str:
    """Return what can be done with the checkpoints of a run, a sentence.

    Args:
        rows: The checkpoints.
        state: State of the run.
        place: Path or URL of the run, as a command takes it.
    """
    good = next((row for row in reversed(rows) if row.state == "good"), None)
    if good is None:
        return "Training cannot resume from any of them."
    if state is RunState.FINISHED:
        return "The run has finished. There is nothing to resume."
    if state in (RunState.RUNNING, RunState.STARTING):
        return f"Training is still running. After it ends, barograph resume restarts it from step {good.steps:,}."
    return f"Resume from step {good.steps:,}, in the folder of the script:  barograph resume {place}"


def _row(item: SavedCheckpoint) -> CheckpointRow:
    state = "not read" if item.why_not is None else "passed over" if item.why_not else "good"
    return CheckpointRow(item.name, item.attempt, item.steps, item.saved_unix, item.size_bytes, state, item.why_not)
