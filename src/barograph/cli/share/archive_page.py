"""Output of `barograph export archive` and `barograph import archive`."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from barograph.cli.experiments.catalog_options import catalog_with, open_catalog
from barograph.cli.printing import Printer
from barograph.cli.progress_bar import progress
from barograph.share.archives import check_archive, export_archive
from barograph.share.checking import checked
from barograph.share.container import ArchiveReader
from barograph.share.exporting import Exported
from barograph.share.importing import Imported, ImportedRun, bring_in
from barograph.share.manifest import ArchiveManifest
from barograph.watch.figures import count, size

_SHOWN = 20
"""Lines printed per section; JSON has all."""


def export_and_print(
    names: Sequence[str], out: str, root: str | None, *, checkpoints: bool, capsules: bool, skip_running: bool,
    as_json: bool
) -> bool:
    """Write an archive and print its contents; return whether everything in it was undamaged.

    Raises:
        UnknownItem: No item has that name.
        RunInUse, ExportError: A run is still being written, or its folder is gone.
        StoreDenied, StoreFull: The file cannot be written.
        StoreError: A store cannot be read.
    """
    with progress("writing") as on_progress:
        exported = export_archive(names, out, checkpoints=checkpoints, capsules=capsules, skip_running=skip_running,
                                  catalog=catalog_with(names, root), on_progress=on_progress)
    printer = Printer()
    if as_json:
        printer.json({"file": out, "file_bytes": exported.file_bytes, **exported.to_json()})
    else:
        _print_exported(printer, exported, out)
    return exported.complete


def import_and_print(file: str, root: str | None, *, as_json: bool) -> None:
    """Import an archive and print the result.

    Raises:
        ImportFailed: Not an archive, a damaged one, or a run exists with different content.
        NewerFormat: A newer Barograph wrote it.
        StoreError: The archive or the root cannot be read or written.
    """
    with ArchiveReader(file) as archive:
        with progress("checking") as on_progress:
            found = checked(archive, on_progress=on_progress)
        with progress("importing") as on_progress:
            imported = bring_in(found, open_catalog(root, make=True), on_progress=on_progress)
    printer = Printer()
    if as_json:
        printer.json(imported.to_json())
    else:
        _print_imported(printer, imported)


def check_and_print(file: str, *, as_json: bool) -> None:
    """Check an archive and print its contents; raises the errors of `import_and_print`."""
    with progress("checking") as on_progress:
        manifest = check_archive(file, on_progress=on_progress)
    printer = Printer()
    if as_json:
        printer.json(Exported(manifest, manifest.size_bytes, {}, (), ()).to_json())
        return
    printer.line(Text.assemble(("intact", "bold green"), f": {_contents(manifest)}, {size(manifest.size_bytes)}."))
    _print_items(printer, manifest)


def _print_exported(printer: Printer, exported: Exported, out: str) -> None:
    printer.line(Text.assemble(("written", "bold green"), f": {_contents(exported.manifest)}, "
                                                          f"{size(exported.size_bytes)}, in {out}."))
    _print_items(printer, exported.manifest)
    if exported.asked or exported.manifest.left_out:
        printer.heading("left out")
        for folder, size_bytes in sorted(exported.asked.items()):
            printer.line(f"{folder}: {size(size_bytes)} (include with --{folder})", indent=2)
        printer.lines(exported.manifest.left_out, _SHOWN)
    if exported.damage:
        printer.heading("damaged", Text("exported as it is (details: barograph doctor RUN)", "dim"))
        printer.lines(exported.damage, _SHOWN)


def _print_imported(printer: Printer, imported: Imported) -> None:
    new = sum(run.new for run in imported.runs)
    there = sum(not run.new for run in imported.runs)
    said = [count(new, "new run"), *([f"{there} already present"] if there else [])]
    said += [count(imported.artifacts, "artifact"), size(imported.size_bytes)]
    printer.line(Text.assemble(("imported", "bold green"), f": {', '.join(said)}."))
    printer.entries([
        ("root", imported.root),
        *((run.name, f"{run.place}{_before(run)}") for run in imported.runs[:_SHOWN]),
        *([("and", f"{len(imported.runs) - _SHOWN} more (--json has all)")] if len(imported.runs) > _SHOWN else []),
        ("records", f"{imported.entries} new, {imported.entries_there} already known"),
    ])
    if imported.left_out:
        printer.heading("not in the archive")
        printer.lines(imported.left_out, _SHOWN)


def _before(run: ImportedRun) -> str:
    return "" if run.new else f"  (already present; {count(run.added, 'file')} added)"


def _print_items(printer: Printer, manifest: ArchiveManifest) -> None:
    rows = [(item.kind, item.name) for item in manifest.items]
    printer.entries(rows[:_SHOWN] + ([("and", f"{len(rows) - _SHOWN} more")] if len(rows) > _SHOWN else []))


def _contents(manifest: ArchiveManifest) -> str:
    artifacts = sum(name.startswith(".catalog/artifacts/") for name in manifest.members)
    return f"{count(len(manifest.runs), 'run')}, {count(artifacts, 'artifact')}"
