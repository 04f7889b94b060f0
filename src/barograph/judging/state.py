"""The state of a watcher between polls and restarts, as one object in the store."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from barograph.errors import DamagedChunk, ObjectNotFound
from barograph.runs.format.layout import WATCH
from barograph.runs.format.metadata import sealed, unsealed
from barograph.store.base import Store

STATE = f"{WATCH}/state.json"

_VERSION = 3


def write_state(store: Store, state: Mapping[str, Any]) -> None:
    """Replace the state atomically.

    Raises:
        StoreError: The store rejected it.
    """
    # As one string: a rule's state may contain NaN, which strict JSON metadata would turn into null.
    store.put(STATE, sealed({"version": _VERSION, "state": json.dumps(state)}))


def read_state(store: Store) -> dict[str, Any] | None:
    """Return the state that `write_state` wrote; None if there is none that this version can read.

    A damaged or foreign state counts as none: the watcher then starts at the first step and finds the same again.

    Raises:
        StoreError: The store cannot be read.
    """
    try:
        body = unsealed(store.get(STATE), STATE)
    except (ObjectNotFound, DamagedChunk):
        return None
    if body.get("version") != _VERSION:
        return None
    try:
        state = json.loads(body["state"])
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
    return state if _is_a_state(state) else None


@contextmanager
def state_of(store: Store) -> Iterator[None]:
    """Convert errors of loading parts of a state to `DamagedChunk`.

    Raises:
        DamagedChunk: A part is invalid; the message names the file to delete.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise DamagedChunk(f"The state of the last watcher cannot be read: {type(error).__name__}: {error}. Delete "
                           f"it to evaluate the run again from its first step ({STATE} in {store.url}).") from error


_ENTRIES: Mapping[str, type | tuple[type, ...]] = {
    "cursor": (dict, type(None)), "judges": list, "progress": dict, "pulse": dict, "problems": list, "damage": list,
    "steps": int,
}


def _is_a_state(state: Any) -> bool:
    """Return whether a value has the structure of a state; a run is untrusted data."""
    return (isinstance(state, dict) and all(isinstance(state.get(name), kind) for name, kind in _ENTRIES.items())
            and _is_a_cursor(state["cursor"])
            and all(isinstance(judge, dict) and _is_a_rule(judge.get("rule")) for judge in state["judges"])
            and all(isinstance(text, str) for text in (*state["problems"], *state["damage"])))


def _is_a_cursor(cursor: Any) -> bool:
    if not cursor:
        return True
    workers = cursor.get("workers")
    return type(cursor.get("attempt")) is int and isinstance(workers, dict) and all(
        isinstance(place, list) and [type(number) for number in place] == [int, int] for place in workers.values())


def _is_a_rule(rule: Any) -> bool:
    return isinstance(rule, dict) and isinstance(rule.get("code"), str) and isinstance(rule.get("class"), str) and (
        isinstance(rule.get("parameters"), dict))
