"""Finds the live objects of a class, and names several of a kind."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Collection
from typing import Any


def instances_of(base: type) -> list[Any]:
    """Return all live objects of a class and its subclasses.

    Uses the referrers of the classes, so that the search over all objects runs in C. Checks by type, not isinstance,
    which would access `__class__` of lazy objects and run their code.
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
