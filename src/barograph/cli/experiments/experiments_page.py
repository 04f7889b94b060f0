"""Output of `barograph experiments`."""

from __future__ import annotations

import shlex
from typing import Any

from barograph.cli.experiments.catalog_options import open_catalog
from barograph.cli.experiments.search_page import print_table
from barograph.cli.printing import Column, Printer
from barograph.experiments.finding import usual
from barograph.experiments.item import Item
from barograph.experiments.overview import experiment_of, experiments_of
from barograph.model.items import ItemKind
from barograph.watch.figures import local_time


def create(name: str, root: str | None, *, hypothesis: str, description: str) -> None:
    """Create an experiment.

    Raises:
        NameTaken: An experiment has that name.
    """
    fields = {"hypothesis": hypothesis, "description": description}
    said = {key: text for key, text in fields.items() if text}
    open_catalog(root, make=True).create(ItemKind.EXPERIMENT, name, fields=said)


def print_all(root: str | None, *, archived: bool, as_json: bool) -> None:
    """Print every experiment, one per line."""
    catalog, printer = open_catalog(root), Printer()
    rows = experiments_of(catalog, archived=archived)
    if as_json:
        printer.json([row.to_json() for row in rows])
    elif not rows:
        printer.line(f"No experiments in {catalog.store.url}. To start one:  barograph run --experiment NAME train.py")
    else:
        printer.table(
            (Column("name"), Column("trials", right=True), Column("components", right=True), Column("created", spare=2),
             Column("hypothesis", prose=True, spare=1)),
            [(_starred(row.item), f"{row.trials}", f"{row.components}", local_time(row.item.facts["created_unix"]),
              row.item.facts["hypothesis"]) for row in rows],
        )


def print_one(name: str, root: str | None, *, as_json: bool) -> None:
    """Print an experiment, its trials and a table of results.

    Raises:
        UnknownItem: No experiment has that name.
    """
    catalog, printer = open_catalog(root), Printer()
    found = experiment_of(catalog, name)
    if as_json:
        printer.json(found.to_json())
        return
    item, trials, table = found.item, found.trials, found.table
    printer.heading(_starred(item), item.facts["hypothesis"])
    said = [("description", item.facts["description"]), ("tags", _pairs(item.tags)),
            ("created", local_time(item.facts["created_unix"])), ("trials", f"{len(trials)}")]
    printer.entries([(key, text) for key, text in said if text])
    for note in item.notes:
        printer.entries([(f"{local_time(note.time_unix)} {note.by}".rstrip(), note.text)])
    if len(table):
        shown = usual(table)
        print_table(printer, shown.table, left_out=shown.left_out)
    else:
        printer.line(f"No trials yet. To start one:  barograph run --experiment {shlex.quote(item.name)} train.py")


def _starred(item: Item) -> str:
    return f"★ {item.name}" if item.facts["starred"] else item.name


def _pairs(tags: Any) -> str:
    return ", ".join(f"{name}={text}" for name, text in tags.items())


