"""Fields of a search and their columns."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from sqlalchemy import ColumnElement

from barograph.errors import SearchError, nearest
from barograph.experiments.schema import ITEMS
from barograph.experiments.search.syntax import Field
from barograph.experiments.search.tokens import error_at
from barograph.experiments.table import COLUMN_OF_FIELD
from barograph.model.items import STATISTICS


class FieldKind(Enum):
    """Type of the values of a field."""

    TEXT = auto()
    NUMBER = auto()
    TIME = auto()
    BOOLEAN = auto()


@dataclass(frozen=True, slots=True)
class ItemField:
    """A field that every item has.

    Attributes:
        column: Its column.
        kind: Type of its values.
    """

    column: ColumnElement[Any]
    kind: FieldKind


@dataclass(frozen=True, slots=True)
class NamedField:
    """A field with a user-defined name.

    Attributes:
        group: "params", "metrics", "tags", "inputs" or "outputs".
        name: Name of the parameter, metric …
        part: Statistic of a metric, or "uri", "digest", "size" or "media_type" of an artifact.
    """

    group: str
    name: str
    part: str = ""


@dataclass(frozen=True, slots=True)
class RelatedField:
    """A field of related objects: "experiment", "trial" or "notes"."""

    group: str


KnownField = ItemField | NamedField | RelatedField

ITEM_FIELDS: dict[str, ItemField] = {
    **{name: ItemField(ITEMS.c[column], FieldKind.TEXT) for name, column in {
        "name": "name", "id": "uid", "kind": "kind", "state": "state", "status": "state", "message": "message",
        "description": "description", "hypothesis": "hypothesis", "place": "place", "job": "job",
        "command": "command", "host": "host", "by": "by", "user": "by", "uri": "uri", "digest": "digest",
        "media_type": "media_type", "code.commit": "commit", "code.branch": "branch",
        "code.repository": "repository",
    }.items()},
    **{name: ItemField(ITEMS.c[f"{name}_unix"], FieldKind.TIME) for name in ("created", "started", "ended", "changed")},
    "steps": ItemField(ITEMS.c.steps, FieldKind.NUMBER),
    "size": ItemField(ITEMS.c.size_bytes, FieldKind.NUMBER),
    "duration": ItemField(ITEMS.c.ended_unix - ITEMS.c.started_unix, FieldKind.NUMBER),
    "starred": ItemField(ITEMS.c.starred, FieldKind.BOOLEAN),
    "archived": ItemField(ITEMS.c.archived, FieldKind.BOOLEAN),
    "deleted": ItemField(ITEMS.c.deleted_unix.is_not(None), FieldKind.BOOLEAN),
    "code.dirty": ItemField(ITEMS.c.dirty, FieldKind.BOOLEAN),
}
"""Field to its column; `duration` is in seconds."""
ITEM_FIELDS |= {column: ITEM_FIELDS[field] for field, column in COLUMN_OF_FIELD.items() if field in ITEM_FIELDS}

GROUPS = {"params": "params", "parameters": "params", "metrics": "metrics", "tags": "tags", "inputs": "inputs",
          "outputs": "outputs"}
_RELATED = {"experiment": "experiment", "trial": "trial", "notes": "notes", "experiments": "experiment",
            "trials": "trial"}
"""Field to its meaning; some are named like their column."""
_PARTS = ("uri", "digest", "size", "media_type")


def known_field(field: Field, text: str) -> KnownField:
    """Return the known field that a parsed field refers to.

    Args:
        field: The parsed field.
        text: Text of the search.

    Raises:
        SearchError: The field does not exist; the message points at it and suggests the nearest.
    """
    first, rest = field.path[0].lower(), field.path[1:]
    if first in GROUPS:
        if not rest:
            raise error_at(text, field.position, f"expected a name, as in {first}.{_EXAMPLES[GROUPS[first]]}")
        return _named(GROUPS[first], rest)
    path = ".".join(field.path).lower()
    if path in ITEM_FIELDS:
        return ITEM_FIELDS[path]
    if path in _RELATED:
        return RelatedField(_RELATED[path])
    raise _unknown(field, text)


_EXAMPLES = {"params": "lr", "metrics": "loss.min", "tags": "team", "inputs": "data", "outputs": "model"}


def _named(group: str, rest: tuple[str, ...]) -> NamedField:
    parts = {"metrics": STATISTICS, "inputs": _PARTS, "outputs": _PARTS}.get(group, ())
    if len(rest) > 1 and rest[-1] in parts:
        return NamedField(group, ".".join(rest[:-1]), rest[-1])
    return NamedField(group, ".".join(rest), "last" if group == "metrics" else "uri" if parts else "")


def _unknown(field: Field, text: str) -> SearchError:
    known = [*ITEM_FIELDS, *_RELATED, *(f"{group}.NAME" for group in sorted(set(GROUPS.values())))]
    return error_at(text, field.position, f'no field "{field}". {nearest(".".join(field.path), known)} Write a '
                                          "parameter as params.NAME, a metric as metrics.NAME.min".rstrip("."))
