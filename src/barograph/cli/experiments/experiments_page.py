"""What `barograph experiments` prints."""

from __future__ import annotations

import shlex
from typing import Any

from barograph.cli.experiments.catalog_options import open_catalog
from barograph.cli.experiments.search_page import print_table, usual
from barograph.cli.printing import Column, Printer
from barograph.experiments.catalog import Catalog
from barograph.experiments.item import Item
from barograph.experiments.tabulating import component_table
from barograph.model.items import ItemKind
from barograph.watch.figures import local_time


def create(name: str, root: str | None, *, hypothesis: str, description: str) -> None:
    """Create an experiment.

    Raises:
        NameTaken: There is one of that name.
    """
    fields = {"hypothesis": hypothesis, "description": description}
    said = {key: text for key, text in fields.items() if text}
    open_catalog(root, make=True).create(ItemKind.EXPERIMENT, name, fields=said)


def print_all(root: str | None, *, archived: bool, as_json: bool) -> None:
    """Print every experiment, a line each."""
    catalog, printer = open_catalog(root), Printer()
    found = catalog.of_kind(ItemKind.EXPERIMENT, archived=archived)
    rows = [(item, trials := catalog.trials_of(item.uid), _runs(catalog, trials)) for item in found]
    if as_json:
        printer.json([{**_experiment_json(item), "trials": len(trials), "components": runs}
                      for item, trials, runs in rows])
    elif not rows:
        printer.line(f"No experiments in {catalog.store.url}. To start one:  barograph run --experiment NAME train.py")
    else:
        printer.table(
            (Column("name"), Column("trials", right=True), Column("components", right=True), Column("created", spare=2),
             Column("hypothesis", prose=True, spare=1)),
            [(_starred(item), f"{len(trials)}", f"{runs}", local_time(item.facts["created_unix"]),
              item.facts["hypothesis"]) for item, trials, runs in rows],
        )


def print_one(name: str, root: str | None, *, as_json: bool) -> None:
    """Print an experiment, its trials and a table of what came out.

    Raises:
        UnknownItem: There is none of that name.
    """
    catalog, printer = open_catalog(root), Printer()
    item = catalog.item(name, ItemKind.EXPERIMENT)
    trials = catalog.trials_of(item.uid)
    with catalog.reading() as connection:
        table = component_table(connection, catalog.ids("", connection, experiment=item.uid))
    if as_json:
        printer.json({**_experiment_json(item), "notes": [note.text for note in item.notes], "trials": [
            {"name": trial.name, "uid": trial.uid, "variables": trial.facts["variables"]} for trial in trials
        ], "components": list(table.rows())})
        return
    printer.heading(_starred(item), item.facts["hypothesis"])
    said = [("description", item.facts["description"]), ("tags", _pairs(item.tags)),
            ("created", local_time(item.facts["created_unix"])), ("trials", f"{len(trials)}")]
    printer.entries([(key, text) for key, text in said if text])
    for note in item.notes:
        printer.entries([(f"{local_time(note.time_unix)} {note.by}".rstrip(), note.text)])
    if len(table):
        shown, left_out = usual(table)
        print_table(printer, shown, left_out=left_out)
    else:
        printer.line(f"No trials yet. To start one:  barograph run --experiment {shlex.quote(item.name)} train.py")


def _runs(catalog: Catalog, trials: list[Item]) -> int:
    return len({member.uid for trial in trials for member in catalog.members_of(trial.uid)})


def _experiment_json(item: Item) -> dict[str, Any]:
    facts = {key: item.facts[key] for key in ("description", "hypothesis", "variables", "created_unix", "starred",
                                              "archived")}
    return {"name": item.name, "uid": item.uid, **facts, "tags": dict(item.tags)}


def _starred(item: Item) -> str:
    return f"★ {item.name}" if item.facts["starred"] else item.name


def _pairs(tags: Any) -> str:
    return ", ".join(f"{name}={text}" for name, text in tags.items())


