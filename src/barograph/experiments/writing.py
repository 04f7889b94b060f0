"""Writes items into the tables of a catalog."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

from sqlalchemy import Connection, Table, bindparam, delete, insert, select, update

from barograph.experiments.folding import ItemState
from barograph.experiments.packing import packed_metrics, packed_numbers, packed_texts
from barograph.experiments.schema import (
    FINDINGS,
    ITEMS,
    LINKS,
    MEMBERS,
    METRIC_SHEETS,
    METRICS,
    NAMES,
    NOTES,
    OF_ITEMS,
    PARAMETERS,
    RELATIONS,
    SHEETS,
    TAGS,
)
from barograph.model.finding import Finding
from barograph.model.items import ItemKind, uid_of

_T = TypeVar("_T")

NUMBER, WHOLE, TEXT, BOOLEAN, LIST, NOTHING = range(6)
"""Types of parameters in the column `type`."""

_DOUBLES = (NUMBER, WHOLE, BOOLEAN)

_TEXTS = (
    "description", "hypothesis", "state", "message", "place", "job", "command", "repository", "branch", "commit",
    "host", "by", "uri", "media_type", "digest",
)
_MOST_NAME_BYTES = 2000
"""Maximum size of a name; PostgreSQL allows 2,700 bytes in an index."""
_AT_ONCE = 500
"""Values per statement; SQLite and PostgreSQL allow more, but are not faster."""


class ItemWriter:
    """Writes items within one transaction.

    Args:
        connection: Connection in a transaction.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._names: dict[str, int] = {}

    def write(
        self, states: Sequence[ItemState], *, findings: Mapping[str, Sequence[Finding]] | None = None,
        kept: Collection[Table] = (),
    ) -> None:
        """Replace items in the catalog.

        Args:
            states: The items.
            findings: Findings of runs, by run ID.
            kept: Tables of `RECORDED` to leave unchanged.
        """
        if not states:
            return
        known = self._ids([state.uid for state in states])
        tables = [table for table in OF_ITEMS if table not in kept]
        self._clear(tables, list(known.values()), [state.uid for state in states if state.uid in known])
        new = [_item_row(state) for state in states if state.uid not in known]
        old = [{"b_id": known[state.uid], **_item_row(state)} for state in states if state.uid in known]
        self._insert(ITEMS, new)
        if old:
            values: dict[str, Any] = {name: bindparam(name) for name in old[0] if name != "b_id"}
            self._connection.execute(update(ITEMS).where(ITEMS.c.id == bindparam("b_id")).values(values), old)
        ids = known | self._ids([row["uid"] for row in new])
        self._write_rows(states, ids, findings or {}, with_metrics=METRICS not in kept)

    def _write_rows(
        self, states: Sequence[ItemState], ids: Mapping[str, int], findings: Mapping[str, Sequence[Finding]], *,
        with_metrics: bool,
    ) -> None:
        self._learn_names(name for state in states for part in (state.parameters, state.metrics, state.tags)
                          for name in part)
        of = [(ids[state.uid], state) for state in states]
        self._insert(PARAMETERS, [
            {"item_id": item, "name_id": name, **parameter_columns(value)}
            for item, state in of for name, value in self._numbered(state.parameters).items()
        ])
        self._insert(METRICS, [
            {"item_id": item, "name_id": name, "last": _number(it.last), "min": _number(it.min),
             "max": _number(it.max), "mean": _number(it.mean), "std": _number(it.std), "count": it.count,
             "first_step": it.first_step, "last_step": it.last_step}
            for item, state in of for name, it in self._numbered(state.metrics if with_metrics else {}).items()
        ])
        if with_metrics:
            self._insert(METRIC_SHEETS, [
                {"item_id": item, "data": packed_metrics(item, self._numbered(state.metrics).items())}
                for item, state in of if state.metrics
            ])
        self._insert(SHEETS, [self._sheet(item, state) for item, state in of if state.parameters or state.tags])
        self._insert(TAGS, [
            {"item_id": item, "name_id": name, "text": storable(text)}
            for item, state in of for name, text in self._numbered(state.tags).items()
        ])
        self._insert(NOTES, [
            {"item_id": item, "position": position, "time_unix": note.time_unix, "by": note.by,
             "text": storable(note.text)}
            for item, state in of for position, note in enumerate(state.notes)
        ])
        self._insert(LINKS, [
            {"item_id": item, "role": role, "name": storable_name(link.name), "uri": storable(link.uri),
             "artifact": artifact_uid(link.digest, link.uri), "media_type": storable(link.media_type),
             "digest": storable(link.digest), "size_bytes": link.size_bytes}
            for item, state in of for role, links in (("input", state.inputs), ("output", state.outputs))
            for link in links.values()
        ])
        self._insert(MEMBERS, [
            {"component": state.uid, "trial": trial} for state in states for trial in state.trials
        ])
        self._insert(RELATIONS, [
            {"source": state.uid, "relation": relation, "target": target, "time_unix": time_unix}
            for state in states for (relation, target), time_unix in state.relations.items()
        ])
        self._insert(FINDINGS, [
            {"item_id": ids[uid], "finding": finding.id, "code": finding.code, "rule": finding.rule,
             "severity": str(finding.severity), "state": str(finding.state), "step": finding.since_step}
            for uid, found in findings.items() if uid in ids
            for finding in {finding.id: finding for finding in found}.values()
        ])

    def _sheet(self, item: int, state: ItemState) -> dict[str, Any]:
        columns = {name: parameter_columns(value) for name, value in self._numbered(state.parameters).items()}
        numbers = {name: it for name, it in columns.items() if it["type"] in _DOUBLES and it["text"] is None}
        others = {name: parameter_value(it["type"], it["number"], it["text"])
                  for name, it in columns.items() if name not in numbers}
        tags = {name: storable(text) for name, text in self._numbered(state.tags).items()}
        nan = float("nan")
        return {"item_id": item, "texts": packed_texts(others, tags), "numbers": packed_numbers(item, (
            (name, it["type"], nan if it["number"] is None else it["number"]) for name, it in numbers.items()))}

    def _clear(self, tables: Sequence[Table], ids: Sequence[int], uids: Sequence[str]) -> None:
        for some in in_parts(ids, _AT_ONCE):
            for table in tables:
                self._connection.execute(delete(table).where(table.c.item_id.in_(some)))
        for named in in_parts(uids, _AT_ONCE):
            self._connection.execute(delete(MEMBERS).where(MEMBERS.c.component.in_(named)))
            self._connection.execute(delete(RELATIONS).where(RELATIONS.c.source.in_(named)))

    def _ids(self, uids: Sequence[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for some in in_parts(uids, _AT_ONCE):
            rows = self._connection.execute(select(ITEMS.c.uid, ITEMS.c.id).where(ITEMS.c.uid.in_(some)))
            found.update({str(uid): int(number) for uid, number in rows})
        return found

    def _numbered(self, named: Mapping[str, _T]) -> dict[int, _T]:
        """Return a mapping by name with numbers of names instead; of names stored alike, the last wins."""
        return {self._names[name]: value for name, value in named.items()}

    def _learn_names(self, names: Iterable[str]) -> None:
        kept = {name: storable_name(name) for name in names if name not in self._names}
        texts = list(dict.fromkeys(kept.values()))
        known = self._look_up(texts)
        new = [text for text in texts if text not in known]
        self._insert(NAMES, [{"text": text} for text in new])
        known |= self._look_up(new)
        self._names |= {name: known[text] for name, text in kept.items()}

    def _look_up(self, names: Sequence[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for some in in_parts(names, _AT_ONCE):
            rows = self._connection.execute(select(NAMES.c.text, NAMES.c.id).where(NAMES.c.text.in_(some)))
            found.update({str(text): int(number) for text, number in rows})
        return found

    def _insert(self, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
        if rows:
            insert_rows(self._connection, table, rows)


def insert_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows that all have the same columns."""
    if connection.dialect.name != "sqlite":
        connection.execute(insert(table), list(rows))
        return
    # Directly through the driver: SQLAlchemy takes as long per row as SQLite itself.
    names = list(rows[0])
    preparer = connection.dialect.identifier_preparer
    columns = ", ".join(preparer.quote(name) for name in names)
    connection.exec_driver_sql(
        f"INSERT INTO {preparer.format_table(table)} ({columns}) VALUES ({', '.join('?' * len(names))})",
        [tuple(row[name] for name in names) for row in rows],
    )


def parameter_columns(value: object) -> dict[str, Any]:
    """Return the columns `type`, `number` and `text` for the value of a parameter."""
    if isinstance(value, bool):
        return {"type": BOOLEAN, "number": float(value), "text": None}
    if isinstance(value, int):
        # A text column keeps integers exact that a double cannot represent.
        return {"type": WHOLE, "number": _double(value), "text": str(value) if abs(value) > 2**53 else None}
    if isinstance(value, float):
        return {"type": NUMBER, "number": _number(value), "text": None}
    if value is None:
        return {"type": NOTHING, "number": None, "text": None}
    if isinstance(value, str):
        return {"type": TEXT, "number": None, "text": storable(value)}
    return {"type": LIST, "number": None, "text": json.dumps(value, ensure_ascii=False)}


def parameter_value(type_: int, number: float | None, text: str | None) -> Any:
    """Return the value of a parameter from its columns."""
    if type_ == BOOLEAN:
        return bool(number)
    if type_ == WHOLE:
        return int(text) if text is not None else int(number or 0)
    if type_ == NUMBER:
        return math.nan if number is None else number
    if type_ == LIST:
        return json.loads(text or "[]")
    return text


def artifact_uid(digest: str, uri: str) -> str:
    """Return the ID of an artifact: from its digest if known, else from its URI."""
    return uid_of(ItemKind.ARTIFACT, digest or uri)


def _double(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _number(value: float | None) -> float | None:
    return None if value is None or value != value else value


def _item_row(state: ItemState) -> dict[str, Any]:
    said = state.fields
    return {
        "uid": state.uid, "kind": state.kind, "name": storable(state.name), "parent": state.parent,
        **{name: _text(said.get(name)) for name in _TEXTS},
        "variables": json.dumps(said.get("variables") or {}, ensure_ascii=False),
        "created_unix": state.created_unix, **_times(state), "changed_unix": state.changed_unix,
        "steps": said.get("steps"), "dirty": said.get("dirty"), "size_bytes": said.get("size_bytes"),
        "starred": bool(said.get("starred")), "archived": bool(said.get("archived")),
        "deleted_unix": state.deleted_unix,
    }


def _times(state: ItemState) -> dict[str, float | None]:
    started, ended = (_number(state.fields.get(name)) for name in ("started_unix", "ended_unix"))
    # With clocks of two machines, something may end before it begins.
    return {"started_unix": started, "ended_unix": ended if started is None or ended is None else max(started, ended)}


def _text(value: object) -> str:
    return "" if value is None else storable(str(value))


def storable(text: str) -> str:
    """Return a text that every database accepts: without null characters and lone surrogates."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode("utf-8")


def storable_name(text: str) -> str:
    """Return a name that every database accepts in an index; a long one is cut and gets a digest."""
    text = storable(text)
    data = text.encode()
    if len(data) <= _MOST_NAME_BYTES:
        return text
    return f"{data[:_MOST_NAME_BYTES - 40].decode('utf-8', 'ignore')}…{hashlib.sha256(data).hexdigest()[:32]}"


def in_parts(values: Iterable[_T], most: int) -> Iterator[list[_T]]:
    """Yield values in lists of at most `most`."""
    rest = iter(values)
    while some := list(islice(rest, most)):
        yield some
