"""Imports runs of another tracker, with the history of one run in memory at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from barograph.errors import BarographError, ImportFailed, StoreError, nearest
from barograph.ingest.trackers.foreign import ForeignExperiment, ForeignRun, ForeignSource
from barograph.ingest.trackers.writing import ForeignRunWriter, Keep, stands_already
from barograph.model.clock import Clock, SystemClock
from barograph.model.items import Entry, ItemKind, Verb, checked_name, uid_of
from barograph.runs.state.journal import JOURNAL_OF_ROOT, Journal
from barograph.store.base import Store


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """An imported run.

    Attributes:
        run: Place of the run.
        folder: Directory below the root.
        run_id: ID in Barograph.
        uid: ID in the tracker.
        name, experiment: Names.
        points: Number of imported points.
        of_steps: Metrics that are also losses or learning rates: name to mode and key.
        copied, referenced: Number of files copied, and of files recorded by location only.
        again: Whether it was imported before and has changed since.
    """

    run: str
    folder: str
    run_id: str
    uid: str
    name: str
    experiment: str
    points: int
    of_steps: Mapping[str, str]
    copied: int
    referenced: int
    again: bool


@dataclass(frozen=True, slots=True)
class Imported:
    """Result of an import.

    Attributes:
        source: Location of the source.
        runs: Imported runs.
        unchanged: Number of runs that were imported before and are unchanged.
        experiments: Their experiments.
        passed_over: Omissions, with counts.
        damage: What could not be imported, one sentence each.
    """

    source: str
    runs: Sequence[ImportedRun]
    unchanged: int
    experiments: Sequence[str]
    passed_over: Mapping[str, int]
    damage: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Wanted:
    """Selection of runs.

    Attributes:
        experiments: Names of experiments; none: all.
        runs: IDs or names of runs; none: all.
    """

    experiments: Collection[str] = ()
    runs: Collection[str] = ()

    def of(self, runs: Sequence[ForeignRun]) -> list[ForeignRun]:
        """Return the selected runs.

        Raises:
            ImportFailed: A run or experiment does not exist; the message suggests the nearest.
        """
        names = {run.experiment for run in runs}
        if unknown := sorted(set(self.experiments) - names):
            raise ImportFailed(f'No experiment "{unknown[0]}" with runs. {nearest(unknown[0], names)}')
        called = {text for run in runs for text in (run.uid, run.name)}
        if unknown := sorted(set(self.runs) - called):
            raise ImportFailed(f'No run "{unknown[0]}". {nearest(unknown[0], called)[:500]}')
        return [run for run in runs if (not self.experiments or run.experiment in self.experiments)
                and (not self.runs or run.uid in self.runs or run.name in self.runs)]


def import_runs(
    source: ForeignSource, root: Store, place_in: Callable[[str], Store], keep: Keep | None, *,
    wanted: Wanted | None = None, clock: Clock | None = None,
    on_progress: Callable[[int, int], object] = lambda done, of: None,
) -> Imported:
    """Import runs of a tracker; damage is reported, and the rest imported.

    Repeating it is safe: unchanged runs are skipped, changed ones are replaced, and nothing is duplicated.

    Args:
        source: Source of runs.
        root: Root to import into.
        place_in: Returns the place of a run by its directory below the root.
        keep: Stores the bytes of files; None: files are not copied.
        wanted: Selection of runs; None: all.
        clock: Clock.
        on_progress: Called with the runs done and their total.

    Raises:
        ImportFailed: There are no runs, or a selected one does not exist.
        StoreError: The root cannot be written to.
    """
    everything = source.runs()
    if not everything:
        gone = ", ".join(f"{what}: {number}" for what, number in source.passed_over.items())
        raise ImportFailed(f"No runs to import{f' ({gone})' if gone else ''} at {source.url}. "
                           f"{source.damage[0] if source.damage else ''}".rstrip())
    runs = (wanted or Wanted()).of(everything)
    run_ids = {run.uid: run.run_id for run in everything}
    damage = list(source.damage)
    made: list[ImportedRun] = []
    unchanged = 0
    experiments = {run.experiment: None for run in runs if run.experiment}
    _tell(root, [item for item in source.experiments() if item.name in experiments], clock or SystemClock())
    on_progress(0, len(runs))
    for number, run in enumerate(runs, 1):
        store = place_in(run.folder)
        try:
            if stands_already(store, run, copies=keep is not None and any(file.fetch for file in run.files)):
                unchanged += 1
            else:
                again = bool(store.list())
                written = ForeignRunWriter(store, run, source.url, keep, run_ids).write()
                damage += [f'Run "{run.name}" ({run.uid}): {sentence}' for sentence in written.damage]
                made.append(ImportedRun(store.url, run.folder, run.run_id, run.uid, run.name, run.experiment,
                                        written.points, written.of_steps, written.copied, written.referenced, again))
        except StoreError:
            raise  # an error of the target, which would affect every run
        except BarographError as error:
            damage.append(f'Run "{run.name}" ({run.uid}) was not imported: {error}')
        on_progress(number, len(runs))
    if not made and not unchanged:
        raise ImportFailed(f"Nothing could be imported from {source.url}. {damage[0] if damage else ''}".rstrip())
    return Imported(source.url, made, unchanged, list(experiments), dict(source.passed_over), damage)


def _tell(root: Store, experiments: Sequence[ForeignExperiment], clock: Clock) -> None:
    """Record the experiments; repeating it adds nothing."""
    journal = Journal(root, JOURNAL_OF_ROOT)
    known = {name.rpartition("-")[2] for name in journal.names()} if experiments else set()
    for item in experiments:
        try:
            name = checked_name("the experiment", item.name)
        except BarographError:
            continue  # each of its runs reports this
        uid, when = uid_of(ItemKind.EXPERIMENT, name), clock.unix()
        entries = [Entry(uid, Verb.CREATE, {"kind": ItemKind.EXPERIMENT, "name": name}, item.created_unix)]
        if item.description:
            entries.append(Entry(uid, Verb.SET, {"description": item.description}, when))
        if item.tags:
            entries.append(Entry(uid, Verb.TAG, dict(item.tags), when))
        if len(entries) > 1:
            said = repr((name, item.description, sorted(item.tags.items())))
            mark = hashlib.sha256(said.encode("utf-8", "surrogatepass")).hexdigest()[:8]
            if f"{mark}.json" not in known:
                journal.write(entries, mark=mark)
