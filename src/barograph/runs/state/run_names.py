"""Unique names of runs within an experiment, also if several processes choose one at once."""

from __future__ import annotations

import hashlib

from barograph.errors import ObjectExists
from barograph.store.base import Store

_NAMES = ".catalog/names"


def unique_name(root: Store, experiment: str, name: str, url: str) -> str:
    """Return a unique name for a run of an experiment: the requested one, or `NAME-2`, `NAME-3` …

    Args:
        root: Root of the runs.
        experiment: Name of the experiment.
        name: Requested name.
        url: URL of the run; it gets the same name each time.

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
