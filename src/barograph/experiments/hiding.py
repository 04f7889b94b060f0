"""Finds archived and deleted runs in the journal of a root, without its catalog."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from barograph.errors import DamagedChunk, NewerFormat, ObjectNotFound
from barograph.experiments.folding import folded
from barograph.model.items import Entry, Verb
from barograph.runs.state.journal import JOURNAL_OF_ROOT, Journal
from barograph.store.base import Store

_THREADS = 16


def hidden_in(root: Store, *, note: Callable[[str], object] = lambda problem: None) -> Mapping[str, str]:
    """Return ID to "archived" or "deleted", for each item that is one of them.

    Args:
        root: Store of the root.
        note: Takes why a part of the journal cannot be read; what it says is unknown.

    Raises:
        StoreError: The journal cannot be read.
    """
    journal = Journal(root, JOURNAL_OF_ROOT)

    def read(name: str) -> list[Entry]:
        try:
            recorded = [entry for entry in journal.read(name).entries
                        if entry.verb in (Verb.CREATE, Verb.SET, Verb.DELETE, Verb.RESTORE)]
            for entry in recorded:
                folded(entry.uid, [entry])
        except (DamagedChunk, NewerFormat, ObjectNotFound) as error:
            note(str(error))
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            note(f"A batch of the journal is invalid: {error!r} ({name}).")
        else:
            return recorded
        return []

    entries: dict[str, list[Entry]] = {}
    with ThreadPoolExecutor(_THREADS) as pool:
        for recorded in pool.map(read, journal.names()):
            for entry in recorded:
                entries.setdefault(entry.uid, []).append(entry)
    states = {uid: folded(uid, of_item) for uid, of_item in entries.items()}
    return {uid: "deleted" if state.deleted_unix is not None else "archived" for uid, state in states.items()
            if state.deleted_unix is not None or state.fields.get("archived")}
