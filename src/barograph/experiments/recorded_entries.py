"""Entries of items as stored in the tables."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator
from typing import Any

from sqlalchemy import Connection, or_, select

from barograph.experiments.folding import without_place
from barograph.experiments.schema import ENTRIES, ITEMS, OF_ROOT, RELATIONS
from barograph.experiments.writing import in_parts, insert_rows, storable
from barograph.model.items import Entry, ItemKind, Verb

METADATA = ""
"""Name of the batch made from the metadata files of a run; sorts before all others."""

_AT_ONCE = 500


def recorded_entries(connection: Connection, uids: Collection[str], *, in_journal_of_root: bool = False) -> list[Entry]:
    """Return the entries of items, in the order in which they apply.

    Args:
        connection: Connection to the tables.
        uids: IDs of the items.
        in_journal_of_root: Return only entries in the root's journal.
    """
    found = [row for some in in_parts(uids, _AT_ONCE) for row in _rows(connection, some, in_journal_of_root)]
    return [entry for *_, entry in sorted(found, key=lambda row: row[:3])]


def entries_by_item(connection: Connection, uids: Collection[str]) -> dict[str, list[Entry]]:
    """Return the recorded entries of each item, in order; for a run, only those in its own metadata files."""
    rows = sorted((row for some in in_parts(uids, _AT_ONCE) for row in _rows(connection, some, False)),
                  key=lambda row: row[:3])
    found: dict[str, list[Entry]] = {uid: [] for uid in uids}
    for _, batch, _, entry in rows:
        found[entry.uid].append(entry if batch == METADATA else without_place(entry))
    return found


def store_entries(connection: Connection, place: str, entries: Iterable[tuple[str, Entry]]) -> None:
    """Store entries in the tables.

    Args:
        connection: Connection in a transaction.
        place: Place of their journal, as in the column.
        entries: Pairs of batch and entry, in order.
    """
    rows: list[dict[str, Any]] = [
        {"uid": entry.uid, "place": place, "batch": batch, "position": position, "verb": str(entry.verb),
         "data": storable(json.dumps(entry.data, ensure_ascii=False)), "time_unix": entry.time_unix,
         "by": storable(entry.by)}
        for position, (batch, entry) in enumerate(entries)
    ]
    if rows:
        insert_rows(connection, ENTRIES, rows)


def _rows(connection: Connection, uids: list[str], of_root: bool) -> Iterator[tuple[float, str, int, Entry]]:
    columns = (ENTRIES.c.uid, ENTRIES.c.verb, ENTRIES.c.data, ENTRIES.c.time_unix, ENTRIES.c.by, ENTRIES.c.batch,
               ENTRIES.c.position)
    statement = select(*columns).where(ENTRIES.c.uid.in_(uids))
    if of_root:
        statement = statement.where(ENTRIES.c.place == OF_ROOT)
    for uid, verb, data, time_unix, by, batch, position in connection.execute(statement):
        yield time_unix, batch, position, Entry(uid, Verb(verb), json.loads(data), time_unix, by)


def related_to(connection: Connection, uids: Collection[str], kinds: Collection[ItemKind]) -> set[str]:
    """Return the items of these kinds that are related to one of the given items."""
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
