"""Whether the files that a run opened are still the same, and where a copy of its code finds them."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from barograph.errors import StoreDenied
from barograph.model.origin import DataFile, Origin
from barograph.runs.format.fingerprints import fingerprint_of
from barograph.store.inside import Inside


@dataclass(frozen=True, slots=True)
class DataCheck:
    """How the files stand that were there when the run began.

    Attributes:
        same: How many are.
        changed: Those that are not, each with what became of it.
        unknown: How many cannot be judged, since they had no fingerprint.
    """

    same: int
    changed: tuple[str, ...]
    unknown: int


def checked_data(origin: Origin) -> DataCheck:
    """Return how the files that a run opened stand now, by their fingerprints; what it wrote itself it writes again.

    Args:
        origin: What made the run.
    """
    given = origin.given
    known = [file for file in given if file.fingerprint]
    changed = [f"{file.path} ({why})" for file in known if (why := _changed(file))]
    return DataCheck(len(known) - len(changed), tuple(changed), len(given) - len(known))


def link_data(origin: Origin, folder: Path) -> int:
    """Have a copy of the code find the data that lies in the first folder and that git does not keep; return how much.

    Args:
        origin: What made the run.
        folder: The copy.
    """
    if origin.code is None:
        return 0
    linked, inside = 0, Inside(folder)
    for file in origin.given:
        source = Path(os.path.normpath(file.path))
        if not source.is_relative_to(origin.code.root) or not source.is_file():
            continue
        target = source.relative_to(origin.code.root)
        # What is there stays, and what a link of the commit leads to has its data there.
        with contextlib.suppress(StoreDenied):
            inside.link(target.as_posix(), str(source))
            linked += 1
    return linked


def _changed(file: DataFile) -> str:
    # As it was taken then: whole, or by its ends.
    now = fingerprint_of(file.path, whole_bytes=file.size_bytes if file.whole else 0)
    if now.problem:
        return now.problem
    return "" if (now.size_bytes, now.fingerprint) == (file.size_bytes, file.fingerprint) else "its content is another"
