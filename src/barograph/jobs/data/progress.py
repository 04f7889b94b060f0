"""Progress of a delivery, counted by several threads."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from barograph.errors import BarographError, JobError


class DeliveryCancelled(JobError):
    """The delivery was cancelled by its caller."""


@dataclass(frozen=True, slots=True)
class DeliveryProgress:
    """How much of a channel has arrived.

    Attributes:
        channel: Name of the channel.
        done_objects, objects: Objects that have arrived, and all objects of this instance.
        done_bytes, total_bytes: The same in bytes.
        waiting: Why the delivery waits: the store cannot be reached. "" if it does not.
    """

    channel: str
    done_objects: int
    objects: int
    done_bytes: int
    total_bytes: int
    waiting: str = ""


class Tally:
    """Counts of one delivery. Methods may be called from any thread.

    Attributes:
        channel: Name of the channel.
        objects, total_bytes: What this instance gets; in pipe mode, in one epoch.
        fetched_bytes: Bytes read from the source; not those that were cached.
        opened_epochs: Epochs whose pipe a script has opened, in pipe mode.
        failure: First error after the start of the script; None if there was none.
    """

    def __init__(self, channel: str, objects: int, total_bytes: int) -> None:
        self.channel, self.objects, self.total_bytes = channel, objects, total_bytes
        self.fetched_bytes = self.opened_epochs = 0
        self.failure: BarographError | None = None
        self._done_objects = self._done_bytes = 0
        self._waiting: dict[int, str] = {}
        self._lock = threading.Lock()

    def add(self, *, size_bytes: int = 0, fetched_bytes: int = 0, objects: int = 0) -> None:
        """Count what has arrived."""
        with self._lock:
            self._done_bytes += size_bytes
            self.fetched_bytes += fetched_bytes
            self._done_objects += objects

    def wait(self, reason: str) -> None:
        """Note why this thread waits; "": it does not any more."""
        with self._lock:
            if reason:
                self._waiting[threading.get_ident()] = reason
            else:
                self._waiting.pop(threading.get_ident(), None)

    def fail(self, error: BarographError) -> None:
        """Note an error, if it is the first."""
        with self._lock:
            self.failure = self.failure or error

    def progress(self) -> DeliveryProgress:
        """Return the counts as they are now."""
        with self._lock:
            return DeliveryProgress(self.channel, self._done_objects, self.objects, self._done_bytes, self.total_bytes,
                                    next(iter(self._waiting.values()), ""))
