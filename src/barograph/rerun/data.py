"""Checks whether the files that a run opened have changed, and links them into a checkout."""

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
    """State of the files that existed when the run began.

    Attributes:
        same: Number of unchanged files.
        changed: Changed files, each with the reason.
        unknown: Number of files without a fingerprint.
    """

    same: int
    changed: tuple[str, ...]
    unknown: int


def checked_data(origin: Origin) -> DataCheck:
    """Compare the files that a run opened with their fingerprints; files that it wrote are ignored.

    Args:
        origin: Origin of the run.
    """
    given = origin.given
    known = [file for file in given if file.fingerprint]
    changed = [f"{file.path} ({why})" for file in known if (why := _changed(file))]
    return DataCheck(len(known) - len(changed), tuple(changed), len(given) - len(known))


def link_data(origin: Origin, folder: Path) -> int:
    """Link data files that git does not track from the original directory into a checkout; return how many.

    Args:
        origin: Origin of the run.
        folder: The checkout.
    """
    if origin.code is None:
        return 0
    linked, inside = 0, Inside(folder)
    for file in origin.given:
        source = Path(os.path.normpath(file.path))
        if not source.is_relative_to(origin.code.root) or not source.is_file():
            continue
        target = source.relative_to(origin.code.root)
        # Existing files stay, and a link in the commit finds its data itself.
        with contextlib.suppress(StoreDenied):
            inside.link(target.as_posix(), str(source))
            linked += 1
    return linked


def _changed(file: DataFile) -> str:
    # Computed like the original: of the whole file, or of its ends.
    now = fingerprint_of(file.path, whole_bytes=file.size_bytes if file.whole else 0)
    if now.problem:
        return now.problem
    return "" if (now.size_bytes, now.fingerprint) == (file.size_bytes, file.fingerprint) else "its content has changed"
