"""Records that wait in the writer until their chunk is full, in compact form. Uses NumPy alone, no Arrow."""

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
        ...

    @property
    def size_bytes(self) -> int:
        """Size in memory."""
        ...

    def resolve(self) -> StepRecords | CompactStep:
        """Return the records, waiting for the device; called once, in the writer's thread."""
        ...


_COUNT = MOMENT_FIELDS.index("count")
_STEP_BYTES, _SCALAR_BYTES, _BIN_BYTES = 500, 200, 14

POINT = np.dtype([("series", "<i4"), ("tick", "<i8"), ("step", "<i8"), ("value", "<f8"), ("time", "<f8")])
"""One number: its series, the tick of the current step, its step, its value, and its time (seconds since 1970 UTC)."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """Available records, as a `Pending`.

    Attributes:
        records: The records.
    """

    records: StepRecords

    @property
    def step(self) -> Step:
        return self.records.step

    @property
    def size_bytes(self) -> int:
        """Size in memory."""
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
    """A step in the form that is kept until its chunk is full.

    Attributes:
        step: The step.
        subjects: As in the records, of which `rows` were recorded.
        rows: Ascending indices of recorded `subjects`.
        moments: Shape (len(rows), 10).
        bin_rows, bins, bin_counts: Nonempty bins of the histograms: index into `rows`, bin and count.
        units: Per-unit summaries by row of `subjects`.
        scalars: Plain numbers.
        tensors: Whole tensors, for the tensor file.
        size_bytes: Approximate size in memory.
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
    """Return the records in compact form; their arrays may then be reused, except those of units."""
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
    """Identity of a series of numbers.

    Attributes:
        key: Its key.
        mode: Mode it was recorded in.
        optimizer: Optimizer of the step; "" if there is only one, and for logged numbers.
        logged: The script logged it. Otherwise nothing else was recorded of the step.
    """

    key: Key
    mode: Mode
    optimizer: str = ""
    logged: bool = True


@dataclass(frozen=True, slots=True)
class Points:
    """Plain numbers: logged by the script, or of steps without other records.

    Attributes:
        series: Their series.
        points: Array of `POINT`, in order of arrival.
    """

    series: Sequence[Series]
    points: NDArray[np.void]

    def pieces(self, count: int) -> Iterator[Points]:
        """Yield parts of `count` points or slightly more: a step is never split. Yields nothing if there are none."""
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
