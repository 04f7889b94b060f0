"""Settings of a delivery that no user needs to know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from barograph.store.base import Store
from barograph.store.urls import store_from_url


@dataclass(frozen=True, slots=True)
class DeliverySettings:
    """Limits and times of a delivery.

    Attributes:
        retry_secs: How long each read is repeated while the store cannot be reached.
        first_pause_secs, longest_pause_secs: Pauses between attempts. They double from the first to the longest.
        at_once: Number of concurrent reads.
        part_bytes: Largest read. Larger objects are read in parts.
        cache_bytes: Bytes of unused objects that stay in the cache after the job.
        progress_secs: Time between two reports of progress.
        first_epoch: Epoch of the first pipe.
        epochs_ahead: Number of pipes that exist before they are opened.
        mount_secs: Longest time until a lazy directory appears.
        open_store: Returns the store at a URL.
    """

    retry_secs: float = 600.0
    first_pause_secs: float = 0.2
    longest_pause_secs: float = 10.0
    at_once: int = 16
    part_bytes: int = 8 * 2**20
    cache_bytes: int = 20 * 10**9
    progress_secs: float = 0.1
    first_epoch: int = 0
    epochs_ahead: int = 16
    mount_secs: float = 60.0
    open_store: Callable[[str], Store] = store_from_url


USUAL = DeliverySettings()
