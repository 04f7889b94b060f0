"""Folds the entries of an item, in order, into its state. A pure function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from barograph.model.items import ArtifactLink, Entry, MetricSummary, Verb

FIELDS = (
    "description", "hypothesis", "variables", "state", "message", "started_unix", "ended_unix", "steps", "place", "job",
    "command", "repository", "branch", "commit", "dirty", "host", "by", "uri", "media_type", "digest", "size_bytes",
    "starred", "archived",
)
"""Fields that a `SET` entry may set."""


@dataclass(frozen=True, slots=True)
class Note:
    """A note on an item, in Markdown.

    Attributes:
        time_unix: Time of the note.
        by: Author.
        text: Markdown.
    """

    time_unix: float
    by: str
    text: str


@dataclass(slots=True)
class ItemState:
    """State of an item after the entries read so far.

    Attributes:
        uid: ID.
        kind, name, parent: As created; "" until its `CREATE` entry is read.
        created_unix: Time of the first entry that created it or referred to it.
        changed_unix: Time of the last entry.
        fields: Those of `FIELDS` that were set.
        parameters, tags, metrics: By name.
        notes: In the order they were written.
        inputs, outputs: By their names in the item.
        trials: Trials it belongs to, in the order in which it joined.
        relations: (relation, target) to the time of the entry.
        deleted_unix: Time of deletion; None: not deleted, or restored.
    """

    uid: str
    kind: str = ""
    name: str = ""
    parent: str = ""
    created_unix: float = 0.0
    changed_unix: float = 0.0
    fields: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, Any] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    metrics: dict[str, MetricSummary] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    inputs: dict[str, ArtifactLink] = field(default_factory=dict)
    outputs: dict[str, ArtifactLink] = field(default_factory=dict)
    trials: dict[str, None] = field(default_factory=dict)
    relations: dict[tuple[str, str], float] = field(default_factory=dict)
    deleted_unix: float | None = None


def folded(uid: str, entries: Iterable[Entry]) -> ItemState:
    """Return the state of an item after all its entries.

    Args:
        uid: ID of the item.
        entries: Entries of the item, in order. Unknown verbs and fields are ignored.

    Example:
        >>> state = folded("x", [Entry("x", Verb.CREATE, {"kind": "run", "name": "a"}, 1.0),
        ...                     Entry("x", Verb.TAG, {"team": "vision", "old": None}, 2.0)])
        >>> state.name, state.tags, state.created_unix, state.changed_unix
        ('a', {'team': 'vision'}, 1.0, 2.0)
    """
    state = ItemState(uid)
    for entry in entries:
        if not state.created_unix:
            state.created_unix = entry.time_unix
        state.changed_unix = max(state.changed_unix, entry.time_unix)
        _FOLDS[entry.verb](state, entry.data, entry)
    return state


def without_place(entry: Entry) -> Entry:
    """Return an entry without the place of a run.

    Otherwise a journal could make Barograph read and pack another directory under the run's name.

    Example:
        >>> without_place(Entry("first", Verb.SET, {"description": "good", "place": "/srv/ann"})).data
        {'description': 'good'}
        >>> without_place(Entry("first", Verb.CREATE, {"fields": {"place": "/srv/ann", "steps": 3}})).data
        {'fields': {'steps': 3}}
    """
    if entry.verb not in (Verb.SET, Verb.CREATE):
        return entry
    fields = entry.data.get("fields")
    data = {name: value for name, value in entry.data.items() if name != "place"}
    if isinstance(fields, Mapping):
        data["fields"] = {name: value for name, value in fields.items() if name != "place"}
    return replace(entry, data=data)


def _create(state: ItemState, data: Mapping[str, Any], entry: Entry) -> None:
    if not state.kind:
        # If it was created twice, the first entry wins; the second adds what the first lacks.
        state.kind, state.name, state.parent = data["kind"], data["name"], data.get("parent", "")
        if entry.by:
            state.fields.setdefault("by", entry.by)
    _set(state, data.get("fields", {}), entry)
    if state.deleted_unix is not None:
        state.deleted_unix = None


def _set(state: ItemState, data: Mapping[str, Any], _: Entry) -> None:
    state.fields.update({name: value for name, value in data.items() if name in FIELDS})
    if isinstance(data.get("name"), str) and state.kind in ("component", "run"):
        state.name = data["name"]


def _parameters(state: ItemState, data: Mapping[str, Any], _: Entry) -> None:
    state.parameters.update(data)


def _tag(state: ItemState, data: Mapping[str, Any], _: Entry) -> None:
    for name, value in data.items():
        if value is None:
            state.tags.pop(name, None)
        else:
            state.tags[name] = str(value)


def _note(state: ItemState, data: Mapping[str, Any], entry: Entry) -> None:
    state.notes.append(Note(entry.time_unix, entry.by, str(data["text"])))


def _metrics(state: ItemState, data: Mapping[str, Any], _: Entry) -> None:
    state.metrics.update({name: MetricSummary(**summary) for name, summary in data.items()})


def _input(state: ItemState, data: Mapping[str, Any], _: Entry) -> None:
    link = ArtifactLink(**data)
    state.inputs[link.name] = link


def _output(state: ItemState, data: Mapping[str, Any], _: Entry) -> None:
    link = ArtifactLink(**data)
    state.outputs[link.name] = link


def _join(state: ItemState, data: Mapping[str, Any], _: Entry) -> None:
    state.trials[data["trial"]] = None


def _leave(state: ItemState, data: Mapping[str, Any], _: Entry) -> None:
    state.trials.pop(data["trial"], None)


def _relate(state: ItemState, data: Mapping[str, Any], entry: Entry) -> None:
    state.relations.setdefault((data["relation"], data["target"]), entry.time_unix)


def _unrelate(state: ItemState, data: Mapping[str, Any], _: Entry) -> None:
    state.relations.pop((data["relation"], data["target"]), None)


def _delete(state: ItemState, _: Mapping[str, Any], entry: Entry) -> None:
    state.deleted_unix = entry.time_unix


def _restore(state: ItemState, _: Mapping[str, Any], __: Entry) -> None:
    state.deleted_unix = None


_FOLDS: dict[Verb, Callable[[ItemState, Mapping[str, Any], Entry], None]] = {
    Verb.CREATE: _create, Verb.SET: _set, Verb.PARAMETERS: _parameters, Verb.TAG: _tag, Verb.NOTE: _note,
    Verb.METRICS: _metrics, Verb.INPUT: _input, Verb.OUTPUT: _output, Verb.JOIN: _join, Verb.LEAVE: _leave,
    Verb.RELATE: _relate, Verb.UNRELATE: _unrelate, Verb.DELETE: _delete, Verb.RESTORE: _restore,
}
