"""Output of `barograph import smdebug`."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from barograph.cli.opening import store_at
from barograph.cli.printing import Printer
from barograph.cli.progress_bar import progress
from barograph.ingest.smdebug.importing import Imported, import_smdebug
from barograph.watch.figures import count

_SHOWN = 20
"""Lines printed per section; JSON has all."""
_NAMED = 5


def import_and_print(source: str, target: str, *, as_json: bool) -> bool:
    """Import the run and print the result; return whether all of it was imported.

    Raises:
        ImportFailed: The source has no readable smdebug data, or the target exists.
        SettingsError, StoreError: A path is invalid, or cannot be read or written.
    """
    with progress("importing", "steps") as on_progress:
        imported = import_smdebug(store_at(source), store_at(target), on_progress=on_progress)
    printer = Printer()
    if as_json:
        printer.json(imported.to_json())
    else:
        _print(printer, imported, target)
    return not imported.damage


def _print(printer: Printer, imported: Imported, target: str) -> None:
    verdict = ("imported", "bold green") if not imported.damage else ("imported in part", "bold yellow")
    steps, values = count(imported.steps, "step"), count(imported.values, "value")
    printer.line(Text.assemble(verdict, f": {steps} with {values}, from {count(len(imported.workers), 'worker')}."))
    entries: list[tuple[str, str]] = [("from", imported.source), ("run", imported.run)]
    if len(imported.workers) > 1:
        entries.append(("workers", ", ".join(f"{ours}: {theirs}" for ours, theirs in imported.workers.items())))
    if imported.unproved:
        entries.append(("unverified", f"{count(imported.unproved, 'value')} without a checksum (smdebug writes none)"))
    if imported.custom:
        entries.append(("custom", f"{_some(imported.custom)}: stored under custom:, because no other kind fits"))
    if imported.foreign:
        entries.append(("skipped", f"{_some(imported.foreign)}: not written by smdebug"))
    entries.append(("next", f"barograph watch {target} --once"))
    printer.entries(entries)
    if imported.damage:
        printer.heading("damaged", Text("the rest was imported", "dim"))
        printer.lines([Text.assemble(("· ", "red"), sentence) for sentence in imported.damage], _SHOWN)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
