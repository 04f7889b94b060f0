"""Things that are made once of what many rules, or many steps, share."""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable
from typing import TypeVar

from barograph.runs.reading.view import StepView

Made = TypeVar("Made")
Item = TypeVar("Item")

_MOST_REMEMBERED = 64


def once(make: Callable[[tuple[Item, ...]], Made]) -> Callable[[tuple[Item, ...]], Made]:
    """Remember what was made of the last few tuples of subjects, or of their names.

    By identity: steps of one plan share the very tuple, and to walk, or hash, thousands of names at each step
    would be most of the work.
    """
    known: dict[int, tuple[tuple[Item, ...], Made]] = {}

    @functools.wraps(make)
    def remembered(subjects: tuple[Item, ...]) -> Made:
        found = known.get(id(subjects))
        if found is None or found[0] is not subjects:
            if len(known) >= _MOST_REMEMBERED:
                known.clear()
            found = known[id(subjects)] = (subjects, make(subjects))
        return found[1]

    return remembered


def once_a_view(make: Callable[[StepView], Made]) -> Callable[[StepView], Made]:
    """Remember what was made of the view that was looked at last: every rule looks at the same one.

    What it returns is shared, and not to be written to.
    """
    held: tuple[StepView | None, Made | None] = (None, None)

    @functools.wraps(make)
    def remembered(view: StepView) -> Made:
        nonlocal held
        # One tuple, put in place at once: another thread sees what belongs to its own view, or makes it.
        seen, made = held
        if seen is not view:
            held = (view, made := make(view))
        return typing.cast(Made, made)

    return remembered
