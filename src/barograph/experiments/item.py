"""Items of the catalog, loaded in a constant number of queries."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, Table, select

from barograph.experiments.folding import Note
from barograph.experiments.schema import (
    FINDINGS,
    ITEMS,
    LINKS,
    MEMBERS,
    NOTES,
    RELATIONS,
)
from barograph.experiments.sheets import named_of
from barograph.experiments.writing import in_parts
from barograph.model.items import ArtifactLink, ItemKind, MetricSummary

_AT_ONCE = 5000


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial that a component belongs to.

    Attributes:
        uid: ID of the trial.
        name: Name of the trial.
        experiment: Name of its experiment.
    """

    uid: str
    name: str
    experiment: str


@dataclass(frozen=True, slots=True)
class Found:
    """Summary of a finding; the run has its details.

    Attributes:
        code, rule: Code and name of the rule.
        severity, state: As in the run.
        step: First step of the finding.
    """

    code: str
    rule: str
    severity: str
    state: str
    step: int | None


@dataclass(frozen=True, slots=True)
class Item:
    """An experiment, a trial, a component, a run, an artifact, an action or a context.

    Attributes:
        uid: ID; for a run, its `run_id`.
        kind: Kind of the item.
        name: Name.
        facts: Values with a column of their own: `description`, `state`, `created_unix`, `place`, `commit` …
        parameters, metrics, tags: By name.
        notes: In the order they were written.
        inputs, outputs: Artifacts.
        trials: Trials that it belongs to.
        findings: Findings of a run.
        relations: Pairs of relation and ID of the other item.
    """

    uid: str
    kind: ItemKind
    name: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, MetricSummary] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[Note] = ()
    inputs: Sequence[ArtifactLink] = ()
    outputs: Sequence[ArtifactLink] = ()
    trials: Sequence[Trial] = ()
    findings: Sequence[Found] = ()
    relations: Sequence[tuple[str, str]] = ()


def items_by_id(
    connection: Connection, ids: Sequence[int], *, metrics: Collection[str] | None = None
) -> list[Item]:
    """Return the items with these row numbers, in that order.

    Args:
        connection: Connection to the catalog.
        ids: The row numbers.
        metrics: Names of the metrics to load, for speed; None: all.
    """
    found: dict[int, Item] = {}
    for some in in_parts(ids, _AT_ONCE):
        found.update(_some(connection, some, metrics))
    return [found[number] for number in ids if number in found]


def _some(connection: Connection, ids: Sequence[int], metrics: Collection[str] | None) -> dict[int, Item]:
    def rows(table: Table, *order: ColumnElement[Any]) -> Iterator[RowMapping]:
        return iter(connection.execute(select(table).where(table.c.item_id.in_(ids)).order_by(*order)).mappings())

    found = connection.execute(select(ITEMS).where(ITEMS.c.id.in_(ids)))
    columns = list(found.keys())
    # Not `mappings()`, which would take longer than the query for very many items.
    items: dict[int, dict[str, Any]] = {row.id: dict(zip(columns, row, strict=True)) for row in found}
    named = named_of(connection, ids, metrics=metrics)
    notes = _grouped(rows(NOTES, NOTES.c.position))
    links = _grouped(rows(LINKS, LINKS.c.name))
    findings = _grouped(rows(FINDINGS, FINDINGS.c.step))
    uids = [row["uid"] for row in items.values()]
    trials, relations = _trials(connection, uids), _relations(connection, uids)
    return {number: Item(
        uid=row["uid"], kind=ItemKind(row["kind"]), name=row["name"], facts=_facts(row),
        parameters=named[number].parameters, metrics=named[number].metrics, tags=named[number].tags,
        notes=[Note(it["time_unix"], it["by"], it["text"]) for it in notes.get(number, ())],
        inputs=[_link(it) for it in links.get(number, ()) if it["role"] == "input"],
        outputs=[_link(it) for it in links.get(number, ()) if it["role"] == "output"],
        trials=trials.get(row["uid"], ()), relations=relations.get(row["uid"], ()),
        findings=[Found(it["code"], it["rule"], it["severity"], it["state"], it["step"])
                  for it in findings.get(number, ())],
    ) for number, row in items.items()}


def _facts(row: Mapping[str, Any]) -> dict[str, Any]:
    facts = {name: value for name, value in row.items() if name not in ("id", "uid", "kind", "name")}
    return {**facts, "variables": json.loads(row["variables"])}


def _grouped(rows: Iterable[RowMapping]) -> dict[int, list[RowMapping]]:
    found: dict[int, list[RowMapping]] = {}
    for row in rows:
        found.setdefault(row["item_id"], []).append(row)
    return found


def _trials(connection: Connection, uids: Sequence[str]) -> dict[str, list[Trial]]:
    trials, experiments = ITEMS.alias(), ITEMS.alias()
    rows = connection.execute(
        select(MEMBERS.c.component, trials.c.uid, trials.c.name, experiments.c.name)
        .join(trials, trials.c.uid == MEMBERS.c.trial).join(experiments, experiments.c.uid == trials.c.parent)
        .where(MEMBERS.c.component.in_(uids)).order_by(trials.c.created_unix, trials.c.id)
    )
    found: dict[str, list[Trial]] = {}
    for component, uid, name, experiment in rows:
        found.setdefault(component, []).append(Trial(uid, name, experiment))
    return found


def _relations(connection: Connection, uids: Sequence[str]) -> dict[str, list[tuple[str, str]]]:
    found: dict[str, list[tuple[str, str]]] = {}
    statement = select(RELATIONS).where(RELATIONS.c.source.in_(uids)).order_by(RELATIONS.c.time_unix)
    for row in connection.execute(statement).mappings():
        found.setdefault(row["source"], []).append((row["relation"], row["target"]))
    return found


def _link(row: RowMapping) -> ArtifactLink:
    return ArtifactLink(row["name"], row["uri"], row["media_type"], row["digest"], row["size_bytes"])

