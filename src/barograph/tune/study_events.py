"""The events of a study in its store: one object each, numbered without gaps."""

from __future__ import annotations

from barograph.errors import ObjectNotFound
from barograph.jobs.job_log import EventLog
from barograph.model.clock import Clock
from barograph.store.base import Ranged, Store

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
        store.info(name) if isinstance(store, Ranged) else store.get(name)
    except ObjectNotFound:
        return False
    return True
