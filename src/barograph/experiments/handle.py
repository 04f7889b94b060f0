"""Base class of the objects in a catalog: reading and changing an item."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Self, TypeVar

from barograph.errors import UnknownItem
from barograph.experiments.catalog import Catalog
from barograph.experiments.folding import Note
from barograph.experiments.item import Item
from barograph.experiments.lineage import Lineage, lineage_of
from barograph.model.items import Entry, ItemKind, Relation, Verb, checked_tags, relation_from
from barograph.runs.state.places import root_place

_open: dict[str, Catalog] = {}


def catalog_at(root: str | os.PathLike[str] | None = None) -> Catalog:
    """Return the catalog of a root; each is opened once per process.

    Args:
        root: Directory or URL; None: `BAROGRAPH_ROOT`, else `barograph-runs/`.
    """
    place = root_place(root)
    key = f"{os.getpid()} {os.path.abspath(place) if '://' not in place else place}"
    if key not in _open:
        _open[key] = Catalog(place)
    return _open[key]


class Handle:
    """An item of a catalog.

    Attributes reflect the last load, `refresh`, or change through this object."""

    kinds: ClassVar[tuple[ItemKind, ...]] = ()

    def __init__(self, catalog: Catalog, item: Item) -> None:
        self.catalog = catalog
        self._item = item
        self._is_recorded = False

    @property
    def item(self) -> Item:
        """The item in the catalog."""
        if self._is_recorded:
            # Reloaded on the next read only, so that many changes cost one query.
            self._item = self.catalog.item_by_uid(self._item.uid) or self._item
            self._is_recorded = False
        return self._item

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @classmethod
    def load(cls, name: str, *, root: str | os.PathLike[str] | None = None) -> Self:
        """Return the item of that name or ID.

        Raises:
            UnknownItem: No item has that name; the message suggests the nearest.
        """
        catalog = catalog_at(root)
        catalog.feed()
        return cls(catalog, catalog.item(name, *cls.kinds))

    @classmethod
    def list(cls, *, root: str | os.PathLike[str] | None = None, archived: bool = False) -> Listing[Self]:
        """Return all items of this kind, oldest first; archived ones only if requested."""
        catalog = catalog_at(root)
        catalog.feed()
        return Listing(cls(catalog, item) for kind in cls.kinds for item in catalog.of_kind(kind, archived=archived))

    @classmethod
    def search(cls, search: str = "", *, root: str | os.PathLike[str] | None = None) -> Listing[Self]:
        """Return the items that a search finds, in its order.

        Raises:
            SearchError: The search is invalid.
        """
        catalog = catalog_at(root)
        catalog.feed()
        return Listing(cls(catalog, item) for item in catalog.find(search, kinds=cls.kinds))

    @property
    def name(self) -> str:
        """Name."""
        return self.item.name

    @property
    def uid(self) -> str:
        """Unique ID."""
        return self._item.uid

    @property
    def tags(self) -> Mapping[str, str]:
        """Tags by name."""
        return self.item.tags

    @property
    def notes(self) -> Sequence[Note]:
        """Notes, oldest first."""
        return self.item.notes

    def refresh(self) -> Self:
        """Reload the item; return it."""
        self.catalog.feed()
        found = self.catalog.item_by_uid(self.uid)
        if found is None:
            raise UnknownItem(f'"{self.name}" no longer exists in {self.catalog.store.url}.')
        self._item, self._is_recorded = found, False
        return self

    def tag(self, **tags: str | None) -> Self:
        """Set tags; None removes one."""
        return self._tell(Verb.TAG, checked_tags(tags))

    def note(self, text: str) -> Self:
        """Add a note in Markdown."""
        return self._tell(Verb.NOTE, {"text": str(text)})

    def describe(self, description: str) -> Self:
        """Set the description."""
        return self._tell(Verb.SET, {"description": str(description)})

    def star(self, starred: bool = True) -> Self:
        """Star the item, or remove the star."""
        return self._tell(Verb.SET, {"starred": bool(starred)})

    def archive(self, archived: bool = True) -> Self:
        """Hide the item from lists and searches, or show it again."""
        return self._tell(Verb.SET, {"archived": bool(archived)})

    def relate(self, relation: Relation | str, other: Handle) -> Self:
        """Relate it to another item: "derived_from", "contributed_to", "associated_with", "produced", "same_as".

        Raises:
            UnknownName: The relation is unknown.
        """
        return self._tell(Verb.RELATE, {"relation": str(relation_from(relation)), "target": other.uid})

    def lineage(
        self, direction: str = "both", *, depth: int | None = None, kinds: Iterable[ItemKind | str] = (),
        since_unix: float | None = None,
    ) -> Lineage:
        """Return its ancestors ("up"), descendants ("down") or both; arguments and errors as in `lineage_of`."""
        return Lineage(self.catalog, lineage_of(self.catalog, self.uid, direction, depth=depth, kinds=kinds,
                                                since_unix=since_unix))

    def show(self) -> Any:
        """Return its page for the last line of a notebook cell, see `barograph.notebook.show`."""
        return importlib.import_module("barograph.notebook").show(self)  # above this package

    def delete(self, *, cascade: bool = False) -> None:
        """Delete the item; `restore` brings it back within some days.

        Raises:
            StillNeeded: Others depend on it, and `cascade` is False.
        """
        self.catalog.delete(self.item, cascade=cascade)

    def restore(self) -> Self:
        """Restore the item and what was deleted with it."""
        self.catalog.restore(self.uid)
        return self.refresh()

    def _tell(self, verb: Verb, data: Mapping[str, Any]) -> Self:
        self.catalog.tell([Entry(self.uid, verb, data)])
        self._is_recorded = True
        return self


Found = TypeVar("Found", bound=Handle)


class Listing(list[Found]):
    """Items in the order of the query; a notebook shows them as a table."""
