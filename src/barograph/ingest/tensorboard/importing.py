"""Imports TensorBoard event files as runs, one file and the numbers of one run in memory at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from barograph.errors import ImportFailed
from barograph.ingest.tensorboard.files import Folder, folders_in, runs_in
from barograph.ingest.tensorboard.gathering import Gathered, gathered
from barograph.ingest.tensorboard.parameters import Parameter
from barograph.ingest.tensorboard.reading import content_of
from barograph.ingest.tensorboard.writing import GatheredWriter
from barograph.model.key import Kind
from barograph.store.base import Store


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """An imported run.

    Attributes:
        run: Place of the run.
        name: Path in the tree; "": the root.
        points: Number of imported points.
        histograms, texts: Number of each.
        losses: Name of each loss to its mode and key.
        learning_rates, scalars: The same for learning rates and scalars.
        parameters: Parameters, from the hyperparameters plugin.
        recounted: Series that counted epochs, converted to training steps.
        again: Number of points left out because a restart repeated them.
        passed_over: Unsupported data, with counts.
    """

    run: str
    name: str
    points: int
    histograms: int
    texts: int
    losses: Mapping[str, str]
    learning_rates: Mapping[str, str]
    scalars: Mapping[str, str]
    parameters: Mapping[str, Parameter]
    recounted: Sequence[str]
    again: int
    passed_over: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Imported:
    """Result of an import.

    Attributes:
        source: Place of the source.
        runs: Imported runs.
        empty: Directories without importable data, with their contents.
        damage: What could not be imported, one sentence each, with file and offset.
    """

    source: str
    runs: Sequence[ImportedRun]
    empty: Mapping[str, Mapping[str, int]]
    damage: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return asdict(self)


def import_tensorboard(
    source: Store, target: Store, place_in: Callable[[str], Store], *, only: str = "",
    on_progress: Callable[[int, int], object] = lambda done, of: None,
) -> Imported:
    """Import event files as one or several runs; damage is reported, and the rest imported.

    Args:
        source: Root of the tree.
        target: Place for the run, or for several runs below it; must be empty.
        place_in: Returns the place of a run below the target by its name.
        only: Name of a single file; "": all.
        on_progress: Called for each run with the progress and its total.

    Raises:
        ImportFailed: There are no event files, nothing can be imported, or the target is not empty.
        StoreError: A place cannot be read or written.
    """
    if target.list():
        raise ImportFailed(f"The target is not empty. Choose another place for the run ({target.url}).")
    runs = runs_in(folders_in(source, only))
    made: list[ImportedRun] = []
    empty: dict[str, Mapping[str, int]] = {}
    damage: list[str] = []
    places = places_below(runs, source.url.rstrip("/").rpartition("/")[2] or "top")
    for name, folders in runs.items():
        found = _gathered(source, name, folders)
        damage += found.damage
        if found.is_empty:
            empty[name] = dict(found.passed_over)
            continue
        store = target if len(runs) == 1 else place_in(places[name])
        GatheredWriter(store, found, source.url, on_progress).write()
        made.append(_reported(store.url, name, found))
    if not made:
        raise ImportFailed(f"Nothing to import: {_why(empty, damage).removesuffix('.')} ({source.url}).")
    return Imported(source.url, made, empty, damage)


def places_below(names: Iterable[str], top: str) -> dict[str, str]:
    """Return the target paths of the runs of a tree: as in the tree, but none within another.

    Args:
        names: Paths of the runs; "": the root.
        top: Name for the root.

    Example:
        >>> places_below(["", "a", "a/b", "c/d"], "logs")
        {'': 'logs', 'a': 'a', 'a/b': 'a.b', 'c/d': 'c/d'}
    """
    wanted = {name: name or top for name in names}
    found: dict[str, str] = {}
    for name, place in wanted.items():
        if any(place.startswith(f"{other}/") for other in wanted.values()):
            place = place.replace("/", ".")
        while place in found.values() or any(place == other for key, other in wanted.items() if key != name):
            place += "_"
        found[name] = place
    return found


def _gathered(source: Store, name: str, folders: Sequence[Folder]) -> Gathered:
    return gathered({folder: content_of(source, folder.files) for folder in folders}, name)


def _reported(url: str, name: str, found: Gathered) -> ImportedRun:
    of_kind: dict[Kind, dict[str, str]] = {kind: {} for kind in (Kind.LOSS, Kind.LEARNING_RATE, Kind.SCALAR)}
    for tag, place in found.names.items():
        of_kind[place.key.kind][tag] = f"{place.mode.value} {place.key}"
    lines = [*found.of_steps.values(), *found.logged.values()]
    return ImportedRun(
        url, name, sum(map(len, lines)), sum(map(len, found.histograms.values())),
        sum(map(len, found.texts.values())), of_kind[Kind.LOSS], of_kind[Kind.LEARNING_RATE], of_kind[Kind.SCALAR],
        found.parameters, found.recounted, found.again, dict(found.passed_over),
    )


def _why(empty: Mapping[str, Mapping[str, int]], damage: Sequence[str]) -> str:
    if damage:
        return damage[0]
    held = ", ".join(sorted({what for found in empty.values() for what in found}))
    return f"there are only unsupported data ({held})." if held else "the files are empty."
