"""Output of `barograph mark`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from barograph.cli.experiments.catalog_options import open_catalog
from barograph.cli.inspect.exhibits_text import print_exhibits
from barograph.cli.options import tags_from
from barograph.cli.printing import Printer
from barograph.experiments.catalog import UNDO_DAYS
from barograph.experiments.component import Component
from barograph.experiments.editing import Edit
from barograph.experiments.item import Item
from barograph.watch.figures import figure, local_time, size

_FACTS = ("state", "message", "description", "hypothesis", "place", "command", "repository", "branch", "commit", "host",
          "by", "uri", "digest")
_NAMED = 10


def mark(
    target: str, root: str | None, *, tag: Sequence[str] | None, untag: Sequence[str] | None, star: bool | None,
    archive: bool | None, description: str | None, note: str | None, rename: str | None, delete: bool,
    cascade: bool, restore: bool, as_json: bool,
) -> None:
    """Change an item and print it; arguments as in the command.

    Raises:
        UnknownItem: No item has that name.
        AmbiguousName: Several items have that name.
        NameTaken: Another item of its experiment has the new name.
        StillNeeded: Other items derive from the one to delete.
    """
    catalog, printer = open_catalog(root), Printer()
    item = catalog.deleted(target) if restore else catalog.item(target)
    if rename is not None:
        catalog.rename(item, rename)
    catalog.tell(Edit(description=description, note=note, starred=star, archived=archive,
                      tags={**dict.fromkeys(untag or ()), **(tags_from(tag) or {})})
                 .entries(item.uid, time_unix=catalog.time_after([item])))
    if delete:
        gone = catalog.delete(item, cascade=cascade)
        printer.line(f"Deleted: {_named(gone)}. To undo within {UNDO_DAYS:g} days: barograph mark {item.uid} --restore")
        return
    if restore:
        back = catalog.restore(item.uid)
        if not as_json:
            printer.line(f"Restored: {_named(back)}.")
            return
    item = catalog.item(item.uid)
    _print(printer, item, as_json=as_json)
    if not as_json and item.kind in Component.kinds:
        print_exhibits(printer, Component(catalog, item).exhibits())


def _named(items: Sequence[Item]) -> str:
    more = f" and {len(items) - _NAMED} more" if len(items) > _NAMED else ""
    return ", ".join(f"{one.kind} {one.name}" for one in items[:_NAMED]) + more


def _print(printer: Printer, item: Item, *, as_json: bool) -> None:
    if as_json:
        printer.json(item_json(item))
        return
    printer.heading(f"{'★ ' if item.facts['starred'] else ''}{item.name}", str(item.kind))
    printer.entries([("id", item.uid), *((name, str(item.facts[name])) for name in _FACTS if item.facts[name])])
    for title, entries in (
        ("parameters", [(name, str(value)) for name, value in item.parameters.items()]),
        ("metrics", [(name, f"last {figure(it.last)}  min {figure(it.min)}  max {figure(it.max)}  {it.count} values")
                     for name, it in item.metrics.items()]),
        ("tags", list(item.tags.items())),
        ("trials", [(trial.experiment, trial.name) for trial in item.trials]),
        ("inputs", [(link.name, _link(link)) for link in item.inputs]),
        ("outputs", [(link.name, _link(link)) for link in item.outputs]),
        ("findings", [(found.code, f"{found.rule} ({found.severity}, {found.state})") for found in item.findings]),
        ("notes", [(f"{local_time(note.time_unix)} {note.by}".rstrip(), note.text) for note in item.notes]),
    ):
        if entries:
            printer.heading(title)
            printer.entries(entries)


def item_json(item: Item) -> dict[str, Any]:
    """Return an item as JSON data."""
    data = asdict(item)
    return {**{name: data[name] for name in ("uid", "kind", "name")}, **data.pop("facts"), **data}


def _link(link: Any) -> str:
    return f"{link.uri}{f'  {size(link.size_bytes)}' if link.size_bytes >= 0 else ''}"
