"""Output of `barograph checkout`."""

from __future__ import annotations

import sys
from pathlib import Path

from barograph.cli.opening import run_at
from barograph.cli.options import DEFAULT_CONFIG
from barograph.cli.printing import Printer
from barograph.errors import CheckoutFailed
from barograph.jobs.rerunning import code_again
from barograph.model.one_line import shown
from barograph.model.origin import Origin
from barograph.rerun.checkout import Checkout
from barograph.rerun.listing import environment_listing
from barograph.runs.state.origins import read_file, read_origin
from barograph.store.base import Store

LISTING = "barograph-environment.txt"


def checkout(place: str, out: str | None, *, as_json: bool) -> None:
    """Restore the code of a run and print the directory.

    Raises:
        CheckoutFailed: The code cannot be restored.
        NotARun, NewerFormat, DamagedChunk, StoreError: The run cannot be read.
    """
    run = run_at(place)
    origin = kept_origin(run.store, place)
    made = code_again(run.store, origin, Path(out or run.manifest.name or "checkout").absolute())
    try:
        lay_settings(run.store, origin, made)
        made.inside.write(LISTING, environment_listing(origin, place).encode())
    except BaseException:
        made.remove()
        raise
    if as_json:
        Printer().json({"folder": str(made.folder), "directory": str(made.directory), "commit":
                        origin.code.commit if origin.code else "", "notes": made.notes})
        return
    for note in made.notes:
        print(f"barograph: {shown(note)}", file=sys.stderr)
    print(made.directory)


def kept_origin(store: Store, place: str) -> Origin:
    """Return the origin of a run.

    Raises:
        CheckoutFailed: It was not recorded.
    """
    origin = read_origin(store)
    if origin is None:
        raise CheckoutFailed(f"This run has no record of its code and environment ({place}).")
    return origin


def lay_settings(store: Store, origin: Origin, made: Checkout) -> None:
    """Restore the settings file.

    Raises:
        DamagedChunk, StoreError: They cannot be read, or cannot be written in the folder.
    """
    settings = read_file(store, origin.settings)
    file = made.directory / DEFAULT_CONFIG
    if settings and not (file.is_file() and file.read_bytes() == settings):
        made.inside.write(file.relative_to(made.folder).as_posix(), settings)
