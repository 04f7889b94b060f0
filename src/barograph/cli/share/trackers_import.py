"""Output of `barograph import mlflow`, `wandb` and `aim`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from rich.text import Text

from barograph.cli.opening import store_at
from barograph.cli.printing import Printer
from barograph.cli.progress_bar import progress
from barograph.experiments.artifacts import artifact_of
from barograph.experiments.handle import catalog_at
from barograph.ingest.trackers.foreign import ForeignSource
from barograph.ingest.trackers.importing import Imported, ImportedRun, Wanted, import_runs
from barograph.model.items import ArtifactLink
from barograph.runs.state.places import root_place
from barograph.store.base import Store
from barograph.watch.figures import count
from barograph.watch.wording import shown

_SHOWN = 20
"""Lines printed per section; JSON has all."""
_NAMED = 6


def import_and_print(
    open_source: Callable[[], ForeignSource], root: str | None, *, wanted: Wanted, by_reference: bool, as_json: bool
) -> bool:
    """Import the runs and print the result; return whether all of it was imported.

    Args:
        open_source: Opens the source.
        root: Directory or URL of the runs; None: the default of `Experiment.create`.
        wanted: Runs to import.
        by_reference: Store links to artifacts instead of copies.
        as_json: Print JSON.

    Raises:
        ImportFailed: There are no runs, or none can be imported.
        SettingsError, StoreError: The root is invalid, or cannot be written to.
    """
    place = root or root_place()
    store = store_at(place)
    source = open_source()
    try:
        with progress("importing") as on_progress:
            imported = import_runs(
                source, store, lambda folder: store_at(f"{place.rstrip('/')}/{folder}"),
                None if by_reference else _keeper(store), wanted=wanted, on_progress=on_progress,
            )
    finally:
        source.close()
    if again := {run.folder for run in imported.runs if run.again}:
        # The catalog skips runs that ended long ago and whose end did not change.
        catalog_at(place).feed(again=again)
    printer = Printer()
    if as_json:
        printer.json(imported.to_json())
    else:
        _print(printer, imported, place)
    return not imported.damage


def _keeper(store: Store) -> Callable[[Path, str], ArtifactLink]:
    return lambda path, name: artifact_of(store, path, name, media_type="", copy=True)


def _print(printer: Printer, imported: Imported, root: str) -> None:
    verdict = ("imported", "bold green") if not imported.damage else ("imported in part", "bold yellow")
    points = sum(run.points for run in imported.runs)
    printer.line(Text.assemble(verdict, f": {count(len(imported.runs), 'run')} with {count(points, 'number')}."))
    printer.entries([("from", shown(imported.source)), ("root", root), *_totals(imported)])
    if imported.runs:
        printer.heading("runs")
    printer.lines([shown(f"{run.name}: {run.run}{_detail(run)}") for run in imported.runs], _SHOWN)
    if imported.runs:
        printer.entries([("next", f"barograph watch {imported.runs[0].run} --once")])
    if imported.damage:
        printer.heading("not imported", Text("the rest was imported", "dim"))
        printer.lines([Text.assemble(("· ", "red"), shown(sentence)) for sentence in imported.damage], _SHOWN)


def _totals(imported: Imported) -> list[tuple[str, str]]:
    entries: list[tuple[str, str]] = []
    if imported.experiments:
        entries.append(("experiments", _some(imported.experiments)))
    if imported.unchanged:
        entries.append(("unchanged", f"{count(imported.unchanged, 'run')} imported before"))
    if again := sum(run.again for run in imported.runs):
        entries.append(("changed", f"{count(again, 'run')} imported again"))
    copied, referenced = (sum(numbers) for numbers in
                          ([run.copied for run in imported.runs], [run.referenced for run in imported.runs]))
    if copied or referenced:
        entries.append(("artifacts", f"{copied:,} copied, {referenced:,} linked"))
    if imported.passed_over:
        what = ", ".join(count(number, what) for what, number in sorted(imported.passed_over.items()))
        entries.append(("skipped", shown(what)))
    return entries


def _detail(run: ImportedRun) -> str:
    steps = [f"{name} → {place}" for name, place in run.of_steps.items()]
    return f" ({count(run.points, 'number')}{f'; {_some(steps)}' if steps else ''})"


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(shown(name) for name in names[:_NAMED]) + more
