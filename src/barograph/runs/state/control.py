"""Requests to a training process through the store, and their results.

A request is an object that is created once, named after its finding: `control/ACTION-ATTEMPT-FINDING.json`. The results
of workers are `control/done/ACTION-ATTEMPT-FINDING.WORKER.json`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from barograph.errors import DamagedChunk, ObjectExists, ObjectNotFound
from barograph.model.clock import Clock, SystemClock
from barograph.runs.format.layout import CONTROL
from barograph.runs.format.metadata import sealed, unsealed
from barograph.store.base import ObjectInfo, Store

STOP = "stop"
CHECKPOINT = "checkpoint"

_STOP = f"{CONTROL}/{STOP}-"
_TOGETHER = f"{CONTROL}/together-"
_DONE = f"{CONTROL}/done"
_REQUEST = re.compile(
    rf"{CONTROL}/(?P<action>checkpoint|lower-lr|skip-step|capsule)-(?P<attempt>\d{{4,}})-[^/]+\.json")


@dataclass(frozen=True, slots=True)
class StopRequest:
    """Request to stop the training.

    Attributes:
        finding_id: Finding that triggered it; "" for a request by a person.
        reason: One sentence for people.
        attempt: Attempt to stop; later ones are not affected.
        requested_unix: Time by the clock of the sender.
        checkpoint: Save model and optimizers first.
    """

    finding_id: str
    reason: str
    attempt: int
    requested_unix: float
    checkpoint: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """Result of a request in one worker.

    Attributes:
        action: Requested action: "stop", "checkpoint", "lower-lr", "skip-step", "capsule".
        finding_id: Finding that triggered it; "" for a request by a person.
        attempt: Attempt of the run.
        worker: The worker.
        step: Optimizer steps so far.
        done_unix: Time by the worker's clock.
        result: One sentence for people: what was done, or why not.
        done: Whether it was done.
    """

    action: str
    finding_id: str
    attempt: int
    worker: str
    step: int
    done_unix: float
    result: str
    done: bool = True


@dataclass(frozen=True, slots=True)
class Request:
    """Request of an action after which training continues.

    Attributes:
        action: Requested action: "checkpoint", "lower-lr", "skip-step", "capsule".
        finding_id: Finding that triggered it.
        reason: One sentence for people.
        attempt: Attempt of the run.
        requested_unix: Time by the clock of the sender.
        worker: Target: "r" for all ranks together, otherwise one worker's name.
        optimizer: Optimizer of the steps; "": all.
        options: Options of the action.
        done: Results so far, by worker; only if it was read with results.
    """

    action: str
    finding_id: str
    reason: str
    attempt: int
    requested_unix: float
    worker: str = ""
    optimizer: str = ""
    options: Mapping[str, float] = field(default_factory=dict)
    done: tuple[Done, ...] = ()

    @property
    def last_done_step(self) -> int:
        """Steps at which the last worker did it; -1 if none has."""
        return max((item.step for item in self.done), default=-1)


def request_stop(
    store: Store, *, reason: str, finding_id: str, attempt: int, clock: Clock | None = None, checkpoint: bool = False
) -> bool:
    """Request every worker of this attempt to stop between two steps.

    Returns:
        True if it is new; False if the finding has already triggered it for this attempt.

    Raises:
        StoreError: The store rejected it.
    """
    asked = StopRequest(finding_id, reason, attempt, (clock or SystemClock()).unix(), checkpoint)
    return _create(store, f"{_STOP}{attempt:04d}-{finding_id or 'person'}.json", asdict(asked))


def request(store: Store, asked: Request) -> bool:
    """Send a request to the training.

    Returns:
        True if it is new; False if the finding has already triggered it.

    Raises:
        StoreError: The store rejected it.
    """
    body = {name: value for name, value in asdict(asked).items() if name != "done"}
    return _create(store, f"{CONTROL}/{asked.action}-{asked.attempt:04d}-{asked.finding_id}.json", body)


def answer(store: Store, done: Done) -> bool:
    """Write the result of a request in this worker, if there is none yet.

    Raises:
        StoreError: The store rejected it.
    """
    name = f"{done.action}-{done.attempt:04d}-{done.finding_id or 'person'}.{done.worker}"
    return _create(store, f"{_DONE}/{name}.json", asdict(done))


def read_stop(store: Store, *, attempt: int) -> StopRequest | None:
    """Return the first valid request to stop this attempt; None if there is none.

    Raises:
        StoreError: The store cannot be read.
    """
    return _stop_among(store, store.list(CONTROL), attempt)


def read_requests(store: Store, *, attempt: int) -> list[Request]:
    """Return all requests of this attempt except stops, with their results, in order.

    Raises:
        StoreError: The store cannot be read.
    """
    items = store.list(CONTROL)
    answers = _answers_among(store, items, attempt)
    found = [asked for item in items if (asked := _request_at(store, item.name, attempt))]
    return sorted(
        (Request(**{**_entries(asked), "done": tuple(
            item for item in answers if (item.action, item.finding_id) == (asked.action, asked.finding_id))})
         for asked in found),
        key=lambda asked: (asked.requested_unix, asked.finding_id),
    )


def read_answers(store: Store, *, attempt: int, known: Collection[str] = ()) -> dict[str, Done]:
    """Return new results of workers, including stops, by the names of the objects.

    Raises:
        StoreError: The store cannot be read.
    """
    found = {}
    for item in store.list(_DONE):
        if item.name not in known and (done := _answer_at(store, item.name, attempt)):
            found[item.name] = done
    return found


class Requests:
    """Polls requests to one worker; returns each once, with one listing of the store.

    Args:
        attempt: Attempt of the run.
        worker: Name of the worker.
    """

    def __init__(self, attempt: int, worker: str) -> None:
        self._attempt = attempt
        self._worker = worker
        self._known: set[str] = set()
        self._stop_read = False

    def look(self, store: Store) -> tuple[StopRequest | None, list[Request]]:
        """Return the request to stop, once, and other new requests.

        Raises:
            StoreError: The store cannot be read; no request is lost.
        """
        items = store.list(CONTROL)
        answered = {(item.action, item.finding_id) for item in _answers_among(store, items, self._attempt)
                    if item.worker == self._worker} if any(item.name not in self._known for item in items) else set()
        stop = None if self._stop_read else _stop_among(store, items, self._attempt)
        new: list[Request] = []
        names: set[str] = set()
        for item in items:
            if item.name in self._known:
                continue
            names.add(item.name)
            asked = _request_at(store, item.name, self._attempt)
            # Done by an earlier process of this worker. Doing it again would do it twice.
            if asked and asked.worker in (self._worker, self._worker[:1], "") and \
                    (asked.action, asked.finding_id) not in answered:
                new.append(asked)
        self._known |= names
        self._stop_read = self._stop_read or stop is not None
        return stop, sorted(new, key=lambda asked: (asked.requested_unix, asked.finding_id))


def agreed_stop_step(store: Store, *, attempt: int, proposed: int) -> int:
    """Return the number of steps after which all workers of an attempt stop.

    Workers that train together wait for each other in every step. If one stops alone, the others hang or fail.

    Args:
        store: Store of the run.
        attempt: Attempt of the run.
        proposed: Used if no other worker has proposed a number yet.

    Raises:
        StoreError: The store cannot be written or read.
    """
    return _agreed(store, f"{_TOGETHER}{attempt:04d}.json", proposed)


def agreed_step(store: Store, asked: Request, *, proposed: int) -> int:
    """Return the number of steps after which all workers of an attempt carry out a request, so that replicas stay
    equal.

    Raises:
        StoreError: The store cannot be written or read.
    """
    name = f"{_TOGETHER}{asked.attempt:04d}-{asked.action}-{asked.finding_id}.json"
    return _agreed(store, name, proposed)


def _agreed(store: Store, name: str, proposed: int) -> int:
    try:
        store.create(name, sealed({"after_steps": proposed}))
    except ObjectExists:
        try:
            return int(unsealed(store.get(name), name)["after_steps"])
        except (DamagedChunk, KeyError, TypeError, ValueError):
            return proposed
    return proposed


def _create(store: Store, name: str, body: Mapping[str, Any]) -> bool:
    try:
        store.create(name, sealed(body))
    except ObjectExists:
        return False
    return True


def _stop_among(store: Store, items: list[ObjectInfo], attempt: int) -> StopRequest | None:
    found = []
    for item in items:
        if not item.name.startswith(f"{_STOP}{attempt:04d}-"):
            continue
        try:
            body = unsealed(store.get(item.name), item.name)
            found.append(StopRequest(body["finding_id"], body["reason"], body["attempt"], body["requested_unix"],
                                     bool(body.get("checkpoint", False))))
        except (DamagedChunk, ObjectNotFound, KeyError):
            # A damaged request is ignored: a flipped bit must not stop a good run.
            continue
    return min(found, key=lambda asked: (asked.requested_unix, asked.finding_id), default=None)


def _request_at(store: Store, name: str, attempt: int) -> Request | None:
    match = _REQUEST.fullmatch(name)
    if match is None or int(match["attempt"]) != attempt:
        return None
    try:
        body = unsealed(store.get(name), name)
        return Request(
            match["action"], str(body["finding_id"]), str(body["reason"]), int(body["attempt"]),
            float(body["requested_unix"]), str(body["worker"]), str(body["optimizer"]),
            {str(option): float(value) for option, value in body["options"].items()},
        )
    except (DamagedChunk, ObjectNotFound, KeyError, TypeError, ValueError, AttributeError):
        return None  # ignored, like a damaged stop request


def _answers_among(store: Store, items: list[ObjectInfo], attempt: int) -> list[Done]:
    names = [item.name for item in items if item.name.startswith(f"{_DONE}/")]
    return [done for name in names if (done := _answer_at(store, name, attempt))]


def _answer_at(store: Store, name: str, attempt: int) -> Done | None:
    try:
        body = unsealed(store.get(name), name)
        done = Done(str(body["action"]), str(body["finding_id"]), int(body["attempt"]), str(body["worker"]),
                    int(body["step"]), float(body["done_unix"]), str(body["result"]), bool(body["done"]))
    except (DamagedChunk, ObjectNotFound, KeyError, TypeError, ValueError):
        return None
    return done if done.attempt == attempt else None


def _entries(asked: Request) -> dict[str, Any]:
    return {name: getattr(asked, name) for name in Request.__slots__}
