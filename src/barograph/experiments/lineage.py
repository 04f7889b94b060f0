"""What came of what: over relations that were told, over artifacts that were made and read, over trials."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, literal, select, union_all

from barograph.errors import SettingsError
from barograph.experiments.catalog import Catalog
from barograph.experiments.item import Item, items_by_id
from barograph.experiments.schema import ITEMS, LINKS, MEMBERS, RELATIONS
from barograph.experiments.writing import in_parts
from barograph.model.items import ItemKind

_AT_ONCE = 500
_SOURCE, _TARGET = 0, 2


class Edge(NamedTuple):
    """One step of a lineage: `source` came of `target`, or belongs to it.

    Attributes:
        source: Identity of what is later.
        relation: Of `Relation`; "read" and "made_by" of artifacts; "part_of" of components and trials.
        target: Identity of what was before.
        depth: Steps from what was asked for, from 1.
    """

    source: str
    relation: str
    target: str
    depth: int


class Lineage(list[Edge]):
    """The steps of a lineage, nearest first; a notebook shows them with names.

    Args:
        catalog: That knows their ends.
        edges: The steps.
    """

    def __init__(self, catalog: Catalog, edges: Iterable[Edge]) -> None:
        super().__init__(edges)
        self._catalog = catalog

    def names(self) -> dict[str, str]:
        """Return what each end is called, by identity."""
        with self._catalog.reading() as connection:
            known = _items(connection, {end for edge in self for end in (edge.source, edge.target)})
        return {uid: f"{item.kind} {item.name}" for uid, item in known.items()}

    def _repr_html_(self) -> str:
        from barograph.experiments import showing  # loaded for notebooks alone

        return showing.lineage_html(self)


def lineage_of(
    catalog: Catalog, uid: str, direction: str = "both", *, depth: int | None = None,
    kinds: Iterable[ItemKind | str] = (), since_unix: float | None = None,
) -> Sequence[Edge]:
    """Return what an item came of, and what came of it.

    Args:
        catalog: That knows it.
        uid: Of the item.
        direction: "up": what it came of. "down": what came of it. "both".
        depth: Most steps; None: as far as it goes.
        kinds: Only steps to items of these; none: of any. Beyond an item of another kind is looked all the same.
        since_unix: Only to items that were created then or later.

    Raises:
        SettingsError: There is no such direction.
    """
    if direction not in ("up", "down", "both"):
        raise SettingsError(f'"{direction}" is no direction; write "up", "down" or "both".')
    with catalog.reading() as connection:
        found: list[Edge] = []
        if direction != "down":
            found += _walked(uid, depth, _SOURCE, _TARGET, connection)
        if direction != "up":
            found += _walked(uid, depth, _TARGET, _SOURCE, connection)
        wanted = {str(kind) for kind in kinds}
        if not wanted and since_unix is None:
            return found
        items = _items(connection, {end for edge in found for end in (edge.source, edge.target)} - {uid})
        return [edge for edge in found if all(_passes(items.get(end), wanted, since_unix)
                                              for end in (edge.source, edge.target) if end != uid)]


def _passes(item: Item | None, kinds: set[str], since_unix: float | None) -> bool:
    if item is None:
        return False
    young = since_unix is None or item.facts["created_unix"] >= since_unix
    return young and (not kinds or item.kind in kinds)


def _items(connection: Connection, uids: set[str]) -> dict[str, Item]:
    found: dict[str, Item] = {}
    for some in in_parts(sorted(uids), _AT_ONCE):
        ids = connection.execute(select(ITEMS.c.id).where(ITEMS.c.uid.in_(some))).scalars().all()
        found.update({item.uid: item for item in items_by_id(connection, ids)})
    return found


def _walked(uid: str, depth: int | None, near_end: int, far_end: int, connection: Connection) -> list[Edge]:
    """Return the edges that a walk from end to end finds, each once, nearest first; a circle is walked once."""
    found: dict[tuple[str, str, str], Edge] = {}
    seen, edge_of = {uid}, [uid]
    steps = 0
    while edge_of and (depth is None or steps < depth):
        steps += 1
        met: list[str] = []
        for some in in_parts(edge_of, _AT_ONCE):
            for triple in _edges(connection, some, near_end):
                found.setdefault(triple, Edge(*triple, steps))
                if triple[far_end] not in seen:
                    seen.add(triple[far_end])
                    met.append(triple[far_end])
        edge_of = met
    return list(found.values())


def _edges(connection: Connection, uids: list[str], end: int) -> list[tuple[str, str, str]]:
    """Return (source, relation, target) of the edges with one of these items at that end: `_SOURCE` or `_TARGET`."""
    linked = LINKS.join(ITEMS, LINKS.c.item_id == ITEMS.c.id)
    edges: tuple[Select[Any], ...] = (
        select(RELATIONS.c.source, RELATIONS.c.relation, RELATIONS.c.target),
        select(ITEMS.c.uid, literal("read"), LINKS.c.artifact).select_from(linked).where(LINKS.c.role == "input"),
        select(LINKS.c.artifact, literal("made_by"), ITEMS.c.uid).select_from(linked).where(LINKS.c.role == "output"),
        select(MEMBERS.c.component, literal("part_of"), MEMBERS.c.trial),
    )
    asked = union_all(*(part.where(part.selected_columns[end].in_(uids)) for part in edges))
    return [(source, relation, target) for source, relation, target in connection.execute(asked)]
