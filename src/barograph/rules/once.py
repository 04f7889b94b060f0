"""Caches for values that many rules or steps share."""

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
    """Cache a function of a tuple of subjects or names, for the last few tuples.

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
    """Cache a function of a view, for the last view. The result is shared: do not modify it."""
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
