"""The versions of the packages that a job ran with, in its store: all its instances and attempts use the same."""

from __future__ import annotations

import contextlib
from pathlib import Path

from barograph.errors import DamagedChunk, ObjectExists, ObjectNotFound
from barograph.jobs.requirements import Requirements, content_digest
from barograph.runs.format.layout import JOB
from barograph.runs.format.metadata import sealed, unsealed
from barograph.store.base import Store

PACKAGES = f"{JOB}/packages.json"


def known_pins(store: Store, requirements: Requirements, directory: Path) -> str | None:
    """Return the versions that were resolved for these requirements; None if they were not.

    Args:
        store: Store of the job.
        requirements: Without pins.
        directory: Directory of the code.

    Raises:
        StoreError: The store cannot be read.
    """
    try:
        body = unsealed(store.get(PACKAGES), PACKAGES)
    except (ObjectNotFound, DamagedChunk):
        return None
    return str(body["pins"]) if body.get("digest") == content_digest(requirements, directory) else None


def pins_of(store: Store) -> str | None:
    """Return the versions that the script of a job ran with; None if it had no environment of its own.

    Raises:
        DamagedChunk: They are damaged.
        StoreError: The store cannot be read.
    """
    try:
        return str(unsealed(store.get(PACKAGES), PACKAGES)["pins"])
    except ObjectNotFound:
        return None


def write_pins(store: Store, requirements: Requirements, directory: Path, pins: str) -> None:
    """Write the versions that were resolved, unless some were.

    Raises:
        StoreError: The store rejects it.
    """
    body = {"file": requirements.path, "digest": content_digest(requirements, directory), "pins": pins}
    with contextlib.suppress(ObjectExists):
        store.create(PACKAGES, sealed(body))


def copy_pins(source: Store, target: Store) -> None:
    """Give a job the versions of another one. They count only if its requirements are the same.

    Raises:
        StoreError: A store fails.
    """
    with contextlib.suppress(ObjectNotFound, ObjectExists):
        target.create(PACKAGES, bytes(source.get(PACKAGES)))
