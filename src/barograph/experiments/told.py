"""What the tables know that was told of items: word by word, and not what it comes to."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator

from sqlalchemy import Connection, or_, select

from barograph.experiments.schema import ENTRIES, ITEMS, OF_ROOT, RELATIONS
from barograph.experiments.writing import in_parts
from barograph.model.items import Entry, ItemKind, Verb

_AT_ONCE = 500


def told_of(connection: Connection, uids: Collection[str], *, in_journal_of_root: bool = False) -> list[Entry]:
    """Return what was told of items, in the order in which it counts.

    Args:
        connection: To the tables.
        uids: Of the items.
        in_journal_of_root: Leave out what runs say of themselves.
    """
    found = [row for some in in_parts(uids, _AT_ONCE) for row in _rows(connection, some, in_journal_of_root)]
    return [entry for *_, entry in sorted(found, key=lambda row: row[:3])]


def _rows(connection: Connection, uids: list[str], of_root: bool) -> Iterator[tuple[float, str, int, Entry]]:
    statement = select(ENTRIES).where(ENTRIES.c.uid.in_(uids))
    if of_root:
        statement = statement.where(ENTRIES.c.place == OF_ROOT)
    for row in connection.execute(statement).mappings():
        yield row["time_unix"], row["batch"], row["position"], Entry(
            row["uid"], Verb(row["verb"]), json.loads(row["data"]), row["time_unix"], row["by"])


def related_to(connection: Connection, uids: Collection[str], kinds: Collection[ItemKind]) -> set[str]:
    """Return the items of these kinds that a relation joins to one of some items."""
    found: set[str] = set()
    for some in in_parts(uids, _AT_ONCE):
        rows = connection.execute(select(RELATIONS.c.source, RELATIONS.c.target).where(
            or_(RELATIONS.c.source.in_(some), RELATIONS.c.target.in_(some))))
        ends = {end for row in rows for end in row}
        for named in in_parts(sorted(ends), _AT_ONCE):
            found |= set(connection.execute(select(ITEMS.c.uid).where(
                ITEMS.c.uid.in_(named), ITEMS.c.kind.in_([str(kind) for kind in kinds]),
                ITEMS.c.deleted_unix.is_(None))).scalars())
    return found - set(uids)
