"""Statistics of the tensors of several steps at once; the table of one step is a line of it.

For a step of a thousand tensors, each NumPy call costs as much as its work. So statistics are computed for a few dozen
steps at once if these record the same tensors, as nearly all do.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from barograph.model.key import Key, Kind, layer_path
from barograph.model.records import Subject
from barograph.model.summary import MOMENT_FIELDS
from barograph.rules.once import once
from barograph.rules.packing import packed
from barograph.runs.reading.view import StepView

_AT = {name: index for index, name in enumerate(MOMENT_FIELDS)}

Numbers = NDArray[np.float64]
Flags = NDArray[np.bool_]

MOST_STEPS, MOST_TENSORS = 32, 16_000
"""Largest numbers of steps and tensors per group: more would gain little and cost memory and CPU cache."""


class Extent(NamedTuple):
    """The minimum and maximum of some values.

    Attributes:
        many: Number of values.
        least, greatest: inf and -inf if there are none.
    """

    many: int
    least: float
    greatest: float


class StepGroup:
    """Statistics of the tensors of one kind in several steps, one line per step.

    Statistics are computed once, for all lines, on first access. They are read-only.

    Attributes:
        subjects: Subject of each tensor.
        columns: Shape (10, steps, tensors), in the order of `MOMENT_FIELDS`.
    """

    def __init__(self, subjects: tuple[Subject, ...], columns: Numbers) -> None:
        self.subjects = subjects
        self.columns = columns

    def column(self, name: str) -> Numbers:
        """Return one column of `MOMENT_FIELDS`, shape (steps, tensors)."""
        return np.asarray(self.columns[_AT[name]])

    @cached_property
    def infinite(self) -> Numbers:
        """Elements that are +inf or -inf."""
        return self.column("posinf") + self.column("neginf")

    @cached_property
    def finite(self) -> Numbers:
        """Elements that are neither NaN nor infinite."""
        return self.column("count") - self.column("nan") - self.infinite

    @cached_property
    def whole(self) -> Flags:
        """Which tensors are finite."""
        return np.asarray(self.column("nan") + self.infinite == 0, bool)

    @cached_property
    def is_whole(self) -> list[bool]:
        """Whether all tensors of a step are finite, per step."""
        return _booleans(np.asarray(self.whole.all(axis=1)))

    @cached_property
    def has_nan(self) -> list[bool]:
        """Whether any tensor of a step has NaN, per step."""
        return _booleans(np.asarray((self.column("nan") > 0).any(axis=1)))

    @cached_property
    def mean_abs(self) -> Numbers:
        """Mean magnitude of the finite elements; NaN where there is none."""
        return _divided(self.column("sum_abs"), self.finite)

    @cached_property
    def l2(self) -> Numbers:
        """Euclidean norm of the finite elements."""
        return np.sqrt(self.column("sum_sq"))

    @cached_property
    def largest_l2(self) -> list[float]:
        """Greatest Euclidean norm of any tensor of a step."""
        largest: list[float] = self.l2.max(axis=1, initial=0.0).tolist()
        return largest

    @cached_property
    def has_zeros(self) -> list[bool]:
        """Whether all finite elements of any tensor of a step are zero."""
        return _booleans(np.asarray((self.column("sum_sq") == 0).any(axis=1)))

    @cached_property
    def norm(self) -> list[float]:
        """Euclidean norm of all finite elements of a step together."""
        return [math.sqrt(squares) for squares in self.column("sum_sq").sum(axis=1).tolist()]

    @cached_property
    def variance(self) -> Numbers:
        """Population variance of the finite elements; NaN where there is none. See `Summary.variance`."""
        mean_square = _divided(self.column("sum_sq"), self.finite)
        mean = _divided(self.column("sum"), self.finite)
        return np.maximum(0.0, mean_square - mean**2)

    @cached_property
    def variances(self) -> list[Extent]:
        """Count and variance range of the finite tensors with several elements, per step."""
        several = self.whole & (self.column("count") > 1)
        least = np.where(several, self.variance, np.inf).min(axis=1, initial=np.inf)
        greatest = np.where(several, self.variance, -np.inf).max(axis=1, initial=-np.inf)
        many = several.sum(axis=1)
        return [Extent(*line) for line in zip(many.tolist(), least.tolist(), greatest.tolist(), strict=True)]

    @cached_property
    def largest_sparsity(self) -> list[float]:
        """Greatest share of zeros in any tensor of a step."""
        largest: list[float] = (self.column("zeros") / self.column("count")).max(axis=1, initial=0.0).tolist()
        return largest

    @cached_property
    def max_abs(self) -> Numbers:
        """Largest magnitude among the finite elements; NaN where there is none."""
        largest = np.maximum(np.abs(self.column("min")), np.abs(self.column("max")))
        return np.where(self.finite > 0, largest, np.nan)

    @cached_property
    def signatures(self) -> NDArray[np.uint64]:
        """A hash of each tensor's moments: any changed bit changes it, except with probability 2**-64.

        Example:
            >>> moments = np.array([[1.0] * 10, [1.0] * 10, [1.0] * 9 + [1.0 + 2**-52]])
            >>> one, same, other = StepGroup((), moments.T[:, np.newaxis]).signatures[0]
            >>> bool(one == same), bool(one == other)
            (True, False)
        """
        added = np.zeros(self.columns.shape[1:], np.uint64)
        shifted = np.empty_like(added)
        for column, first, second in zip(self.columns, _MIX, _MIX[::-1], strict=True):
            # Adding 0.0 turns −0.0 into 0.0: equal numbers must have equal bits.
            mixed = (column + 0.0).view(np.uint64)
            mixed ^= np.right_shift(mixed, _LOW, out=shifted)
            mixed *= first
            mixed ^= np.right_shift(mixed, _HALF, out=shifted)
            mixed *= second
            added += mixed
        return added

    @cached_property
    def packed_signatures(self) -> list[str]:
        """The signatures of each step as a string."""
        return [packed(line) for line in self.signatures]

    @cached_property
    def has_repeats(self) -> list[bool]:
        """Whether any tensor has the signature of the previous step, per step; unknown and so True for the first."""
        same = self.signatures[1:] == self.signatures[:-1]
        return [True, *_booleans(np.asarray(same.any(axis=1)))]

    @cached_property
    def layers(self) -> LayerGroup:
        """Parameters grouped by module."""
        return LayerGroup(self)


class LayerGroup:
    """Parameters of one kind grouped by module, in order of first appearance, in several steps.

    Attributes:
        paths: Module paths.
        classes: Module classes.
        keys: Key of one parameter per module: its weight, else its first.
    """

    def __init__(self, group: StepGroup) -> None:
        self.paths, self.classes, self.keys, self._order, self._starts = _grouping(group.subjects)
        self._group = group
        self._columns: dict[str, Numbers] = {}

    def column(self, name: str) -> Numbers:
        """Return one column of `MOMENT_FIELDS`, summed over each module's parameters: shape (steps, modules)."""
        found = self._columns.get(name)
        if found is None:
            found = self._columns[name] = self._added(self._group.column(name))
        return found

    @cached_property
    def whole(self) -> Flags:
        """Which modules are finite."""
        return np.asarray(self._added(self._group.column("nan") + self._group.infinite) == 0, bool)

    @cached_property
    def l2(self) -> Numbers:
        """Euclidean norm of all parameters of a module."""
        return np.sqrt(self.column("sum_sq"))

    @cached_property
    def mean_abs_nonzero(self) -> Numbers:
        """Mean magnitude of the elements that are not zero; 0 where all are.

        In an embedding or after a ReLU most of a gradient is zero by design.
        """
        nonzero = self.column("count") - self.column("zeros")
        return np.where(nonzero > 0, self.column("sum_abs") / np.maximum(nonzero, 1.0), 0.0)

    @cached_property
    def carrying(self) -> Flags:
        """Which modules should have a non-zero gradient (or update) and do."""
        return np.asarray(~_exempt(self.classes) & self.whole & (self.column("sum_sq") > 0), bool)

    @cached_property
    def carrying_count(self) -> list[int]:
        """Number of such modules, per step."""
        counts: list[int] = self.carrying.sum(axis=1).tolist()
        return counts

    def _added(self, column: Numbers) -> Numbers:
        if not len(self._starts):
            return np.zeros((len(column), 0))
        ordered = column if self._order is None else column[:, self._order]
        return np.asarray(np.add.reduceat(ordered, self._starts, axis=1))


class Spread:
    """Groups of several steps that record the same tensors.

    Args:
        views: The steps; they must share one table of subjects.
    """

    def __init__(self, views: Sequence[StepView]) -> None:
        self.views = tuple(views)
        self._rows = [view.merged() for view in views]
        self._line = {id(view): line for line, view in enumerate(views)}
        self._groups: dict[Kind, StepGroup | None] = {}

    def line_of(self, view: StepView) -> int | None:
        """Return the line of a step in the groups, or None."""
        line = self._line.get(id(view))
        return None if line is None or self.views[line] is not view else line

    def group(self, kind: Kind) -> StepGroup | None:
        """Return the tensors of a kind; None if there are none, or if some steps lack some."""
        if kind not in self._groups:
            self._groups[kind] = self._of_statistics(kind)
        return self._groups[kind]

    @cached_property
    def _moments(self) -> Numbers:
        return np.stack([rows.moments for rows in self._rows])

    def _of_statistics(self, kind: Kind) -> StepGroup | None:
        known = self._rows[0].table.rows_of_kind.get(kind)
        if kind in WITH_NUMBERS:
            return None if known is not None else self._of_numbers(kind)
        if known is None:
            return None
        subjects, rows = known
        first, last = int(rows[0]), int(rows[-1])
        # Most kinds are contiguous, and a slice avoids a copy.
        at = slice(first, last + 1) if last - first + 1 == len(rows) else rows
        columns = np.ascontiguousarray(self._moments[:, at].transpose(2, 0, 1))
        return StepGroup(subjects, columns) if columns[_AT["count"]].all() else None

    def _of_numbers(self, kind: Kind) -> StepGroup | None:
        """Return plain numbers as tensors of one element; None if the steps differ in them."""
        numbers = [tuple(view.numbers(kind)) for view in self.views]
        keys = tuple(key for key, _ in numbers[0])
        if not keys or any(tuple([key for key, _ in pairs]) != keys for pairs in numbers):
            return None
        moments = np.array([[moments_of_number(value) for _, value in pairs] for pairs in numbers])
        return StepGroup(subjects_of(keys), np.ascontiguousarray(moments.transpose(2, 0, 1)))


WITH_NUMBERS = frozenset({Kind.LOSS, Kind.SCALAR, Kind.LEARNING_RATE})
"""Kinds whose plain numbers count as tensors of one element."""


@functools.lru_cache(maxsize=256)
def subjects_of(keys: tuple[Key, ...]) -> tuple[Subject, ...]:
    """Return the subjects of plain numbers, cached: see `once`."""
    return tuple(Subject(key) for key in keys)


def moments_of_number(value: float) -> tuple[float, ...]:
    """Return the moments of a tensor of one element, like `moments_of_values`."""
    if math.isfinite(value):
        return 1.0, 0.0, 0.0, 0.0, float(value == 0), value, value, value, value * value, abs(value)
    bad = (float(math.isnan(value)), float(value == math.inf), float(value == -math.inf))
    return 1.0, *bad, 0.0, math.inf, -math.inf, 0.0, 0.0, 0.0


_MIX = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F,
                 0xE7037ED1A0B428DB, 0x8EBC6AF09C88C6E3, 0x589965CC75374CC3, 0x1D8E4E27C47D124F, 0xEB44ACCAB455D165],
                np.uint64)
"""Random odd numbers, one per moment."""
_LOW, _HALF = np.uint64(29), np.uint64(32)


def _booleans(flags: Flags) -> list[bool]:
    booleans: list[bool] = flags.tolist()
    return booleans


def _divided(above: Numbers, below: Numbers) -> Numbers:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(below > 0, above / below, np.nan)


_Grouping = tuple[tuple[str, ...], tuple[str, ...], tuple[Key, ...], NDArray[np.intp] | None, NDArray[np.intp]]


@once
def _grouping(subjects: tuple[Subject, ...]) -> _Grouping:
    """Return the modules' paths, classes and keys, the rows by module (None: already sorted), and each start."""
    first: dict[str, int] = {}
    owner = np.empty(len(subjects), np.intp)
    for row, subject in enumerate(subjects):
        owner[row] = first.setdefault(layer_path(subject.key.path), len(first))
    heads = [subjects[int(row)] for row in np.unique(owner, return_index=True)[1]]
    for row, subject in enumerate(subjects):
        if subject.key.path.endswith(".weight"):
            heads[owner[row]] = subject
    order = np.argsort(owner, kind="stable")
    starts = np.searchsorted(owner[order], np.arange(len(first)))
    in_order = bool((np.diff(owner) >= 0).all())
    return (tuple(first), tuple(item.layer for item in heads), tuple(item.key for item in heads),
            None if in_order else order, starts)


@once
def _exempt(classes: tuple[str, ...]) -> Flags:
    return np.array(["Norm" in item or item.startswith("Embedding") for item in classes], bool)
