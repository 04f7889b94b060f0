"""Names of runs that are unique within an experiment, also where several processes choose one at once."""

from __future__ import annotations

import hashlib

from barograph.errors import ObjectExists
from barograph.store.base import Store

_NAMES = ".catalog/names"


def unique_name(root: Store, experiment: str, name: str, url: str) -> str:
    """Return a name that no other run of an experiment has: the one that is asked for, or `NAME-2`, `NAME-3` …

    Args:
        root: Where the runs are.
        experiment: Name of the experiment.
        name: The name that is asked for.
        url: Of the run; it gets the same name when it asks again.

    Raises:
        StoreError: The root cannot be written.
    """
    owner, number = url.encode("utf-8", "surrogatepass"), 1
    while True:
        found = name if number == 1 else f"{name}-{number}"
        digest = hashlib.sha256(f"{experiment}\0{found}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
        place = f"{_NAMES}/{digest}"
        try:
            root.create(place, owner)
            return found
        except ObjectExists:
            if root.get(place) == owner:
                return found
            number += 1
