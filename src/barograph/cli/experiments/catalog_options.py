"""Shared by commands that query a catalog: its location and its updates."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from barograph.model.one_line import shown_lines

if TYPE_CHECKING:
    from barograph.experiments.catalog import Catalog

Root = Annotated[
    str | None, typer.Option("--root", metavar="ROOT", help="Directory or URL of the runs. Default: $BAROGRAPH_ROOT, "
                                                            "else barograph-runs.")
]

_MANY = 50
_DAMAGE_SHOWN = 3


def open_catalog(root: str | None, *, make: bool = False) -> Catalog:
    """Return the catalog of a root of runs, with what was told and recorded since it was last looked at.

    What of it cannot be read is said on standard error, and the rest is there.

    Args:
        root: Directory or URL; None: the usual one.
        make: Something is to be put there: a directory that is not there is made.

    Raises:
        NotARun: There is no such directory.
        CatalogUnavailable, NewerCatalog, MissingExtra, SettingsError, StoreError: It cannot be used.
    """
    from barograph.experiments.handle import catalog_at

    if not make:
        refuse_missing(root)
    catalog = catalog_at(root)
    fed = catalog.feed(progress=progress_on_terminal)
    for problem in fed.damage[:_DAMAGE_SHOWN]:
        print(f"barograph: {shown_lines(problem)}", file=sys.stderr)
    if len(fed.damage) > _DAMAGE_SHOWN:
        print(f"barograph: {len(fed.damage) - _DAMAGE_SHOWN} more items cannot be read (list them: barograph "
              "reindex)", file=sys.stderr)
    return catalog


def refuse_missing(root: str | None) -> None:
    """Raise where a root was named that is not there: to look somewhere by mistake must not make a folder there.

    Raises:
        NotARun: There is no such directory.
    """
    from barograph.cli.opening import nearest_folder
    from barograph.errors import NotARun

    if root is not None and "://" not in root and not os.path.lexists(root):
        raise NotARun(f"No runs at {root}: no such directory. {nearest_folder(Path(root))}".rstrip())


def catalog_with(names: Sequence[str], root: str | None) -> Catalog:
    """Return the catalog that knows what is named, as `open_catalog` does.

    Args:
        names: Names, identities, or places of runs.
        root: Of the runs; None: as usual, but where a place is named that lies elsewhere the folder above it that has a
            catalog, or else the one that it is in.

    Raises:
        SettingsError: Places are named that are in several roots.
    """
    from barograph.experiments.roots import root_of_places

    return open_catalog(root if root is not None else root_of_places(names))


def progress_on_terminal(done: int, total: int) -> None:
    """Say on a terminal how many of many runs, or of what was told of them, have been read."""
    if total >= _MANY and os.isatty(2):
        end = "\n" if done >= total else ""
        print(f"\rbarograph: {done} of {total} read", end=end, file=sys.stderr, flush=True)
