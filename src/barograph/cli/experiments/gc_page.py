"""Output of `barograph gc`."""

from __future__ import annotations

from rich.text import Text

from barograph.cli.experiments.catalog_options import progress_on_terminal, refuse_missing
from barograph.cli.printing import Column, Printer
from barograph.errors import SettingsError
from barograph.experiments.collecting import collect, collection_of
from barograph.experiments.handle import catalog_at
from barograph.model.clock import SystemClock
from barograph.model.units import seconds_from
from barograph.watch.figures import count, local_time, size

_SHOWN = 20
_LEAST_GRACE_SECS = 3600.0


def sweep(root: str | None, grace: str, *, yes: bool, gone: bool, as_json: bool) -> None:
    """List unused artifacts, and delete them on request; arguments as in the command.

    Raises:
        SettingsError: The grace period is invalid or too short.
        CatalogError: Something below the root cannot be read.
        StoreError: The root cannot be read or written.
    """
    grace_secs = seconds_from("--grace", grace)
    if grace_secs < _LEAST_GRACE_SECS:
        raise SettingsError(f"--grace is {grace}; it must be at least 1h, because a running run may have stored a file "
                            "that it has not registered yet.")
    refuse_missing(root)
    catalog, printer = catalog_at(root), Printer()
    found = collection_of(catalog, now_unix=SystemClock().unix(), grace_secs=grace_secs, with_gone=gone,
                          progress=progress_on_terminal)
    number, freed = collect(catalog, found) if yes else (0, 0)
    if as_json:
        printer.json({
            "root": catalog.store.url, "artifacts": len(found.unwanted), "bytes": found.size_bytes,
            "deleted": number, "deleted_bytes": freed, "kept": found.kept, "of_gone_runs": found.of_gone,
            "of_gone_runs_bytes": found.of_gone_bytes,
            "unwanted": [{"digest": _digest(item.name), "bytes": item.size_bytes, "put_unix": item.modified_unix}
                         for item in found.unwanted],
        })
        return
    if yes:
        printer.line(Text.assemble(("deleted", "bold green"), f": {count(number, 'artifact')}, {size(freed)} freed."))
    elif found.unwanted:
        printer.line(f"{count(len(found.unwanted), 'unused artifact')}, {size(found.size_bytes)}. Nothing deleted yet; "
                     "delete with --yes.")
        printer.table([Column("digest"), Column("size", right=True), Column("put")],
                      [(_digest(item.name), size(item.size_bytes), local_time(item.modified_unix))
                       for item in found.unwanted[:_SHOWN]])
        if len(found.unwanted) > _SHOWN:
            printer.line(f"and {len(found.unwanted) - _SHOWN} more (all: --json)", indent=2)
    else:
        printer.line(f"Nothing to delete: no unused artifact is older than {grace} "
                     f"({count(found.kept, 'artifact')} in use).")
    if found.of_gone and not gone:
        printer.line(f"{count(found.of_gone, 'artifact')} more, {size(found.of_gone_bytes)}, used only by runs whose "
                     "folders no longer exist. Include them with --gone.")


def _digest(name: str) -> str:
    return name.rpartition("/")[2].replace("-", ":", 1)
