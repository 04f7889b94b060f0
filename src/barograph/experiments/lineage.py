"""Lineage of items, along relations, artifacts and trials."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, func, literal, or_, select, union_all

from barograph.errors import SettingsError
from barograph.experiments.catalog import Catalog
from barograph.experiments.schema import ITEMS, LINKS, MEMBERS, RELATIONS
from barograph.experiments.writing import in_parts, storable, storable_name
from barograph.model.items import ItemKind

_AT_ONCE = 500
_SOURCE, _TARGET = 0, 2


class Edge(NamedTuple):
    """One step of a lineage: `source` derives from `target`, or belongs to it.

    Attributes:
        source: ID of the later item.
        relation: One of `Relation`, "read" or "made_by" for artifacts, "part_of" for components and trials.
        target: ID of the earlier item.
        depth: Number of steps from the requested item, from 1.
    """

    source: str
    relation: str
    target: str
    depth: int


class Lineage(list[Edge]):
    """Steps of a lineage, nearest first; a notebook shows them with names.

    Args:
        catalog: Catalog with the items.
        edges: The steps.
    """

    def __init__(self, catalog: Catalog, edges: Iterable[Edge]) -> None:
        super().__init__(edges)
        self._catalog = catalog

    def names(self) -> dict[str, str]:
        """Return the names of all items by ID."""
        with self._catalog.reading() as connection:
            known = ends_of(connection, {end for edge in self for end in (edge.source, edge.target)})
        return {uid: f"{end.kind} {end.name}" for uid, end in known.items()}

    def to_json(self) -> list[dict[str, Any]]:
        """Return the steps with the names of both ends, as strict JSON data."""
        names = self.names()
        return [{**edge._asdict(), "source_name": names.get(edge.source), "target_name": names.get(edge.target)}
                for edge in self]


def lineage_of(
    catalog: Catalog, uid: str, direction: str = "both", *, depth: int | None = None,
    kinds: Iterable[ItemKind | str] = (), since_unix: float | None = None,
) -> Sequence[Edge]:
    """Return the ancestors and descendants of an item.

    Args:
        catalog: Catalog with the item.
        uid: ID of the item.
        direction: "up" for ancestors, "down" for descendants, or "both".
        depth: Maximum number of steps; None: no limit.
        kinds: Return only steps to items of these kinds; none given: all. Other kinds are still followed.
        since_unix: Return only steps to items created at this time or later.

    Raises:
        SettingsError: The direction is unknown.
    """
    if direction not in ("up", "down", "both"):
        raise SettingsError(f'"{direction}" is not a direction; use "up", "down" or "both".')
    with catalog.reading() as connection:
        up = _walked(uid, depth, _SOURCE, _TARGET, connection) if direction != "down" else []
        down = _walked(uid, depth, _TARGET, _SOURCE, connection) if direction != "up" else []
        found = [*((edge, edge.target) for edge in up), *((edge, edge.source) for edge in down)]
        wanted = {str(kind) for kind in kinds}
        if not wanted and since_unix is None:
            return [edge for edge, _ in found]
        ends = ends_of(connection, {end for _, end in found})
        return [edge for edge, end in found if _passes(ends.get(end), wanted, since_unix)]


def artifacts_called(catalog: Catalog, name: str) -> list[str]:
    """Return the IDs of artifacts that were read or made under a name, or that have it as ID; sorted."""
    with catalog.reading() as connection:
        found = connection.execute(select(LINKS.c.artifact).distinct().where(
            or_(LINKS.c.name == storable_name(name), LINKS.c.artifact == storable(name))))
        return sorted(found.scalars())


class End(NamedTuple):
    """Item at an end of an edge.

    Attributes:
        kind: Its kind.
        name: Its name.
        created_unix: When it was created; of an artifact that was only read or made, the time of its first use.
    """

    kind: str
    name: str
    created_unix: float


def _passes(end: End | None, kinds: set[str], since_unix: float | None) -> bool:
    if end is None:
        return False
    return (since_unix is None or end.created_unix >= since_unix) and (not kinds or end.kind in kinds)


def ends_of(connection: Connection, uids: set[str]) -> dict[str, End]:
    """Return kind and name of items and of artifacts, by ID; without those that are unknown."""
    found: dict[str, End] = {}
    for some in in_parts(sorted(uids), _AT_ONCE):
        linked = select(LINKS.c.artifact, func.min(LINKS.c.name), func.min(ITEMS.c.created_unix)).select_from(
            LINKS.join(ITEMS, LINKS.c.item_id == ITEMS.c.id)).where(LINKS.c.artifact.in_(some))
        found |= {uid: End(ItemKind.ARTIFACT, name, created)
                  for uid, name, created in connection.execute(linked.group_by(LINKS.c.artifact))}
        items = select(ITEMS.c.uid, ITEMS.c.kind, ITEMS.c.name, ITEMS.c.created_unix).where(ITEMS.c.uid.in_(some))
        found |= {uid: End(kind, name, created) for uid, kind, name, created in connection.execute(items)}
    return found


def _walked(uid: str, depth: int | None, near_end: int, far_end: int, connection: Connection) -> list[Edge]:
    """Return the edges reachable from an item, each once, nearest first; cycles are followed once."""
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
