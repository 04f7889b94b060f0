"""Training progress in a records file, which determines its age."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from barograph.model.step import Mode

BESIDE = "\0"
"""Takes the place of an optimizer for records outside training (evaluations, logged numbers), with their steps. No
optimizer has this name."""


class Reach(NamedTuple):
    """The largest step of some rows of a file.

    Attributes:
        optimizer: Optimizer of the rows.
        mode: Mode of the rows.
        logged: The script logged them.
        step: Largest step.
    """

    optimizer: str
    mode: Mode
    logged: bool
    step: int


def last_steps(rows: Iterable[Reach]) -> dict[str, int]:
    """Return each optimizer's largest step in a file, and under `BESIDE` that of all rows outside training.

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
