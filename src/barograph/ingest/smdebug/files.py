"""Lists the files that smdebug has written in a directory or below a prefix."""

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
"""Files of smdebug without recorded values: of its profiler and TensorBoard, and markers."""


@dataclass(frozen=True, slots=True)
class StepFiles:
    """The files of one step of one worker.

    Attributes:
        step: smdebug's global step: every forward pass, in any mode.
        events: File with values; "" if missing.
        index: Index of that file; "" if missing.
    """

    step: int
    events: str
    index: str


@dataclass(frozen=True, slots=True)
class Listing:
    """All files.

    Attributes:
        steps: smdebug's name of a worker to its steps, ascending. Workers are ordered by rank.
        collections: Files of collections, sorted.
        ended: Whether smdebug recorded the end of the training.
        foreign: Names of files that are not smdebug's.
        beside: Number of smdebug's files without values of steps, such as its profiler's.
    """

    steps: Mapping[str, tuple[StepFiles, ...]]
    collections: tuple[str, ...]
    ended: bool
    foreign: tuple[str, ...]
    beside: int


def listing_of(store: Store) -> Listing:
    """Return the files that smdebug has written.

    Raises:
        ImportFailed: There are no files, or none of smdebug.
        StoreError: The place cannot be read.
    """
    names = [item.name for item in store.list()]
    if not names:
        raise ImportFailed(f"No files found ({store.url}).")
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
        raise ImportFailed(f"No step saved by smdebug: there is {what} ({store.url}).")
    steps = {
        worker: tuple(StepFiles(step, *files) for step, files in sorted(found[worker].items()))
        for worker in in_order(found)
    }
    return Listing(steps, tuple(sorted(collections)), _ENDED in names, tuple(foreign), beside)


def worker_from_file(text: str) -> str:
    """Return the worker of a file name, in which TensorFlow's device names have no slashes.

    Example:
        >>> worker_from_file("worker_0"), worker_from_file("_replica-0_task-0_device-GPU-0")
        ('worker_0', '/replica:0/task:0/device:GPU:0')
    """
    return text.replace("_", "/").replace("-", ":") if text.startswith("_") else text


def worker_of_collections(name: str) -> str:
    """Return the worker of a collections file."""
    match = _COLLECTIONS.fullmatch(name)
    return worker_from_file(match["worker"]) if match else ""


def in_order(workers: Iterable[str]) -> list[str]:
    """Return workers in numeric order, so that `worker_2` precedes `worker_10`.

    Example:
        >>> in_order(["worker_10", "worker_2"])
        ['worker_2', 'worker_10']
    """
    def numbers(name: str) -> list[str | int]:
        # Every second part is a number.
        return [int(part) if place % 2 else part for place, part in enumerate(re.split(r"([0-9]+)", name))]

    return sorted(workers, key=numbers)
