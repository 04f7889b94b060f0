"""The lineage of an item as a graph to draw: nodes in columns, from its sources to its results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select

from barograph.experiments.catalog import Catalog
from barograph.experiments.lineage import Edge, ends_of, lineage_of
from barograph.experiments.schema import ITEMS
from barograph.experiments.writing import in_parts
from barograph.model.items import ItemKind, Relation
from barograph.model.plain import plain

MOST_NODES = 200
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Node:
    """An item of a lineage.

    Attributes:
        uid: ID.
        kind: Kind; "" if unknown.
        name: Name; the ID if unknown.
        state: State of a run; "" of others.
        place: Path or URL of a run; "" of others.
        column: 0 for the item itself, negative for its sources, positive for its results.
    """

    uid: str
    kind: str
    name: str
    state: str
    place: str
    column: int


@dataclass(frozen=True, slots=True)
class LineageGraph:
    """A lineage.

    Attributes:
        nodes: The item first, then the nearest.
        edges: Pairs of IDs and the relation: `target` was before `source`.
        left_out: Number of further items.
        reruns: IDs of runs that repeat the item, or that it repeats.
    """

    nodes: Sequence[Node]
    edges: Sequence[Edge]
    left_out: int
    reruns: Sequence[str]

    def to_json(self) -> dict[str, Any]:
        """Return it as strict JSON data."""
        return {"nodes": plain(self.nodes), "edges": [edge._asdict() for edge in self.edges],
                "left_out": self.left_out, "reruns": list(self.reruns)}


def lineage_graph(catalog: Catalog, uid: str) -> LineageGraph:
    """Return the lineage of an item, nearest items first.

    Args:
        catalog: Catalog with the item.
        uid: ID of the item.
    """
    columns = {uid: 0}
    edges: list[Edge] = []
    for direction, sign in (("up", -1), ("down", 1)):
        found = lineage_of(catalog, uid, direction)
        for edge in found:
            far = edge.target if sign < 0 else edge.source
            columns.setdefault(far, sign * edge.depth)
        edges += found
    near = sorted(columns, key=lambda one: abs(columns[one]))[:MOST_NODES]
    facts = _facts(catalog, near)
    shown = set(near)
    return LineageGraph(
        nodes=[Node(one, *facts.get(one, ("", one, "", "")), columns[one]) for one in near],
        edges=list({edge[:3]: edge for edge in edges if {edge.source, edge.target} <= shown}.values()),
        left_out=len(columns) - len(near),
        reruns=sorted({end for edge in edges for end in (edge.source, edge.target)
                       if edge.relation == Relation.DERIVED_FROM and uid in (edge.source, edge.target) and end != uid
                       and facts.get(end, ("",))[0] == ItemKind.RUN}))


def _facts(catalog: Catalog, uids: Sequence[str]) -> Mapping[str, tuple[str, str, str, str]]:
    with catalog.reading() as connection:
        found = {uid: (end.kind, end.name, "", "") for uid, end in ends_of(connection, set(uids)).items()}
        for some in in_parts(uids, _AT_ONCE):
            rows = connection.execute(select(ITEMS.c.uid, ITEMS.c.kind, ITEMS.c.name, ITEMS.c.state, ITEMS.c.place)
                                      .where(ITEMS.c.uid.in_(some), ITEMS.c.kind == ItemKind.RUN))
            found |= {uid: (kind, name, state, place) for uid, kind, name, state, place in rows}
    return found
