"""Something in a catalog, by hand: what one can ask of it, and say of it."""

from __future__ import annotations

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
    """Return the catalog of a root of runs; this process opens each once.

    Args:
        root: Directory or URL; None: what `BAROGRAPH_ROOT` says, else `barograph-runs/`.
    """
    place = root_place(root)
    key = f"{os.getpid()} {os.path.abspath(place) if '://' not in place else place}"
    if key not in _open:
        _open[key] = Catalog(place)
    return _open[key]


class Handle:
    """Something in a catalog. Its attributes are as they were when it was loaded, last refreshed, or first asked for
    after something was said of it by this object."""

    kinds: ClassVar[tuple[ItemKind, ...]] = ()

    def __init__(self, catalog: Catalog, item: Item) -> None:
        self.catalog = catalog
        self._item = item
        self._is_told = False

    @property
    def item(self) -> Item:
        """What the catalog knows of it."""
        if self._is_told:
            # Who says a hundred things of it asks once, and not a hundred times.
            self._item = self.catalog.item_by_uid(self._item.uid) or self._item
            self._is_told = False
        return self._item

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    @classmethod
    def load(cls, name: str, *, root: str | os.PathLike[str] | None = None) -> Self:
        """Return what has that name, or identity.

        Raises:
            UnknownItem: There is none; the message says the nearest.
        """
        catalog = catalog_at(root)
        catalog.feed()
        return cls(catalog, catalog.item(name, *cls.kinds))

    @classmethod
    def list(cls, *, root: str | os.PathLike[str] | None = None, archived: bool = False) -> Listing[Self]:
        """Return all there are, oldest first; those that are archived only where they are asked for."""
        catalog = catalog_at(root)
        catalog.feed()
        return Listing(cls(catalog, item) for kind in cls.kinds for item in catalog.of_kind(kind, archived=archived))

    @classmethod
    def search(cls, search: str = "", *, root: str | os.PathLike[str] | None = None) -> Listing[Self]:
        """Return what a search finds, in its order.

        Raises:
            SearchError: It is not understood.
        """
        catalog = catalog_at(root)
        catalog.feed()
        return Listing(cls(catalog, item) for item in catalog.find(search, kinds=cls.kinds))

    @property
    def name(self) -> str:
        """Its name."""
        return self.item.name

    @property
    def uid(self) -> str:
        """Its identity."""
        return self._item.uid

    @property
    def tags(self) -> Mapping[str, str]:
        """Its tags."""
        return self.item.tags

    @property
    def notes(self) -> Sequence[Note]:
        """What was said of it, oldest first."""
        return self.item.notes

    def refresh(self) -> Self:
        """See what was told since; returns itself."""
        self.catalog.feed()
        found = self.catalog.item_by_uid(self.uid)
        if found is None:
            raise UnknownItem(f'"{self.name}" no longer exists in {self.catalog.store.url}.')
        self._item, self._is_told = found, False
        return self

    def tag(self, **tags: str | None) -> Self:
        """Give it tags; None takes one away."""
        return self._tell(Verb.TAG, checked_tags(tags))

    def note(self, text: str) -> Self:
        """Say something of it, in Markdown; what was said before stays."""
        return self._tell(Verb.NOTE, {"text": str(text)})

    def describe(self, description: str) -> Self:
        """Say what it is."""
        return self._tell(Verb.SET, {"description": str(description)})

    def star(self, starred: bool = True) -> Self:
        """Mark it, or take the mark away."""
        return self._tell(Verb.SET, {"starred": bool(starred)})

    def archive(self, archived: bool = True) -> Self:
        """Take it out of lists and searches, or put it back."""
        return self._tell(Verb.SET, {"archived": bool(archived)})

    def relate(self, relation: Relation | str, other: Handle) -> Self:
        """Say that it came of another: "derived_from", "contributed_to", "associated_with", "produced", "same_as".

        Raises:
            UnknownName: There is no such relation.
        """
        return self._tell(Verb.RELATE, {"relation": str(relation_from(relation)), "target": other.uid})

    def lineage(
        self, direction: str = "both", *, depth: int | None = None, kinds: Iterable[ItemKind | str] = (),
        since_unix: float | None = None,
    ) -> Lineage:
        """Return what it came of ("up"), what came of it ("down"), or both; arguments and errors as of `lineage_of`."""
        return Lineage(self.catalog, lineage_of(self.catalog, self.uid, direction, depth=depth, kinds=kinds,
                                                since_unix=since_unix))

    def delete(self, *, cascade: bool = False) -> None:
        """Have it forgotten, after days in which `restore` brings it back.

        Raises:
            StillNeeded: Others came of it, and `cascade` was not asked for.
        """
        self.catalog.delete(self.item, cascade=cascade)

    def restore(self) -> Self:
        """Bring it back, with what was deleted together with it."""
        self.catalog.restore(self.uid)
        return self.refresh()

    def _tell(self, verb: Verb, data: Mapping[str, Any]) -> Self:
        self.catalog.tell([Entry(self.uid, verb, data)])
        self._is_told = True
        return self


Found = TypeVar("Found", bound=Handle)


class Listing(list[Found]):
    """Things of a catalog in the order in which they were found; a notebook shows them as a table."""
