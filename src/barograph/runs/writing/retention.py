"""Keeping a run within its limits by removing the oldest files of a worker, after writing a note."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from barograph.errors import DamagedChunk, ObjectNotFound
from barograph.model.manifest import Worker
from barograph.model.step import Mode
from barograph.runs.format.events import open_records
from barograph.runs.format.layout import (
    CURVES,
    RECORDS,
    RETENTION,
    TENSORS,
    ChunkName,
    CurvesName,
    TensorsName,
    metadata_name,
)
from barograph.runs.format.metadata import sealed
from barograph.runs.format.progress import BESIDE, Reach, last_steps
from barograph.runs.format.proof import proved
from barograph.runs.state.survey import Survey, surveyed
from barograph.runs.writing.outbox import Published
from barograph.store.base import Store

_AGE_COLUMNS = ["optimizer", "mode", "skipped", "step"]


def beyond_limits(files: Sequence[Published], *, keep_last: int | None, max_bytes: int | None) -> Sequence[Published]:
    """Return the oldest files to remove. The newest file is always kept.

    Args:
        files: Files of one worker, in order.
        keep_last: Steps to keep, counted by the optimizer with the most steps, so that one that steps
            rarely keeps no files. None: all.
        max_bytes: Bytes of records, tensors and buckets to keep. None: all.
    """
    ages = [0] * len(files) if keep_last is None else _ages(files)
    kept_bytes = sum(file.total_bytes for file in files)
    gone = 0
    for file, age in zip(files[:-1], ages, strict=False):
        too_old = keep_last is not None and age >= keep_last
        if not too_old and (max_bytes is None or kept_bytes <= max_bytes):
            break
        kept_bytes -= file.total_bytes
        gone += 1
    return files[:gone]


def _ages(files: Sequence[Published]) -> list[int]:
    """Return how many steps ago each file's last step was made."""
    reached: dict[str, int] = {}
    for file in files:
        # A later attempt may have gone back to an earlier step, so only it counts.
        if file.name.attempt == files[-1].name.attempt:
            for name, step in file.last_steps.items():
                reached[name] = max(step, reached.get(name, step))
    if any(file.last_steps.keys() - {BESIDE} for file in files):
        reached.pop(BESIDE, None)
    if not reached:
        return [0] * len(files)
    leader = max(reached, key=lambda name: reached[name])
    ages = []
    step = reached[leader]
    for file in reversed(files):
        # A file without steps of that optimizer is as old as the next one.
        step = file.last_steps.get(leader, step)
        ages.append(reached[leader] - step)
    return ages[::-1]


class EarlierFiles:
    """Files of a worker from before its writer started: from earlier attempts, and from a previous writer of
    this attempt. They are read one at a time, so that nothing else waits.

    Args:
        store: Store of the run.
        worker: The worker.
        first_chunk: First chunk of the current writer; chunks before it are earlier.
        with_steps: Also read their last steps.
    """

    def __init__(self, store: Store, worker: Worker, first_chunk: int, *, with_steps: bool) -> None:
        self._store = store
        self._worker = worker
        self._first_chunk = first_chunk
        self._with_steps = with_steps
        self._waiting: deque[Published] | None = None
        self._leftover: list[ChunkName] = []
        self.files: list[Published] = []

    def learn(self) -> bool:
        """Read one more file. Returns False if all are known.

        Raises:
            StoreError: The store cannot be read; retrying is safe.
        """
        if self._waiting is None:
            self._list()
            return True
        if not self._waiting:
            return False
        file = self._waiting[0]
        self.files.append(replace(file, last_steps=self._last_steps(file.name)))
        self._waiting.popleft()
        return True

    def inside(self, file: ChunkName) -> list[ChunkName]:
        """Return the files whose rows are all in this one, too; readers would use them if it were missing."""
        return [
            item for item in self._leftover
            if item.attempt == file.attempt and file.first <= item.first and item.last <= file.last
        ]

    def _list(self) -> None:
        name = self._worker.name
        folders = (RECORDS, TENSORS, CURVES)
        found = surveyed(item for folder in folders for item in self._store.list(f"{folder}/{name}"))
        self._leftover = found.superseded()
        self._waiting = deque(
            Published(file, found.size_bytes[str(file)], 0, _tensors_of(file, found), curves=_curves_of(file, found))
            for stream in found.chunks for file in found.files(stream)
            if (file.attempt, file.first) < (self._worker.attempt, self._first_chunk)
        )

    def _last_steps(self, name: ChunkName) -> Mapping[str, int]:
        if not self._with_steps:
            return {}
        try:
            file = open_records(proved(self._store, str(name), name.digest), str(name))
            return last_steps(_reaches(file.read(columns=_AGE_COLUMNS, use_threads=False)))
        except (DamagedChunk, ObjectNotFound, pa.ArrowException, ValueError):
            # Its last steps are unknown; it is removed with its neighbors.
            return {}


def _tensors_of(file: ChunkName, found: Survey) -> tuple[tuple[TensorsName, int], ...]:
    tensors = found.tensors.get((file.attempt, file.worker), ())
    return tuple((item, found.size_bytes[str(item)]) for item in tensors if file.first <= item.chunk <= file.last)


def _curves_of(file: ChunkName, found: Survey) -> tuple[tuple[CurvesName, int], ...]:
    curves = found.curves.get((file.attempt, file.worker), ())
    return tuple((item, found.size_bytes[str(item)]) for item in curves
                 if file.first <= item.first and item.last <= file.last)


def _reaches(table: pa.Table) -> Iterable[Reach]:
    table = table.append_column("logged", pc.is_null(table["skipped"]))
    groups = table.group_by(["optimizer", "mode", "logged"]).aggregate([("step", "max")])
    for row in groups.to_pylist():
        yield Reach(row["optimizer"], Mode(row["mode"]), row["logged"], row["step_max"])


def note_removal(store: Store, worker: Worker, files: Iterable[Published]) -> None:
    """Write a note of the chunks to be removed. Then the files may be deleted.

    Raises:
        StoreError: An operation failed; retrying is safe.
    """
    through = {file.name.attempt: file.name.last for file in files}
    for attempt, last in through.items():
        body = {"worker": worker.name, "attempt": attempt, "removed_through_chunk": last}
        store.put(metadata_name(RETENTION, worker.name, attempt), sealed(body))
