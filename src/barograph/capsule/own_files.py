"""Whose a file is: the user's own, in the folder where they stand, or one of a library or a tool."""

from __future__ import annotations

from pathlib import Path


def is_of_folder(file: Path, folder: Path) -> bool:
    """Return whether a file is Python, and lies in a folder or below it as one that the user wrote.

    Args:
        file: It need not exist.
        folder: Of the user's.
    """
    place, here = file.resolve(), folder.resolve()
    if place.suffix != ".py" or not place.is_relative_to(here):
        return False
    # An environment below the folder holds programs that run whatever they are handed.
    return not any(part.startswith(".") or part == "site-packages" for part in place.relative_to(here).parts)
