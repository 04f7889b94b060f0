"""Output of `barograph export mlflow`."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from barograph.cli.experiments.catalog_options import catalog_with
from barograph.cli.printing import Printer
from barograph.cli.progress_bar import progress
from barograph.cli.share.mlflow_outgoing import outgoing_from_item
from barograph.errors import ExportError, SettingsError
from barograph.experiments.catalog import Catalog
from barograph.experiments.item import Item
from barograph.export.mlflow.sending import MlflowServer, SentRun
from barograph.model.items import ItemKind, Relation
from barograph.watch.figures import count
from barograph.watch.wording import shown
from barograph.wire.web import web_from_environment

_SHOWN = 20


def export_and_print(name: str, to: str, root: str | None, *, as_json: bool) -> None:
    """Export a run, or all runs of an experiment, to a server and print the result.

    Args:
        name: Name of a run, a component, a trial or an experiment; or the path of a run.
        to: URL of the server.
        root: Directory of the runs; None: the default of `Experiment.create`, or the one above the run.
        as_json: Print JSON.

    Raises:
        UnknownItem: No item has that name.
        ExportError: There is nothing to export.
        EndpointFailed: The server cannot be reached, or refuses the data.
        SettingsError: `to` is not the URL of a server.
        StoreError: A run cannot be read.
    """
    server = MlflowServer(web_from_environment(_checked(to)))
    catalog = catalog_with([name], root)
    found = catalog.item(name)
    items = _parents_first(_items(catalog, found))
    if not items:
        raise ExportError(f'{found.kind.capitalize()} "{found.name}" has no runs or components to export.')
    if found.kind is ItemKind.EXPERIMENT:
        server.describe(found.name, str(found.facts["description"]), found.tags)
    sent: list[SentRun] = []
    with progress("exporting") as on_progress:
        for number, item in enumerate(items):
            on_progress(number, len(items))
            sent.append(server.send(outgoing_from_item(item, catalog.store)))
        on_progress(len(items), len(items))
    printer = Printer()
    if as_json:
        printer.json({"server": server.url, "runs": [run.to_json() for run in sent]})
    else:
        _print(printer, sent, server.url)


def _checked(to: str) -> str:
    scheme = to.partition("://")[0].lower() if "://" in to else ""
    if scheme in ("http", "https"):
        return to
    store = to if scheme else f"sqlite:///{to}"
    raise SettingsError(f"{to} is not a tracking server. Start one with `mlflow server --backend-store-uri {store}` "
                        "and pass its URL, such as http://localhost:5000.")


def _items(catalog: Catalog, item: Item) -> list[Item]:
    if item.kind in (ItemKind.RUN, ItemKind.COMPONENT):
        return [item]
    if item.kind is ItemKind.TRIAL:
        return catalog.members_of(item.uid)
    found = {one.uid: one for trial in catalog.trials_of(item.uid) for one in catalog.members_of(trial.uid)}
    return list(found.values())


def _parents_first(items: Sequence[Item]) -> list[Item]:
    """Return items sorted so that each comes after its parent."""
    waiting = {item.uid: item for item in items}
    order: list[Item] = []
    while waiting:
        ready = [item for item in waiting.values() if not any(
            relation == Relation.CONTRIBUTED_TO and target in waiting for relation, target in item.relations)]
        # A cycle has no first item.
        for item in ready or list(waiting.values()):
            order.append(waiting.pop(item.uid))
    return order


def _print(printer: Printer, sent: Sequence[SentRun], url: str) -> None:
    new = [run for run in sent if not run.unchanged]
    points, artifacts = sum(run.points for run in new), sum(run.artifacts for run in new)
    printer.line(Text.assemble(("exported", "bold green"), f": {count(len(new), 'run')} with {count(points, 'number')} "
                                                           f"and {count(artifacts, 'artifact')}."))
    entries = [("to", url)]
    if len(new) < len(sent):
        entries.append(("unchanged", f"{count(len(sent) - len(new), 'run')} exported before"))
    printer.entries(entries)
    printer.lines([shown(f"{run.name}: {run.mlflow_run_id} ({count(run.points, 'number')})") for run in new], _SHOWN)
    notes = [sentence for run in new for sentence in run.notes]
    if notes:
        printer.heading("notes", Text("", "dim"))
        printer.lines([shown(f"· {sentence}") for sentence in notes], _SHOWN)
