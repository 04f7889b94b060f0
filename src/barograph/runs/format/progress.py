"""How far training had come in a file of records: what its age is judged by."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from barograph.model.step import Mode

BESIDE = "\0"
"""Stands in for an optimizer where nothing was trained: what was evaluated or logged, by the steps it is for. No
optimizer is called so."""


class Reach(NamedTuple):
    """Some rows of a file, by the greatest of their steps.

    Attributes:
        optimizer: Of which optimizer they are.
        mode: In which mode they were recorded.
        logged: The script logged them.
        step: The greatest.
    """

    optimizer: str
    mode: Mode
    logged: bool
    step: int


def last_steps(rows: Iterable[Reach]) -> dict[str, int]:
    """Return each optimizer's greatest step in a file, and under `BESIDE` that of all rows that no step made.

    Example:
        >>> last_steps([Reach("", Mode.TRAIN, False, 7), Reach("", Mode.TRAIN, False, 9)])
        {'': 9}
    """
    last: dict[str, int] = {}
    for row in rows:
        trained = row.mode is Mode.TRAIN and not row.logged
        name = row.optimizer if trained else BESIDE
        last[name] = max(row.step, last.get(name, row.step))
    return last
