"""The keys that a run recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from barograph.errors import UnknownKey, nearest
from barograph.model.key import Key, Kind, kind_from_name
from barograph.model.plain import plain
from barograph.model.step import Mode
from barograph.model.summary import Summary
from barograph.queries.layers import summary_to_json
from barograph.runs.reading.inventory import Entry, inventory
from barograph.runs.reading.reader import RunReader

_MOST_NAMED = 12
"""An error lists all paths only if there are at most so many."""


@dataclass(frozen=True, slots=True)
class KeyRow:
    """One key in one mode.

    Attributes:
        key: The key.
        mode: The mode.
        layer: Class of its module; "" if it belongs to none.
        dtype: Type of the elements; "" for plain numbers.
        steps: Number of steps that recorded it.
        first_step, last_step: The first and the last of them.
        saved: The whole tensor was saved at the last step.
        value: The plain number of the last step; None for tensors.
        summary: The Summary of the last step; None for plain numbers.
    """

    key: Key
    mode: Mode
    layer: str
    dtype: str
    steps: int
    first_step: int
    last_step: int
    saved: bool
    value: float | None
    summary: Summary | None

    def to_json(self) -> dict[str, Any]:
        """Return it as strict JSON data."""
        data: dict[str, Any] = plain({
            "key": str(self.key), "kind": self.key.kind, "path": self.key.path, "layer": self.layer,
            "dtype": self.dtype, "mode": self.mode, "steps": self.steps, "first_step": self.first_step,
            "last_step": self.last_step, "saved": self.saved, "value": self.value,
            "summary": None if self.summary is None else summary_to_json(self.summary),
        })
        return data


def without_counts(rows: Sequence[KeyRow], *, most: int = 20) -> list[KeyRow]:
    """Return rows without counts of labels and predictions by class, if these are more than `most` and not all."""
    others = [row for row in rows if row.key.kind not in (Kind.LABEL, Kind.CONFUSION)]
    return others if others and len(rows) - len(others) > most else list(rows)


def keys_of(run: RunReader, kind: str | None = None, path: str = "*") -> list[KeyRow]:
    """Return the keys of a run.

    Args:
        run: The run.
        kind: Name of a kind; None: all kinds.
        path: Pattern of the path.

    Raises:
        UnknownName: There is no such kind.
        UnknownKey: Nothing of that kind and path was recorded; the message says what was.
        StoreError: The run cannot be read.
    """
    if kind is not None:
        kind_from_name(kind)
    entries = inventory(run, kind, path)
    if not entries and (kind is not None or path != "*"):
        raise UnknownKey(_nothing(run, kind, path))
    return [_row(entry) for entry in entries]


def _row(entry: Entry) -> KeyRow:
    return KeyRow(entry.key, entry.mode, entry.layer, entry.dtype, entry.steps, entry.first_step, entry.last_step,
                  entry.saved, entry.value, entry.summary)


def _nothing(run: RunReader, kind: str | None, path: str) -> str:
    recorded = run.keys()
    if kind is not None and all(key.kind != kind for key in recorded):
        return f"Nothing of kind {kind} was recorded. {nearest(kind, {key.kind.value for key in recorded})}"
    known = [key.path for key in recorded if kind is None or key.kind == kind]
    what = f" of kind {kind}" if kind is not None else ""
    return f'No path{what} matches "{path}". {_nearest_path(path, known)}'


def _nearest_path(path: str, known: list[str]) -> str:
    hint = nearest(path.replace("*", ""), known)
    # All names of a large model are no help.
    return hint if hint.startswith("Did") or len(known) <= _MOST_NAMED else (
        f"There are {len(known)}, {known[0]} among them.")
