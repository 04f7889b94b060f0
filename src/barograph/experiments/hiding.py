"""Finds archived and deleted runs in the journal of a root, without its catalog."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from barograph.experiments.folding import folded
from barograph.model.items import Entry, Verb
from barograph.runs.state.journal import JOURNAL_OF_ROOT, Journal
from barograph.store.base import Store

_THREADS = 16


def hidden_in(root: Store) -> Mapping[str, str]:
    """Return ID to "archived" or "deleted", for each item that is one of them.

    Raises:
        StoreError: The journal cannot be read.
        DamagedChunk: A part of it is damaged.
    """
    journal = Journal(root, JOURNAL_OF_ROOT)
    entries: dict[str, list[Entry]] = {}
    with ThreadPoolExecutor(_THREADS) as pool:
        for batch in pool.map(journal.read, journal.names()):
            for entry in batch.entries:
                if entry.verb in (Verb.CREATE, Verb.SET, Verb.DELETE, Verb.RESTORE):
                    entries.setdefault(entry.uid, []).append(entry)
    states = {uid: folded(uid, of_item) for uid, of_item in entries.items()}
    return {uid: "deleted" if state.deleted_unix is not None else "archived" for uid, state in states.items()
            if state.deleted_unix is not None or state.fields.get("archived")}
