"""Validation of journal entries, so that one invalid entry does not block the others.

Tables reject values beyond their columns, so an invalid entry would block indexing forever.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from barograph.errors import SettingsError
from barograph.experiments.folding import ItemState, folded
from barograph.model.items import Entry, ItemKind, Relation, Verb

SENSELESS = (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError)
"""Errors that `check_entry` raises."""

_MOST_ID_CHARS = 200
_MOST_WHOLE = 2**63 - 1
_TIMES = ("started_unix", "ended_unix")
_WHOLES = ("steps", "size_bytes")
_TRUTHS = ("dirty", "starred", "archived")


def check_entry(entry: Entry) -> None:
    """Check that an entry can be indexed.

    Raises:
        ValueError, TypeError, KeyError, AttributeError, OverflowError: It is invalid; the text says why.
    """
    _check_id(entry.uid)
    if not math.isfinite(entry.time_unix):
        raise ValueError(f"its time is {entry.time_unix!r}")
    state = folded(entry.uid, [entry])
    if entry.verb is Verb.CREATE:
        ItemKind(state.kind)
        if not isinstance(state.name, str) or not isinstance(state.parent, str):
            raise TypeError("its name is not a string")
    _check_fields(state)
    _check_links(state)
    _check_numbers(state)


def refuse_senseless(entries: Iterable[Entry]) -> None:
    """Reject entries that no table can store before they are written: in a journal they would fail for every reader.

    Raises:
        SettingsError: An entry is invalid; the message says why.
    """
    for entry in entries:
        try:
            check_entry(entry)
        except SENSELESS as error:
            raise SettingsError(f'The entry {entry.verb} for "{entry.uid}" is invalid: {error}.') from error


def _check_fields(state: ItemState) -> None:
    said = state.fields
    for name in _TIMES:
        if said.get(name) is not None:
            float(said[name])
    for name in _WHOLES:
        if said.get(name) is not None:
            _check_whole(name, said[name])
    for name in _TRUTHS:
        if not isinstance(said.get(name, False), bool | None):
            raise TypeError(f"{name} is {said[name]!r}")
    if not isinstance(said.get("variables") or {}, Mapping):
        raise TypeError("its variables are not a dictionary")


def _check_links(state: ItemState) -> None:
    for link in (*state.inputs.values(), *state.outputs.values()):
        if not all(isinstance(text, str) for text in (link.name, link.uri, link.media_type, link.digest)):
            raise TypeError(f"the description of artifact {link.name!r} is not a string")
        _check_whole("size_bytes", link.size_bytes)
    for trial in state.trials:
        _check_id(trial)
    for relation, target in state.relations:
        Relation(relation)
        _check_id(target)


def _check_numbers(state: ItemState) -> None:
    for name, it in state.metrics.items():
        for whole in (it.count, it.first_step, it.last_step):
            _check_whole(name, whole)
        for number in (it.last, it.min, it.max, it.mean, it.std):
            if not isinstance(number, int | float):
                raise TypeError(f"metric {name} is {number!r}")
            float(number)


def _check_id(uid: Any) -> None:
    if not isinstance(uid, str) or not 0 < len(uid) <= _MOST_ID_CHARS or not uid.isprintable():
        raise ValueError(f"{str(uid)[:40]!r} is not an ID")


def _check_whole(name: str, number: Any) -> None:
    if isinstance(number, bool) or not isinstance(number, int) or abs(number) > _MOST_WHOLE:
        raise ValueError(f"{name} is {number!r}")
