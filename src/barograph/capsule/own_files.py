"""Distinguishes the user's own files in a folder from those of libraries and tools."""

from __future__ import annotations

from pathlib import Path


def is_of_folder(file: Path, folder: Path) -> bool:
    """Return whether a file is a Python file of the user's in a folder or below it.

    Args:
        file: Path; it need not exist.
        folder: Folder of the user.
    """
    place, here = file.resolve(), folder.resolve()
    if place.suffix != ".py" or not place.is_relative_to(here):
        return False
    # An environment below the folder contains programs that run whatever they are passed.
    return not any(part.startswith(".") or part == "site-packages" for part in place.relative_to(here).parts)
