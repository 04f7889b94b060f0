"""Makes runs of the event files in a tree: run by run, so one file and the numbers of one run are in memory."""

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
    """What became of one run.

    Attributes:
        run: Where it is.
        name: Its path in the tree; "" where the top itself is the run.
        points: Numbers that were imported.
        histograms, texts: How many.
        losses: Name of each series that is a loss, with the mode and key that it got.
        learning_rates, scalars: Likewise.
        parameters: Of the run, as the plugin of hyperparameters has them.
        recounted: Series that count epochs, and stand at the steps of training.
        again: Points that were written again after a restart, and are left out.
        passed_over: What a run has no place for, and how many of each.
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
    """What became of a tree.

    Attributes:
        source: Where it is.
        runs: The runs that were made.
        empty: Folders that hold nothing to make a run of, with what they hold.
        damage: What could not be imported, one sentence each, with file and place.
    """

    source: str
    runs: Sequence[ImportedRun]
    empty: Mapping[str, Mapping[str, int]]
    damage: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON data."""
        return asdict(self)


def import_tensorboard(
    source: Store, target: Store, place_in: Callable[[str], Store], *, only: str = "",
    on_progress: Callable[[int, int], object] = lambda done, of: None,
) -> Imported:
    """Make a run of the event files in a place, or several; what is damaged is named, and the rest imported.

    Args:
        source: The tree.
        target: Where the run is to be, or the runs below it; nothing may be there yet.
        place_in: Returns the place of a run below the target, by its name.
        only: Name of the one file that is wanted; "": all.
        on_progress: Told of one run after the other how far it is, and of how much.

    Raises:
        ImportFailed: There are no event files, nothing of them can be imported, or something is at the target.
        StoreError: A place cannot be read or written.
    """
    if target.list():
        raise ImportFailed(f"There is something at {target.url} already; choose another place for the run.")
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
        made.append(_told(store.url, name, found))
    if not made:
        raise ImportFailed(f"Nothing at {source.url} can be imported: {_why(empty, damage)}")
    return Imported(source.url, made, empty, damage)


def places_below(names: Iterable[str], top: str) -> dict[str, str]:
    """Return where the runs of a tree are to be: as they stand in it, but none within another.

    Args:
        names: Paths of the runs; "" is the top itself.
        top: What that is to be called.

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


def _told(url: str, name: str, found: Gathered) -> ImportedRun:
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
    return f"there are no numbers, only what a run has no place for ({held})." if held else "its files hold nothing."
