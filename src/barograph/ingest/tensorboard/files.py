"""Event files in a tree as TensorBoard reads it, and which of its folders make one run."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from barograph.errors import ImportFailed
from barograph.ingest.tensorboard.words import mode_at_end, mode_of_folder
from barograph.model.step import Mode
from barograph.store.base import Store

EVENTS = "tfevents"
"""Stands in the name of every file that TensorBoard takes for one of events."""

_SESSION = re.compile(r"\d{9,10}\.\d+")
"""`add_hparams` of PyTorch puts the parameters and final metrics in a folder that is named after the time."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder with event files in it: what TensorBoard calls a run.

    Attributes:
        path: From the top; "" is the top itself.
        files: In the order in which they were begun.
        mode: What its name says plainly; None: nothing.
    """

    path: str
    files: tuple[str, ...]
    mode: Mode | None


def folders_in(store: Store, only: str = "") -> list[Folder]:
    """Return the folders that hold event files, sorted.

    Args:
        store: The top of the tree.
        only: Name of the one file that is wanted; "": all.

    Raises:
        ImportFailed: There is none.
        StoreError: The place cannot be read.
    """
    names = [only] if only else [item.name for item in store.list() if EVENTS in item.name.rpartition("/")[2]]
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(name.rpartition("/")[0], []).append(name)
    if not found:
        raise ImportFailed(f"There are no event files at {store.url}: no name of a file has {EVENTS} in it.")
    return [Folder(path, tuple(sorted(files)), mode_of_folder(path.rpartition("/")[2]))
            for path, files in sorted(found.items())]


def runs_in(folders: Iterable[Folder]) -> dict[str, list[Folder]]:
    """Return which folders make one run, by what it is called: the path from the top, "" for the top itself.

    A folder that is called after a mode, as Keras has it (`train`, `validation`), belongs to the run of the folder
    that it is in; so does one that `add_hparams` or `add_scalars` of PyTorch has made.

    Example:
        >>> three = [Folder("a/train", (), Mode.TRAIN), Folder("a/validation", (), Mode.EVAL), Folder("b", (), None)]
        >>> {name: len(found) for name, found in runs_in(three).items()}
        {'a': 2, 'b': 1}
    """
    folders = list(folders)
    there = {folder.path for folder in folders}
    runs: dict[str, list[Folder]] = {}
    for folder in folders:
        parent, _, name = folder.path.rpartition("/")
        mode = folder.mode or (mode_at_end(name) if parent in there else None)
        belongs = folder.path and (mode is not None or (parent in there and _SESSION.fullmatch(name)))
        runs.setdefault(parent if belongs else folder.path, []).append(replace(folder, mode=mode))
    return runs
