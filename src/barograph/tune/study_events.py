"""The events of a study in its store: one object each, numbered without gaps."""

from __future__ import annotations

from barograph.errors import ObjectNotFound
from barograph.jobs.job_log import EventLog
from barograph.model.clock import Clock
from barograph.store.base import Informed, ObjectInfo, Store

EVENTS = "study/events"
"""Folder of the events in the store of a study."""


def event_name(number: int) -> str:
    """Return the name of an event in the store of a study."""
    return f"{EVENTS}/{number:08d}.json"


def event_log(store: Store, clock: Clock) -> EventLog:
    """Return the events of the study in a store."""
    return EventLog(store, EVENTS, clock=clock.unix)


def identity_of(store: Store) -> bytes:
    """Return what tells a study from another one that was created at the same place after it was deleted.

    Raises:
        StoreError: The store is unreachable.
    """
    try:
        return bytes(store.get(event_name(0)))
    except ObjectNotFound:
        return b""


def has_event(store: Store, name: str) -> bool:
    """Return whether the store of a study has an event.

    Raises:
        StoreError: The store is unreachable.
    """
    try:
        if _info(store, name) is None:
            store.get(name)
    except ObjectNotFound:
        return False
    return True


class Presence:
    """Whether a study is still there: not deleted, and no other one in its place.

    Args:
        store: Store of the study.
    """

    def __init__(self, store: Store) -> None:
        self._store, self._identity = store, b""
        self._info: ObjectInfo | None = None

    def is_over(self) -> bool:
        """Return whether the study of the first call is gone.

        Raises:
            StoreError: The store is unreachable.
        """
        try:
            info = _info(self._store, event_name(0))
        except ObjectNotFound:
            return True
        if info is None or info != self._info:  # the same study, if only its time changed
            identity = identity_of(self._store)
            if not identity or self._identity not in (b"", identity):
                return True
            self._identity, self._info = identity, info
        return False


def _info(store: Store, name: str) -> ObjectInfo | None:
    """Return size, time and version of an object; None if the store does not know them."""
    return store.info(name) if isinstance(store, Informed) else None
