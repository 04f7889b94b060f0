"""Finds the live objects of a class, and names several of a kind."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Collection
from typing import Any


def instances_of(base: type) -> list[Any]:
    """Return all live objects of a class and its subclasses.

    By who refers to the classes: the walk over all objects then runs in C. And by type, not isinstance:
    that would ask lazy objects for their `__class__`, and run what hides there.
    """
    classes, waiting = {base}, [base]
    while waiting:
        new: set[type] = set(waiting.pop().__subclasses__()) - classes
        classes |= new
        waiting.extend(new)
    return [item for item in gc.get_referrers(*classes) if type(item) in classes]


def free_label(base: str, taken: Collection[str]) -> str:
    """Return a label that is not taken: the base, or "base#2" and so on.

    Example:
        >>> free_label("Linear", {"Linear", "Linear#2"})
        'Linear#3'
    """
    labels = (base if number == 1 else f"{base}#{number}" for number in itertools.count(1))
    return next(label for label in labels if label not in taken)
