"""Finds the study of a run by its name, without opening the study."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress

from barograph.errors import StoreError
from barograph.store.base import Browsable, Store
from barograph.store.urls import store_from_url
from barograph.tune.study_events import identity_of
from barograph.tune.study_home import FOLDER
from barograph.web.places import Root

_TRIAL = re.compile(r"(?P<study>.+)-\d{3,}(?:-s\d+|-refit)?(?:\.\d+)?")


def study_named_in(job: str) -> str:
    """Return the study that a job is a trial of if its name says so; "" if it does not.

    Example:
        >>> study_named_in("digits-003"), study_named_in("digits-003-s2"), study_named_in("digits-3")
        ('digits', 'digits', '')
    """
    found = _TRIAL.fullmatch(job)
    return found["study"] if found else ""


def trials_in(root: Root) -> Callable[[str], str]:
    """Return a function from the place of a run to the key of the study that it is a trial of; to "" for other runs."""
    beside: dict[str, frozenset[str]] = {}
    known: dict[str, bool] = {}

    def store_at(key: str) -> Store:
        return store_from_url(f"{root.place.rstrip('/')}/{key.partition('/')[2]}".rstrip("/"))

    def folders_beside(above: str) -> frozenset[str]:
        store = store_at(above)
        with suppress(StoreError):
            return frozenset(store.level(FOLDER).folders) if isinstance(store, Browsable) else frozenset()
        return frozenset()

    def is_study(key: str) -> bool:
        """Return whether a folder is a study; it may also be a run."""
        with suppress(StoreError):
            return identity_of(store_at(key)) != b""
        return False

    def study_of(place: str) -> str:
        above, _, job = root.key_of(place).rpartition("/")
        if not (name := study_named_in(job)):
            return ""
        if above not in beside:
            beside[above] = folders_beside(above)
        if f"{FOLDER}/{name}" not in beside[above]:
            return ""
        if (key := f"{above}/{FOLDER}/{name}") not in known:
            known[key] = is_study(key)
        return key if known[key] else ""

    return study_of
