"""What waits in the writer until its chunk is full, in as little memory as will do. NumPy alone, no Arrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from barograph.model.key import Key
from barograph.model.records import StepRecords, Subject, UnitSummaries
from barograph.model.step import Mode, Step
from barograph.model.summary import EXPONENT_BINS, MOMENT_FIELDS
from barograph.model.tensor import RawTensor


class Pending(Protocol):
    """A step whose numbers may still be on their way from a device."""

    @property
    def step(self) -> Step:
        """Which step."""
        ...

    @property
    def size_bytes(self) -> int:
        """Memory it holds."""
        ...

    def resolve(self) -> StepRecords | CompactStep:
        """Return the records, waiting for the device; called once, in the writer's thread."""
        ...


_COUNT = MOMENT_FIELDS.index("count")
_STEP_BYTES, _SCALAR_BYTES, _BIN_BYTES = 500, 200, 14

POINT = np.dtype([("series", "<i4"), ("tick", "<i8"), ("step", "<i8"), ("value", "<f8"), ("time", "<f8")])
"""One number: which series, the tick of the step that was going on, the step it is for, the number, and when
(seconds since 1970 UTC)."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """Records that are there at once, as a `Pending`.

    Attributes:
        records: What was recorded.
    """

    records: StepRecords

    @property
    def step(self) -> Step:
        """Which step."""
        return self.records.step

    @property
    def size_bytes(self) -> int:
        """Memory it holds."""
        records = self.records
        size = 0 if records.moments is None else records.moments.nbytes
        size += 0 if records.exponents is None else records.exponents.nbytes
        size += sum(units.columns.nbytes for units in records.units.values())
        size += sum(len(tensor.data) for tensor in records.tensors.values())
        return size + _SCALAR_BYTES * len(records.scalars)

    def resolve(self) -> StepRecords:
        """Return them."""
        return self.records


@dataclass(frozen=True, slots=True)
class CompactStep:
    """A step as it is kept until its chunk is full.

    Attributes:
        step: Which one.
        subjects: As in the records, of which `rows` were seen.
        rows: Rows of `subjects` that were seen, rising.
        moments: Shape (len(rows), 10).
        bin_rows, bins, bin_counts: The histograms' filled bins: position in `rows`, bin and count.
        units: Row of `subjects` to per-unit summaries.
        scalars: Plain numbers.
        tensors: Whole tensors, for the file of tensors.
        size_bytes: Memory it takes, about.
    """

    step: Step
    subjects: tuple[Subject, ...]
    rows: NDArray[np.intp]
    moments: NDArray[np.float64]
    bin_rows: NDArray[np.int32]
    bins: NDArray[np.uint16]
    bin_counts: NDArray[np.int64]
    units: Mapping[int, UnitSummaries]
    scalars: Mapping[Key, float]
    tensors: Mapping[Key, RawTensor]
    size_bytes: int

    @property
    def row_count(self) -> int:
        """Rows it takes in a chunk."""
        return len(self.rows) + len(self.scalars) + len(self.tensors)

    def resolve(self) -> CompactStep:
        """Return it: there is nothing to wait for."""
        return self


def without_subjects(step: CompactStep) -> CompactStep:
    """Return the step without the table its rows speak of, which is sent but once."""
    return replace(step, subjects=())


def compact(records: StepRecords | CompactStep) -> CompactStep:
    """Return what has to be kept of the records; their arrays may then be used again, except the units'."""
    if isinstance(records, CompactStep):
        return records
    moments = records.moments if records.moments is not None else np.empty((0, len(MOMENT_FIELDS)))
    rows = np.flatnonzero(moments[:, _COUNT] > 0)
    bin_rows, bins, bin_counts = _filled_bins(records.exponents, rows)
    kept = moments[rows]
    units = {row: item for row, item in records.units.items() if moments[row, _COUNT] > 0}
    size = kept.nbytes + _BIN_BYTES * len(bins) + _SCALAR_BYTES * len(records.scalars) + _STEP_BYTES
    size += sum(item.columns.nbytes for item in units.values())
    size += sum(len(tensor.data) for tensor in records.tensors.values())
    return CompactStep(
        records.step, records.subjects, rows, kept, bin_rows, bins, bin_counts, units, records.scalars,
        records.tensors, size,
    )


class Series(NamedTuple):
    """What a number belongs to.

    Attributes:
        key: What it is.
        mode: Mode it was recorded in.
        optimizer: Whose step; "" where there is one, and for what the script logs.
        logged: The script logged it. Else it is all that was recorded of a step.
    """

    key: Key
    mode: Mode
    optimizer: str = ""
    logged: bool = True


@dataclass(frozen=True, slots=True)
class Points:
    """Plain numbers: those the script logged, and steps of which nothing else was recorded.

    Attributes:
        series: What the numbers belong to.
        points: Array of `POINT`, in the order they came.
    """

    series: Sequence[Series]
    points: NDArray[np.void]

    def pieces(self, count: int) -> Iterator[Points]:
        """Yield them in pieces of `count`, or a few more: a step is never split. Nothing where there are none."""
        start = 0
        while start < len(self.points):
            stop = min(start + count, len(self.points))
            while stop < len(self.points) and self._belong_together(stop - 1, stop):
                stop += 1
            yield Points(self.series, self.points[start:stop])
            start = stop

    def _belong_together(self, first: int, second: int) -> bool:
        of_step = not self.series[self.points["series"][second]].logged
        return of_step and bool(self.points["tick"][first] == self.points["tick"][second])


NO_POINTS = Points((), np.empty(0, POINT))


def _filled_bins(
    exponents: NDArray[np.int64] | None, rows: NDArray[np.intp]
) -> tuple[NDArray[np.int32], NDArray[np.uint16], NDArray[np.int64]]:
    if exponents is None or not len(rows):
        return np.empty(0, np.int32), np.empty(0, np.uint16), np.empty(0, np.int64)
    kept = exponents if len(rows) == len(exponents) else exponents[rows]
    flat = np.ascontiguousarray(kept).reshape(-1)
    filled = np.flatnonzero(flat)
    return (filled // EXPONENT_BINS).astype(np.int32), (filled % EXPONENT_BINS).astype(np.uint16), flat[filled]
