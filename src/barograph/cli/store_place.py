"""Opens the store at a path or URL that a user typed. It imports little, so that commands start fast."""

from __future__ import annotations

from barograph.errors import SettingsError
from barograph.store.base import Store
from barograph.store.urls import store_from_url


def store_at(place: str) -> Store:
    """Return the store at a path or URL.

    Raises:
        SettingsError: The path or URL is invalid, or refers to memory of another process.
        StoreError: The environment lacks the configuration of the bucket.
    """
    if place.lower().startswith("memory:"):
        raise SettingsError(
            f"{place} is in the memory of another process. To read a run from here, record it to a directory or a "
            "bucket."
        )
    return store_from_url(place)
