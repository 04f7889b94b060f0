"""Encoding of steps as chunks, and publishing of chunks in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from barograph.errors import UnsupportedDtype
from barograph.model.manifest import Worker
from barograph.model.step import Mode
from barograph.runs.format.codec import ChunkNotes, encode
from barograph.runs.format.layout import ChunkName, CurvesName, TensorsName, digest_of
from barograph.runs.format.pending import POINT, CompactStep, Points
from barograph.runs.format.progress import Reach, last_steps
from barograph.runs.format.tensors import TensorsOrigin, array_from_raw, tensor_entry, tensors_bytes
from barograph.store.base import Store

CHUNK_BYTES = 16 * 2**20
"""Memory of records at which a chunk is sealed early."""

CHUNK_POINTS = 200_000
"""Logged numbers at which a chunk is sealed early."""


@dataclass(frozen=True, slots=True)
class Published:
    """A published records file.

    Attributes:
        name: Name of the file.
        size_bytes: Size of the file.
        rows: Number of rows.
        tensors: Tensor files of its chunks, each with its size.
        last_steps: Last steps in it, see `progress.last_steps`.
        curves: Bucket files of its chunks, each with its size.
    """

    name: ChunkName
    size_bytes: int
    rows: int = 0
    tensors: tuple[tuple[TensorsName, int], ...] = ()
    last_steps: Mapping[str, int] = field(default_factory=dict)
    curves: tuple[tuple[CurvesName, int], ...] = ()

    @property
    def total_bytes(self) -> int:
        """Size of the file and of its tensors and buckets."""
        return self.size_bytes + sum(size for _, size in (*self.tensors, *self.curves))

    @property
    def beside(self) -> Iterator[str]:
        """Names of the files that are deleted with it."""
        return (str(name) for name, _ in (*self.tensors, *self.curves))


@dataclass(slots=True)
class _Sealed:
    chunk: Published
    data: bytes
    tensors: bytes | None
    steps: int
    points: int


class Outbox:
    """The chunks of one worker: the open one, and those waiting for the store.

    Args:
        store: Store of the run.
        worker: Worker that recorded them.
        first_chunk: First sequence number.
    """

    def __init__(self, store: Store, worker: Worker, first_chunk: int = 0) -> None:
        self._store = store
        self._worker = worker
        self._steps: list[CompactStep] = []
        self._points: list[Points] = []
        self._sealed: deque[_Sealed] = deque()
        self._next_chunk = first_chunk
        # A writer that replaces another one does not know the start of the attempt.
        self._first_steps: dict[str, int] | None = None if first_chunk else {}
        self.problems: list[str] = []
        self.open_bytes = 0
        self.open_points = 0

    @property
    def next_chunk(self) -> int:
        """Sequence number of the open chunk."""
        return self._next_chunk

    @property
    def first_steps(self) -> Mapping[str, int] | None:
        """Optimizer to its first training step in sealed chunks; None if this writer replaced another one."""
        return self._first_steps

    @property
    def is_open(self) -> bool:
        """Whether the open chunk has records."""
        return bool(self._steps or self._points)

    @property
    def is_full(self) -> bool:
        """Whether the open chunk needs to be sealed early."""
        return self.open_bytes >= CHUNK_BYTES or self.open_points >= CHUNK_POINTS

    @property
    def waiting(self) -> int:
        """Sealed chunks not yet published."""
        return len(self._sealed)

    @property
    def unpublished_steps(self) -> int:
        """Steps not yet published, sealed or not."""
        return len(self._steps) + sum(sealed.steps for sealed in self._sealed)

    @property
    def unpublished_points(self) -> int:
        """Logged numbers not yet published, sealed or not."""
        return self.open_points + sum(sealed.points for sealed in self._sealed)

    def add_step(self, step: CompactStep) -> int:
        """Add a step to the open chunk, and return the memory it takes.

        A step without records would have no row, and is skipped.
        """
        if not (len(step.rows) or step.scalars or step.tensors):
            return 0
        self._steps.append(step)
        self.open_bytes += step.size_bytes
        return step.size_bytes

    def add_points(self, points: Points) -> None:
        """Add logged numbers to the open chunk."""
        self._points.append(points)
        self.open_points += len(points.points)
        self.open_bytes += points.points.nbytes

    def seal(self, notes: ChunkNotes) -> int:
        """Encode the open chunk as a file; return the change of memory in bytes.

        If it raises, the chunk is unchanged.
        """
        steps, pieces, held_bytes = self._steps, self._points, self.open_bytes
        points_count = self.open_points
        rows = points_count + sum(step.row_count for step in steps)
        points = _joined(pieces)
        worker, chunk = self._worker, self._next_chunk
        tensors = self._tensors_of(steps)
        first_steps = None if self._first_steps is None else _first_steps(steps, points, self._first_steps)
        notes = replace(notes, run_id=worker.run_id, first_steps=first_steps)
        data = encode(steps, points, worker=worker.name, attempt=worker.attempt, chunk=chunk, notes=notes)
        name = ChunkName(worker.name, worker.attempt, chunk, chunk, digest_of(data))
        files: tuple[tuple[TensorsName, int], ...] = ()
        if tensors is not None:
            files = ((TensorsName(worker.name, worker.attempt, chunk, digest_of(tensors)), len(tensors)),)
        published = Published(name, len(data), rows, files, last_steps(_reaches(steps, points)))
        self._sealed.append(_Sealed(published, data, tensors, len(steps), points_count))
        self._next_chunk += 1
        self._first_steps = first_steps
        self._empty()
        return published.total_bytes - held_bytes

    def discard(self) -> tuple[int, int, int]:
        """Discard the open chunk; return its steps, its logged numbers, and its bytes."""
        lost = len(self._steps), self.open_points, self.open_bytes
        self._empty()
        return lost

    def publish(self) -> Published | None:
        """Publish the oldest sealed chunk and return it; None if there is none.

        Raises:
            StoreError: It could not be written and keeps waiting.
        """
        if not self._sealed:
            return None
        sealed = self._sealed[0]
        # Tensors first, so that readers of the rows find them.
        if sealed.tensors is not None:
            self._store.put(str(sealed.chunk.tensors[0][0]), sealed.tensors)
        self._store.put(str(sealed.chunk.name), sealed.data)
        self._sealed.popleft()
        return sealed.chunk

    def _empty(self) -> None:
        self._steps, self._points, self.open_bytes, self.open_points = [], [], 0, 0

    def _tensors_of(self, steps: list[CompactStep]) -> bytes | None:
        arrays = {}
        for step in steps:
            for key, tensor in step.tensors.items():
                try:
                    arrays[tensor_entry(step.step.tick, key)] = array_from_raw(tensor)
                except UnsupportedDtype as error:
                    self.problems.append(str(error))
        worker = self._worker
        origin = TensorsOrigin(worker.run_id, worker.name, worker.attempt, self._next_chunk)
        return tensors_bytes(arrays, origin) if arrays else None


def _first_steps(steps: list[CompactStep], points: Points, before: Mapping[str, int]) -> dict[str, int]:
    """Return each optimizer's first training step, without logged numbers and evaluations."""
    first = dict(before)
    for step in (item.step for item in steps if item.step.mode is Mode.TRAIN):
        first[step.optimizer] = min(step.number, first.get(step.optimizer, step.number))
    codes = points.points["series"]
    for code in np.unique(codes).tolist():
        series = points.series[code]
        if not series.logged and series.mode is Mode.TRAIN:
            number = int(points.points["step"][codes == code].min())
            first[series.optimizer] = min(number, first.get(series.optimizer, number))
    return first


def _joined(pieces: Sequence[Points]) -> Points:
    """Return the points of all pieces, with only the series they use."""
    points = np.concatenate([np.empty(0, POINT), *(piece.points for piece in pieces)])
    present, points["series"] = np.unique(points["series"], return_inverse=True)
    # Series are only added, so the last piece has all of them.
    return Points([pieces[-1].series[code] for code in present.tolist()], points)


def _reaches(steps: list[CompactStep], points: Points) -> Iterator[Reach]:
    for step in steps:
        yield Reach(step.step.optimizer, step.step.mode, False, step.step.number)
    greatest = np.full(len(points.series), np.iinfo(np.int64).min)
    np.maximum.at(greatest, points.points["series"], points.points["step"])
    # Each series has a point: see `_joined`. There may be a hundred thousand of them, which differ in little else.
    reached: dict[tuple[str, str, bool], int] = {}
    for series, number in zip(points.series, greatest.tolist(), strict=True):
        which = series.optimizer, series.mode._value_, series.logged
        reached[which] = max(number, reached.get(which, number))
    for (optimizer, mode, logged), number in reached.items():
        yield Reach(optimizer, Mode(mode), logged, number)
