"""Default root for commands that get places of runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from barograph.errors import SettingsError
from barograph.runs.format.layout import MANIFEST
from barograph.runs.state.places import root_place

_CATALOG = ".catalog"


def root_of_places(names: Sequence[str]) -> str | None:
    """Return the common root of the names that are places; None if none is.

    For a place below the default root, that is the default root; else the nearest parent directory with a catalog, or
    the parent directory.

    Raises:
        SettingsError: The places are in several roots.
    """
    roots = {found: name for name in reversed(names) if (found := _root_of(name)) is not None}
    if len(roots) > 1:
        (first, name), (second, other) = list(roots.items())[::-1][:2]
        raise SettingsError(
            f"{name} belongs to the runs in {first}, but {other} belongs to those in {second}. Pass their common "
            "parent directory with --root, or move one with barograph export archive and barograph import "
            "archive.")
    return next(iter(roots), None)


def _root_of(name: str) -> str | None:
    usual = root_place()
    if "://" in name:
        return usual if name.startswith(f"{usual.rstrip('/')}/") else name.rstrip("/").rpartition("/")[0]
    place = Path(name).absolute()
    if not (place / MANIFEST).is_file():
        return None
    if "://" not in usual and place.is_relative_to(Path(usual).absolute()):
        return usual
    return str(next((folder for folder in place.parents if (folder / _CATALOG).is_dir()), place.parent))
