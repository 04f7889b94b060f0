"""Output of `barograph import tensorboard`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.text import Text

from barograph.cli.opening import store_at
from barograph.cli.printing import Printer
from barograph.cli.progress_bar import progress
from barograph.ingest.tensorboard.files import EVENTS
from barograph.ingest.tensorboard.importing import Imported, ImportedRun, import_tensorboard
from barograph.watch.figures import count
from barograph.watch.wording import shown

_SHOWN = 20
"""Lines printed per section; JSON has all."""
_NAMED = 6


def import_and_print(source: str, target: str, *, as_json: bool) -> bool:
    """Import the runs and print the result; return whether all of it was imported.

    Raises:
        ImportFailed: There are no event files, none can be imported, or the target exists.
        SettingsError, StoreError: A path is invalid, or cannot be read or written.
    """
    top, only = _split(source)
    with progress("importing") as on_progress:
        imported = import_tensorboard(
            store_at(top), store_at(target), lambda name: store_at(f"{target.rstrip('/')}/{name}"), only=only,
            on_progress=on_progress,
        )
    printer = Printer()
    if as_json:
        printer.json(imported.to_json())
    else:
        _print(printer, imported, target)
    return not imported.damage


def _split(source: str) -> tuple[str, str]:
    """Return a folder and the name of a file in it; "" if the path is a folder."""
    if "://" not in source:
        path = Path(source)
        return (str(path.parent), path.name) if path.is_file() else (source, "")
    folder, _, last = source.rstrip("/").rpartition("/")
    return (folder, last) if EVENTS in last else (source, "")


def _print(printer: Printer, imported: Imported, target: str) -> None:
    verdict = ("imported", "bold green") if not imported.damage else ("imported in part", "bold yellow")
    points = sum(run.points for run in imported.runs)
    printer.line(Text.assemble(verdict, f": {count(len(imported.runs), 'run')} with {count(points, 'number')}."))
    printer.entries([("from", imported.source)])
    for run in imported.runs:
        if len(imported.runs) > 1:
            printer.heading(shown(run.name) or "(top folder)")
        printer.entries(_entries(run))
    if imported.empty:
        printer.entries([("no run", f"{_some(list(imported.empty))}: no data to import")])
    one = imported.runs[0].run if len(imported.runs) > 1 else target
    printer.entries([("next", f"barograph watch {one} --once")])
    if imported.damage:
        printer.heading("damaged", Text("the rest was imported", "dim"))
        printer.lines([Text.assemble(("· ", "red"), shown(sentence)) for sentence in imported.damage], _SHOWN)


def _entries(run: ImportedRun) -> list[tuple[str, str]]:
    entries = [("run", run.run)]
    named = {"losses": run.losses, "learning rates": run.learning_rates, "other numbers": run.scalars}
    entries += [(title, _places(found)) for title, found in named.items() if found]
    if run.histograms:
        entries.append(("histograms", f"{run.histograms:,}"))
    if run.texts:
        entries.append(("texts", f"{run.texts:,}"))
    if run.parameters:
        entries.append(("parameters", _some([f"{name} = {value}" for name, value in run.parameters.items()])))
    if run.recounted:
        entries.append(("by epoch", f"{_some(run.recounted)}: moved to the training step of that time"))
    if run.again:
        entries.append(("overwritten", f"{count(run.again, 'point')} of repeated steps, skipped"))
    if run.passed_over:
        what = ", ".join(count(number, shown(name)) for name, number in sorted(run.passed_over.items()))
        entries.append(("skipped", f"{what}: not supported"))
    return entries


def _places(found: Mapping[str, str]) -> str:
    """Return tags with the names that they were imported as."""
    return _some([f"{tag} → {place}" for tag, place in found.items()])


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(shown(name) for name in names[:_NAMED]) + more
