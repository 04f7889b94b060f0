"""Creation of many components at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from sqlalchemy import select

from barograph.errors import NameTaken, UnknownName, nearest
from barograph.experiments.catalog import Catalog, created
from barograph.experiments.schema import ITEMS
from barograph.experiments.writing import in_parts
from barograph.model.items import (
    Entry,
    ItemKind,
    MetricSummary,
    Verb,
    checked_name,
    checked_number,
    checked_tags,
    checked_value,
    flattened,
)

_SAID = ("name", "description", "parameters", "metrics", "tags")
_ENTRIES_AT_ONCE = 10_000
_ASKED_AT_ONCE = 500
_NAMED = 3


def summary_of(name: str, value: Any) -> dict[str, Any]:
    """Return the summary of a metric with a single value.

    Raises:
        SettingsError: It is not a number.
    """
    number = checked_number(checked_name("a metric", name), value)
    return asdict(MetricSummary(number, number, number, number, 0.0))


def created_together(catalog: Catalog, rows: Iterable[Mapping[str, Any]], *, trial: str = "") -> int:
    """Create components and return how many; arguments and errors as in `Component.create_many`.

    Args:
        catalog: Catalog to add to.
        rows: One mapping per component.
        trial: ID of the trial that all belong to; "": none.
    """
    recorded = [list(_entries(row, trial)) for row in rows]
    uids = [entries[0].uid for entries in recorded]
    names = {uid: entries[0].data["name"] for uid, entries in zip(uids, recorded, strict=True)}
    _refuse_taken(catalog, names, len(uids))
    for some in in_parts(recorded, max(1, _ENTRIES_AT_ONCE // 5)):
        catalog.tell(entry for entries in some for entry in entries)
    return len(recorded)


def _entries(row: Mapping[str, Any], trial: str) -> Iterator[Entry]:
    for field in row:
        if field not in _SAID:
            raise UnknownName(f'Components have no field "{field}". {nearest(str(field), _SAID)}')
    fields = {"description": str(row["description"])} if row.get("description") else {}
    made = created(ItemKind.COMPONENT, checked_name("the component", row.get("name")), fields=fields)
    yield made
    if parameters := row.get("parameters"):
        yield Entry(made.uid, Verb.PARAMETERS, {
            checked_name("a parameter", name): checked_value(name, value)
            for name, value in flattened(parameters).items()})
    if metrics := row.get("metrics"):
        yield Entry(made.uid, Verb.METRICS, {name: summary_of(name, value) for name, value in metrics.items()})
    if tags := row.get("tags"):
        yield Entry(made.uid, Verb.TAG, checked_tags(tags))
    if trial:
        yield Entry(made.uid, Verb.JOIN, {"trial": trial})


def _refuse_taken(catalog: Catalog, names: Mapping[str, str], count: int) -> None:
    if len(names) < count:
        raise NameTaken(f"{count - len(names):,} of {count:,} components share a name with another one. Names must "
                        "be unique.")
    catalog.feed()
    taken: list[str] = []
    with catalog.reading() as connection:
        for some in in_parts(names, _ASKED_AT_ONCE):
            taken += connection.execute(select(ITEMS.c.name).where(
                ITEMS.c.uid.in_(some), ITEMS.c.deleted_unix.is_(None))).scalars()
    if taken:
        more = f" and {len(taken) - _NAMED:,} more" if len(taken) > _NAMED else ""
        named = ", ".join(f'"{name}"' for name in taken[:_NAMED])
        raise NameTaken(f"Components with these names already exist: {named}{more} ({catalog.store.url}).")
