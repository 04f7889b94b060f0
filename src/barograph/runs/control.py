"""What comes home to the training process through the store: the request to stop."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from barograph.errors import DamagedChunk, ObjectExists, ObjectNotFound
from barograph.model.clock import Clock, SystemClock
from barograph.runs.layout import CONTROL
from barograph.runs.papers import sealed, unsealed
from barograph.store.base import Store

_STOP = f"{CONTROL}/stop-"
_TOGETHER = f"{CONTROL}/together-"


@dataclass(frozen=True, slots=True)
class StopRequest:
    """Somebody asks that training stop.

    Attributes:
        finding_id: The finding that asks; "" where a person does.
        reason: One sentence for people.
        attempt: Which life of the run is to stop. A later one, started on purpose, is not meant.
        requested_unix: When, by the clock of who asks.
    """

    finding_id: str
    reason: str
    attempt: int
    requested_unix: float


def request_stop(store: Store, *, reason: str, finding_id: str, attempt: int, clock: Clock | None = None) -> bool:
    """Ask every worker of this attempt to stop between two steps.

    Returns:
        True if this is new; False if the same finding has asked the same attempt already.

    Raises:
        StoreError: The store did not take it.
    """
    request = StopRequest(finding_id, reason, attempt, (clock or SystemClock()).unix())
    try:
        store.create(f"{_STOP}{attempt:04d}-{finding_id or 'person'}.json", sealed(asdict(request)))
    except ObjectExists:
        return False
    return True


def read_stop(store: Store, *, attempt: int) -> StopRequest | None:
    """Return the first request to stop this attempt; None if there is none that is whole.

    Raises:
        StoreError: The store cannot be read.
    """
    found = []
    for item in store.list(CONTROL):
        if not item.name.startswith(f"{_STOP}{attempt:04d}-"):
            continue
        try:
            body = unsealed(store.get(item.name), item.name)
            found.append(StopRequest(body["finding_id"], body["reason"], body["attempt"], body["requested_unix"]))
        except (DamagedChunk, ObjectNotFound, KeyError):
            # A damaged request stops nothing: better one bad step too many than a good run ended by a flipped bit.
            continue
    return min(found, key=lambda request: (request.requested_unix, request.finding_id), default=None)


def agreed_stop_step(store: Store, *, attempt: int, proposed: int) -> int:
    """Return after how many steps the workers of an attempt stop: all after the same, so that none waits for another.

    Workers that train together wait for each other in every step. One that ends by itself leaves the others
    waiting, or failing.

    Args:
        store: The run's.
        attempt: Which life of the run.
        proposed: What counts if no other worker has proposed anything yet.

    Raises:
        StoreError: The store cannot be written or read.
    """
    name = f"{_TOGETHER}{attempt:04d}.json"
    try:
        store.create(name, sealed({"after_steps": proposed}))
    except ObjectExists:
        try:
            return int(unsealed(store.get(name), name)["after_steps"])
        except (DamagedChunk, KeyError, TypeError, ValueError):
            return proposed
    return proposed
