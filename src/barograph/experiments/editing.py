"""Edits of an item by users: name, description, experiment, notes, tags, star, archive."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from barograph.errors import EditConflict, SettingsError, UnknownName, nearest
from barograph.experiments.catalog import Catalog
from barograph.experiments.folding import Note
from barograph.experiments.item import Item, Trial
from barograph.experiments.run_entries import membership
from barograph.model.items import Entry, ItemKind, Verb, checked_name, checked_tags
from barograph.model.plain import plain

MOST_TEXT_CHARS = 100_000
"""Length limit of a note or a description."""


@dataclass(frozen=True, slots=True)
class Marks:
    """Name and annotations of an item: description, notes, tags, star, archive.

    Attributes:
        uid: ID of the item.
        kind: Kind of the item.
        name: Name.
        description: Markdown.
        starred: It is a favorite.
        archived: Lists and searches omit it.
        deleted_unix: Time of deletion; None: not deleted.
        tags: Tag name to text.
        notes: Oldest first.
        trials: Experiments and trials that it belongs to.
        version: Changes with name, description, experiment and tags; see `edit_item`.
    """

    uid: str
    kind: ItemKind
    name: str
    description: str
    starred: bool
    archived: bool
    deleted_unix: float | None
    tags: Mapping[str, str]
    notes: Sequence[Note]
    trials: Sequence[Trial]
    version: str

    def to_json(self) -> dict[str, Any]:
        """Return it as strict JSON data."""
        data: dict[str, Any] = plain(self)
        return data


@dataclass(frozen=True, slots=True)
class Edit:
    """Changes of an item; None leaves a field unchanged.

    Attributes:
        name: New name of a run or a component.
        description: New description.
        note: Note to add; earlier notes stay.
        tags: Tags to set; None removes a tag.
        starred: Star it, or remove the star.
        archived: Archive it, or restore it.
        experiment: Experiment to move a run or a component to, which is created if it is new; "": remove it from all.
        trial: Name of the trial in it; "": one with the item's name.
    """

    name: str | None = None
    description: str | None = None
    note: str | None = None
    tags: Mapping[str, str | None] = field(default_factory=dict)
    starred: bool | None = None
    archived: bool | None = None
    experiment: str | None = None
    trial: str = ""

    def entries(self, uid: str, *, time_unix: float = 0.0, by: str = "") -> list[Entry]:
        """Return the journal entries of everything but the name.

        Args:
            uid: ID of the item.
            time_unix: Time of the edit; 0: now.
            by: Author; "": this user.
        """
        changed = {"starred": self.starred, "archived": self.archived, "description": self.description}
        fields = {name: value for name, value in changed.items() if value is not None}
        found: list[tuple[Verb, Mapping[str, Any]]] = [(Verb.TAG, dict(self.tags))] if self.tags else []
        found += [(Verb.SET, fields)] if fields else []
        found += [(Verb.NOTE, {"text": self.note})] if self.note else []
        return [Entry(uid, verb, data, time_unix, by) for verb, data in found]


_TYPES: Mapping[str, type] = {"name": str, "description": str, "note": str, "tags": dict, "starred": bool,
                              "archived": bool, "experiment": str, "trial": str}


def edit_from_json(data: Mapping[str, Any]) -> Edit:
    """Return an edit from JSON data with the fields of `Edit`.

    Raises:
        UnknownName: A field is unknown.
        SettingsError: A value is invalid.
    """
    for name, value in data.items():
        if name not in _TYPES:
            raise UnknownName(f'"{name}" cannot be edited. {nearest(name, tuple(_TYPES))}')
        if type(value) is not _TYPES[name]:
            raise SettingsError(f"{name} must be a {_TYPES[name].__name__}, not {type(value).__name__}.")
        if isinstance(value, str) and len(value) > MOST_TEXT_CHARS:
            raise SettingsError(f"The {name} has {len(value):,} characters; the limit is {MOST_TEXT_CHARS:,}.")
    tags = data.get("tags", {})
    wrong = next((name for name, text in tags.items() if not isinstance(text, str | None)), None)
    if wrong is not None:
        raise SettingsError(f'Tag "{wrong[:60]}" must be a string.')
    return Edit(**{**data, "tags": checked_tags(tags)})


def marks_of(item: Item) -> Marks:
    """Return name and annotations of an item."""
    facts = item.facts
    description = str(facts["description"] or "")
    versioned = json.dumps([item.name, description, sorted(item.tags.items()),
                            sorted(trial.uid for trial in item.trials)])
    return Marks(
        uid=item.uid, kind=item.kind, name=item.name, description=description, starred=bool(facts["starred"]),
        archived=bool(facts["archived"]), deleted_unix=facts["deleted_unix"], tags=item.tags, notes=item.notes,
        trials=item.trials,
        version=hashlib.blake2b(versioned.encode(), digest_size=8).hexdigest())


def edit_item(catalog: Catalog, item: Item, edit: Edit, *, version: str = "", by: str = "") -> Item:
    """Edit an item; return its new state.

    Args:
        catalog: Catalog with the item.
        item: The item as it is now.
        edit: The changes.
        version: `Marks.version` that the editor saw. A change of name, description, experiment or tags fails if
            one of them has changed since. Notes are always added, and the last star wins. "": overwrite.
        by: Author; "": this user.

    Raises:
        EditConflict: Name, description, experiment or tags have changed since that version.
        NameTaken, SettingsError: The name is taken in its experiment or in the new one, or invalid.
        StoreError, CatalogUnavailable: It cannot be stored.
    """
    overwrites = any(value is not None for value in (edit.name, edit.description, edit.experiment)) or bool(edit.tags)
    if version and overwrites and version != marks_of(item).version:
        raise EditConflict(f'Somebody else edited "{item.name}" in the meantime, so your change was not saved. '
                           "Look at the current values, then save again.")
    _check_move(catalog, item, edit)  # before anything is stored
    if edit.name is not None and edit.name != item.name:
        catalog.rename(item, edit.name, by=by)
    now_unix = catalog.time_after([item])
    catalog.tell([*edit.entries(item.uid, time_unix=now_unix, by=by), *_moved(item, edit, now_unix, by)])
    found = catalog.item_by_uid(item.uid)
    return found if found is not None else item


def _check_move(catalog: Catalog, item: Item, edit: Edit) -> None:
    """Raise `SettingsError` if an item is neither a run nor a component, or a name is invalid; `NameTaken` if another
    item of the experiment has its name."""
    if edit.experiment is None:
        return
    if item.kind not in (ItemKind.RUN, ItemKind.COMPONENT):
        raise SettingsError(f"Only runs and components belong to experiments, not {item.kind}s.")
    for what, name in (("the experiment", edit.experiment), ("the trial", edit.trial)):
        if name:
            checked_name(what, name)
    if edit.experiment:
        catalog.check_is_free(edit.name or item.name, item, {edit.experiment})


def _moved(item: Item, edit: Edit, now_unix: float, by: str) -> Iterator[Entry]:
    """Yield the entries that take an item out of its trials, and into another."""
    if edit.experiment is None:
        return
    for before in item.trials:
        yield Entry(item.uid, Verb.LEAVE, {"trial": before.uid}, now_unix, by)
    for entry in membership(item.uid, edit.experiment, edit.trial, edit.name or item.name, now_unix):
        yield replace(entry, by=by)
