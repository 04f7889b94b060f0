"""Catalog access for commands: location and update."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from barograph.model.one_line import shown_lines

if TYPE_CHECKING:
    from barograph.experiments.catalog import Catalog
    from barograph.experiments.feeding import Fed

Root = Annotated[
    str | None, typer.Option("--root", metavar="ROOT", help="Directory or URL of the runs. Default: $BAROGRAPH_ROOT, "
                                                            "else barograph-runs.")
]

_MANY = 50
_DAMAGE_SHOWN = 3


def open_catalog(root: str | None, *, make: bool = False, names: Sequence[str] = ()) -> Catalog:
    """Return the catalog of a root of runs, updated with recent changes.

    Unreadable data is printed on standard error: errors of the named runs, and the number of the others.

    Args:
        root: Directory or URL; None: the default.
        make: The caller writes to it, so create a missing directory.
        names: Names, IDs or paths of the command's runs.

    Raises:
        NotARun: The directory does not exist.
        CatalogUnavailable, NewerCatalog, MissingExtra, SettingsError, StoreError: The catalog cannot be used.
    """
    from barograph.experiments.handle import catalog_at

    if not make:
        refuse_missing(root)
    catalog = catalog_at(root)
    fed = catalog.feed(progress=progress_on_terminal)
    _tell_damage(fed, _places_of(catalog, names) if fed.of_runs else frozenset())
    return catalog


def _tell_damage(fed: Fed, places: Collection[str]) -> None:
    from barograph.cli.opening import print_unreadable
    from barograph.queries.run_list import PERMISSION_DENIED
    from barograph.watch.figures import count

    for problem in fed.of_root[:_DAMAGE_SHOWN]:
        _say(problem)
    asked = {url: problems for url, problems in fed.of_runs.items() if url in places}
    for url, problems in asked.items():
        more = f" (and {len(problems) - 1} more: barograph doctor {shlex.quote(url)})" if len(problems) > 1 else ""
        _say(f"{url}: {problems[0]}{more}")
    if others := len(fed.of_runs) - len(asked):
        _say(f"{count(others, 'run')} {'has' if others == 1 else 'have'} damaged parts, which are left out. To list "
             "them: barograph reindex")
    print_unreadable(dict.fromkeys(fed.denied, PERMISSION_DENIED))


def _places_of(catalog: Catalog, names: Sequence[str]) -> Collection[str]:
    """Return the URLs of those names that are runs."""
    from barograph.errors import BarographError
    from barograph.store.urls import store_from_url

    places = {name for name in names if "://" in name or os.path.lexists(name)}
    for name in names:
        with contextlib.suppress(BarographError):  # the command looks up the same name and raises it
            places |= {str(place)} if (place := catalog.item(name).facts["place"]) else set()
    return {store_from_url(place).url for place in places}


def _say(text: str) -> None:
    print(f"barograph: {shown_lines(text)}", file=sys.stderr)


def refuse_missing(root: str | None) -> None:
    """Raise if a named root does not exist: a lookup must not create a folder.

    Raises:
        NotARun: The directory does not exist.
    """
    from barograph.cli.opening import nearest_folder
    from barograph.errors import NotARun

    if root is not None and "://" not in root and not os.path.lexists(root):
        raise NotARun(f"No runs at {root}: no such directory. {nearest_folder(Path(root))}".rstrip())


def catalog_with(names: Sequence[str], root: str | None) -> Catalog:
    """Return the catalog that contains the named items, see `open_catalog`.

    Args:
        names: Names, IDs or paths of runs.
        root: Root of the runs; None: the default, or for a path outside it, the folder above it that has a catalog, or
            else the one that contains it.

    Raises:
        SettingsError: The paths are in several roots.
    """
    from barograph.experiments.roots import root_of_places

    return open_catalog(root if root is not None else root_of_places(names), names=names)


def progress_on_terminal(done: int, total: int) -> None:
    """Show progress on a terminal: how many runs, or journal entries, have been read."""
    if total >= _MANY and os.isatty(2):
        end = "\n" if done >= total else ""
        print(f"\rbarograph: {done} of {total} read", end=end, file=sys.stderr, flush=True)
