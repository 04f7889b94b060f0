"""Finds event files in a directory tree, as TensorBoard does, and groups their directories into runs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from barograph.errors import ImportFailed
from barograph.ingest.tensorboard.words import mode_at_end, mode_of_folder
from barograph.model.step import Mode
from barograph.store.base import Store

EVENTS = "tfevents"
"""Part of the name of every TensorBoard event file."""

_SESSION = re.compile(r"\d{9,10}\.\d+")
"""PyTorch's `add_hparams` writes to a directory named after the time."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A directory with event files; TensorBoard calls it a run.

    Attributes:
        path: Path relative to the root; "": the root.
        files: Ordered by start time.
        mode: Mode in its name; None: none.
    """

    path: str
    files: tuple[str, ...]
    mode: Mode | None


def folders_in(store: Store, only: str = "") -> list[Folder]:
    """Return the directories with event files, sorted.

    Args:
        store: Root of the tree.
        only: Name of a single file; "": all.

    Raises:
        ImportFailed: There are no event files.
        StoreError: The place cannot be read.
    """
    names = [only] if only else [item.name for item in store.list() if EVENTS in item.name.rpartition("/")[2]]
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(name.rpartition("/")[0], []).append(name)
    if not found:
        raise ImportFailed(f"No event files: no file name has {EVENTS} in it ({store.url}).")
    return [Folder(path, tuple(sorted(files)), mode_of_folder(path.rpartition("/")[2]))
            for path, files in sorted(found.items())]


def runs_in(folders: Iterable[Folder]) -> dict[str, list[Folder]]:
    """Return the directories of each run by its name: its path, or "" for the root.

    A directory named after a mode, as in Keras (`train`, `validation`), belongs to the run of its parent; so does one
    that PyTorch's `add_hparams` or `add_scalars` created.

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
