"""What stands in a directory, or below a prefix, that smdebug has written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from barograph.errors import ImportFailed
from barograph.store.base import Store

_EVENTS = re.compile(r"events/\d+/(?P<step>[0-9]{1,18})_(?P<worker>.+)\.tfevents")
_INDEX = re.compile(r"index/\d+/(?P<step>[0-9]{1,18})_(?P<worker>.+)\.(?:json|csv)")
_COLLECTIONS = re.compile(r"collections/\d+/(?P<worker>.+)_collections\.(?:json|ts)")
_ENDED = "training_job_end.ts"
_NOT_VALUES = re.compile(
    rf"{re.escape(_ENDED)}|claim\.smd|metadata\.json(?:\.sagemaker-uploaded)?|.+\.tmp"
    r"|(?:framework|system|tensorboard|profiler-output|rule-output)/.+"
)
"""Of smdebug too, and nothing that a step recorded: its profiler's, its TensorBoard files, its own signs."""


@dataclass(frozen=True, slots=True)
class StepFiles:
    """The files of one step of one worker.

    Attributes:
        step: The global step, as smdebug counts: every forward pass, whatever the mode.
        events: File of values; "" where there is none.
        index: File that says where in it they are; "" where there is none.
    """

    step: int
    events: str
    index: str


@dataclass(frozen=True, slots=True)
class Listing:
    """All that is there.

    Attributes:
        steps: Worker, as smdebug calls it, to its steps, rising. The workers are in order of their ranks.
        collections: Files of collections, sorted.
        ended: smdebug has said that the training was over.
        foreign: Names that smdebug gives to nothing.
        beside: How many files are smdebug's and hold no values of steps: its profiler's, say.
    """

    steps: Mapping[str, tuple[StepFiles, ...]]
    collections: tuple[str, ...]
    ended: bool
    foreign: tuple[str, ...]
    beside: int


def listing_of(store: Store) -> Listing:
    """Return what smdebug has written in a place.

    Raises:
        ImportFailed: There is nothing, or nothing of smdebug's.
        StoreError: The place cannot be read.
    """
    names = [item.name for item in store.list()]
    if not names:
        raise ImportFailed(f"There is nothing at {store.url}.")
    found: dict[str, dict[int, list[str]]] = {}
    collections, foreign, beside = [], [], 0
    for name in names:
        events, index = _EVENTS.fullmatch(name), _INDEX.fullmatch(name)
        match = events or index
        if match is not None:
            files = found.setdefault(worker_from_file(match["worker"]), {}).setdefault(int(match["step"]), ["", ""])
            files[0 if events else 1] = name
        elif _COLLECTIONS.fullmatch(name):
            collections.append(name)
        elif _NOT_VALUES.fullmatch(name):
            beside += 1
        else:
            foreign.append(name)
    if not found:
        what = "only collections: no step was saved" if collections else "no events/, index/ or collections/"
        raise ImportFailed(f"Nothing that smdebug has saved of a step is at {store.url}: there is {what}.")
    steps = {
        worker: tuple(StepFiles(step, *files) for step, files in sorted(found[worker].items()))
        for worker in in_order(found)
    }
    return Listing(steps, tuple(sorted(collections)), _ENDED in names, tuple(foreign), beside)


def worker_from_file(text: str) -> str:
    """Return the worker that a file is named after: TensorFlow's names of devices are written without slashes.

    Example:
        >>> worker_from_file("worker_0"), worker_from_file("_replica-0_task-0_device-GPU-0")
        ('worker_0', '/replica:0/task:0/device:GPU:0')
    """
    return text.replace("_", "/").replace("-", ":") if text.startswith("_") else text


def worker_of_collections(name: str) -> str:
    """Return the worker whose collections a file holds."""
    match = _COLLECTIONS.fullmatch(name)
    return worker_from_file(match["worker"]) if match else ""


def in_order(workers: Iterable[str]) -> list[str]:
    """Return workers by their numbers, so that `worker_2` stands before `worker_10`.

    Example:
        >>> in_order(["worker_10", "worker_2"])
        ['worker_2', 'worker_10']
    """
    def numbers(name: str) -> list[str | int]:
        # Every second part is digits.
        return [int(part) if place % 2 else part for place, part in enumerate(re.split(r"([0-9]+)", name))]

    return sorted(workers, key=numbers)
