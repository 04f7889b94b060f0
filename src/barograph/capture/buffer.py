"""Collects the statistics of a step: a table of subjects by row, and the rows of one step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from barograph.measures.summary import identity_rows
from barograph.model.facts import Fact
from barograph.model.key import Key, Kind
from barograph.model.records import StepRecords, Subject, UnitSummaries
from barograph.model.step import Step
from barograph.model.summary import EXPONENT_BINS, UNIT_FIELDS

if TYPE_CHECKING:
    from numpy import float64, int64
    from numpy.typing import NDArray

    from barograph.model.tensor import RawTensor

_FIRST_ROWS = 64
_DEFERRED_BYTES = 8192
_MOST_DEFERRED = 1024
_OF_PARAMETERS = frozenset({Kind.WEIGHT, Kind.GRADIENT, Kind.UPDATE})
_OF_ANY_PASS = frozenset({Fact.LAYERS_IN_TRAIN.value, Fact.BATCH_SIZE.value})
_OF_SAMPLES = frozenset({
    Fact.SEEN_IN_TRAINING.value, Fact.SAMPLES_KNOWN.value, Fact.SAMPLES_REPEATED.value})


class RowTable:
    """Assigns each subject a row for the lifetime of a session."""

    def __init__(self) -> None:
        self._rows: dict[tuple[Key, str, str], int] = {}
        self._subjects: list[Subject] = []
        self._frozen: tuple[Subject, ...] = ()

    def __len__(self) -> int:
        return len(self._subjects)

    def row(self, subject: Subject) -> int:
        """Return the row of `subject`; a new one for a new key and layer, or a parameter of a new type."""
        # An output may have several types within a step (autocast), and its calls share a row.
        identity = (subject.key, subject.layer, subject.dtype if subject.key.kind in _OF_PARAMETERS else "")
        row = self._rows.get(identity)
        if row is None:
            row = self._rows[identity] = len(self._subjects)
            self._subjects.append(subject)
        return row

    def subjects(self) -> tuple[Subject, ...]:
        """Return all subjects by row; the same object until one is added."""
        if len(self._frozen) != len(self._subjects):
            self._frozen = tuple(self._subjects)
        return self._frozen


@dataclass(slots=True)
class _Units:
    count: int
    bound: float
    columns: NDArray[float64]


class Gathered(Protocol):
    """A value collected during a step or an evaluation, which is converted to numbers at its end."""

    def settle(self, buffer: StepBuffer, *, training: bool) -> None:
        """Write the numbers to `buffer`, or pass it a function that will: `StepBuffer.defer`."""


@dataclass(slots=True)
class StepBuffer:
    """The data collected in one step; rows are allocated on first use.

    Attributes:
        exponents: (capacity, EXPONENT_BINS) once a histogram was requested, else None.
        scalars: Plain numbers.
        tensors: Whole tensors.
        losses: Path to the sum of a loss over the micro-batches of this step, and their number.
        deferred: Pending transfers from a device, see `defer`.
        gathered: Values that are converted to numbers at the end of the step.
        prefix: Prefix of loss paths in an evaluation whose data rules do not compare with training. Only its losses,
            the modes of its layers, repeated training samples and the probe are recorded.
    """

    exponents: NDArray[int64] | None = None
    scalars: dict[Key, float] = field(default_factory=dict)
    tensors: dict[Key, RawTensor] = field(default_factory=dict)
    losses: dict[str, tuple[float, int]] = field(default_factory=dict)
    deferred: list[Callable[[StepBuffer], None]] = field(default_factory=list)
    gathered: dict[str, Gathered] = field(default_factory=dict)
    prefix: str = ""
    _moments: NDArray[float64] | None = None
    _units: dict[int, _Units] = field(default_factory=dict)

    def defer(self, merge_in: Callable[[StepBuffer], None]) -> None:
        """Merge data in transfer from a device later: `merge_in` is called once, with this buffer.

        The writer's thread calls it; or this one after a thousand more were added (as in a long evaluation): by then
        the data have arrived, so nothing blocks, and the number of pending transfers is bounded.
        """
        self.deferred.append(merge_in)
        if len(self.deferred) >= 2 * _MOST_DEFERRED:
            arrived, self.deferred = self.deferred[:_MOST_DEFERRED], self.deferred[_MOST_DEFERRED:]
            for earlier in arrived:
                earlier(self)

    @property
    def moments(self) -> NDArray[float64]:
        """(capacity, len(MOMENT_FIELDS)), rows in the state that merging starts from."""
        if self._moments is None:
            self._moments = identity_rows(_FIRST_ROWS)
        return self._moments

    def reserve(self, rows: int, *, histogram: bool) -> None:
        """Allocate rows 0 to `rows` - 1, with histograms if requested."""
        capacity = len(self.moments)
        if rows > capacity:
            more = max(rows, 2 * capacity) - capacity
            self._moments = np.concatenate([self.moments, identity_rows(more)])
            capacity += more
        if histogram and self.exponents is None:
            self.exponents = np.zeros((capacity, EXPONENT_BINS), np.int64)
        elif self.exponents is not None and len(self.exponents) < capacity:
            extra = np.zeros((capacity - len(self.exponents), EXPONENT_BINS), np.int64)
            self.exponents = np.concatenate([self.exponents, extra])

    def unit_columns(self, row: int, units: int, count: int, bound: float) -> NDArray[float64]:
        """Return the (units, len(UNIT_FIELDS)) array for merging `count` more elements per unit.

        If the number of units of a layer changes within a step, the array is reset, because units of different shapes
        do not merge.
        """
        known = self._units.get(row)
        if known is None or len(known.columns) != units:
            columns = np.zeros((units, len(UNIT_FIELDS)))
            columns[:, UNIT_FIELDS.index("min")] = np.inf
            columns[:, UNIT_FIELDS.index("max")] = -np.inf
            known = self._units[row] = _Units(0, bound, columns)
        known.count += count
        return known.columns

    def begin_units(self, row: int, other: StepBuffer) -> None:
        """Initialize the units of a row with a copy of those in another buffer; once per row."""
        known = other._units.get(row)
        if known is not None and row not in self._units:
            self._units[row] = _Units(known.count, known.bound, known.columns.copy())

    def replace_units(self, other: StepBuffer) -> None:
        """Replace units by those of another buffer, row by row."""
        self._units.update(other._units)

    def settle(self, *, training: bool) -> None:
        """Convert all gathered values to numbers, at the end."""
        gathered, self.gathered = self.gathered, {}
        for item in gathered.values():
            item.settle(self, training=training)

    @property
    def empty(self) -> bool:
        """Whether the buffer is empty."""
        return self.light and not (self.scalars or self.losses or self.gathered)

    @property
    def light(self) -> bool:
        """Whether there are only plain numbers, and none is in transfer."""
        return self._moments is None and not (self.tensors or self.deferred)

    @property
    def holds_numbers_alone(self) -> bool:
        """Whether there are only losses and other plain numbers, and none is in transfer."""
        return self.light and not self.gathered

    def numbers(self) -> dict[Key, float]:
        """Return the plain numbers; losses as means over the micro-batches."""
        losses = {Key(Kind.LOSS, self.prefix + path): total / count for path, (total, count) in self.losses.items()}
        kept = self.scalars if not self.prefix else {
            key: value for key, value in self.scalars.items() if self._is_kept(key.path.partition("[")[0])}
        return {**kept, **losses}

    def _is_kept(self, path: str) -> bool:
        # If the evaluation data are known training samples, repeated samples are no leak.
        return path in _OF_ANY_PASS or (path in _OF_SAMPLES and not self.prefix.startswith("train"))

    def records(self, step: Step, subjects: tuple[Subject, ...]) -> StepRecords:
        """Return the collected data as the records of `step`; the buffer must not be used again.

        Args:
            step: The step.
            subjects: Subjects of the rows at the end of the step.
        """
        for merge_in in self.deferred:
            merge_in(self)
        if self.prefix:
            return StepRecords(step=step, subjects=subjects, moments=identity_rows(len(subjects)), exponents=None,
                               units={}, scalars=self.numbers(),
                               tensors={key: item for key, item in self.tensors.items() if key.kind is Kind.CUSTOM})
        self.reserve(len(subjects), histogram=False)
        return StepRecords(
            step=step,
            subjects=subjects,
            moments=self.moments[: len(subjects)],
            exponents=None if self.exponents is None else self.exponents[: len(subjects)],
            units={row: UnitSummaries(item.count, item.columns, item.bound) for row, item in self._units.items()},
            scalars=self.numbers(),
            tensors=self.tensors,
        )

    @property
    def size_bytes(self) -> int:
        """Memory of the collected rows."""
        rows = sum(array.nbytes for array in (self._moments, self.exponents) if array is not None)
        units = sum(item.columns.nbytes for item in self._units.values())
        waiting = _DEFERRED_BYTES * len(self.deferred)
        return rows + units + waiting + sum(len(tensor.data) for tensor in self.tensors.values())


@dataclass(frozen=True, slots=True)
class PendingStep:
    """A step with numbers in transfer; the writer thread waits for them, training does not.

    Attributes:
        buffer: Collected data.
        step: The step.
        subjects: Subjects of the rows.
    """

    buffer: StepBuffer
    step: Step
    subjects: tuple[Subject, ...]

    @property
    def size_bytes(self) -> int:
        """Size in memory."""
        return self.buffer.size_bytes

    def resolve(self) -> StepRecords:
        """Return the records, waiting for the device if necessary."""
        return self.buffer.records(self.step, self.subjects)
