"""Statistics of many tensors at once, read from the columns of a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from barograph.model.key import Key, Kind
from barograph.model.records import Subject
from barograph.model.summary import MOMENT_FIELDS
from barograph.rules.once import once, once_a_view
from barograph.rules.step_groups import (
    MOST_STEPS,
    MOST_TENSORS,
    WITH_NUMBERS,
    Extent,
    Flags,
    LayerGroup,
    Numbers,
    Spread,
    StepGroup,
    moments_of_number,
    subjects_of,
)
from barograph.runs.reading.view import StepView

_COUNT = MOMENT_FIELDS.index("count")

TOTAL_LOSS = Key(Kind.LOSS, "total")
"""The loss that `backward` starts from."""

GRADIENTS = frozenset({Kind.GRADIENT, Kind.GRADIENT_CLIPPED})
"""Gradients before and after clipping; the latter exist only if the script clips."""


@dataclass(frozen=True, slots=True)
class Table:
    """Statistics of the tensors of one kind in one step, a row each.

    Values are computed once, for several steps together: see `StepGroup`. They are read-only.

    Attributes:
        group: The tensors, in this step and others.
        line: Index of this step in the group.
    """

    group: StepGroup
    line: int = 0

    def __len__(self) -> int:
        return len(self.group.subjects)

    @property
    def subjects(self) -> tuple[Subject, ...]:
        """Subject of each row."""
        return self.group.subjects

    @property
    def moments(self) -> Numbers:
        """Shape (rows, 10), columns as in `MOMENT_FIELDS`."""
        return self.group.columns[:, self.line].T

    def column(self, name: str) -> Numbers:
        """Return one column of `MOMENT_FIELDS`."""
        return np.asarray(self.group.column(name)[self.line])

    @property
    def infinite(self) -> Numbers:
        """Elements that are +inf or -inf."""
        return np.asarray(self.group.infinite[self.line])

    @property
    def finite(self) -> Numbers:
        """Elements that are neither NaN nor infinite."""
        return np.asarray(self.group.finite[self.line])

    @property
    def whole(self) -> Flags:
        """Whether each row is free of NaN and infinities."""
        return np.asarray(self.group.whole[self.line])

    @property
    def is_whole(self) -> bool:
        """Whether all rows are free of NaN and infinities."""
        return self.group.is_whole[self.line]

    @property
    def has_nan(self) -> bool:
        """Whether any row holds NaN."""
        return self.group.has_nan[self.line]

    @property
    def mean_abs(self) -> Numbers:
        """Mean magnitude of the finite elements; NaN if there are none."""
        return np.asarray(self.group.mean_abs[self.line])

    @property
    def l2(self) -> Numbers:
        """Euclidean norm of the finite elements of each row."""
        return np.asarray(self.group.l2[self.line])

    @property
    def largest_l2(self) -> float:
        """Greatest Euclidean norm of any row."""
        return self.group.largest_l2[self.line]

    @property
    def has_zeros(self) -> bool:
        """Whether all finite elements of any row are zero."""
        return self.group.has_zeros[self.line]

    @property
    def largest_sparsity(self) -> float:
        """Greatest share of zeros in any row."""
        return self.group.largest_sparsity[self.line]

    @property
    def variances(self) -> Extent:
        """Number of finite rows with more than one element, and their least and greatest variance."""
        return self.group.variances[self.line]

    @property
    def norm(self) -> float:
        """Euclidean norm of the finite elements of all rows together."""
        return self.group.norm[self.line]

    @property
    def variance(self) -> Numbers:
        """Population variance of the finite elements; NaN if there are none. See `Summary.variance`."""
        return np.asarray(self.group.variance[self.line])

    @property
    def max_abs(self) -> Numbers:
        """Largest magnitude of the finite elements; NaN if there are none."""
        return np.asarray(self.group.max_abs[self.line])

    @property
    def signatures(self) -> NDArray[np.uint64]:
        """One number for each row that identifies its moments: see `StepGroup.signatures`."""
        return np.asarray(self.group.signatures[self.line])

    @property
    def paths(self) -> tuple[str, ...]:
        """Path of each row."""
        return _paths(self.subjects)

    @property
    def dtypes(self) -> NDArray[np.str_]:
        """Type of each row's elements."""
        return _dtypes(self.subjects)

    @property
    def classes(self) -> NDArray[np.str_]:
        """Class of each row's module."""
        return _classes(self.subjects)

    @property
    def layers(self) -> LayerTable:
        """Parameters grouped by module; see `layers_of`."""
        return LayerTable(self.group.layers, self.line)


@dataclass(frozen=True, slots=True)
class LayerTable:
    """Parameters of one kind grouped by module, in order of first appearance.

    Attributes:
        group: The modules, in this step and others.
        line: Index of this step in the group.
    """

    group: LayerGroup
    line: int

    def __len__(self) -> int:
        return len(self.group.paths)

    @property
    def paths(self) -> tuple[str, ...]:
        """Path of each module."""
        return self.group.paths

    @property
    def classes(self) -> tuple[str, ...]:
        """Class of each module."""
        return self.group.classes

    @property
    def keys(self) -> tuple[Key, ...]:
        """Key of each module's weight, or of its first parameter."""
        return self.group.keys

    def column(self, name: str) -> Numbers:
        """Return one column of `MOMENT_FIELDS`, summed over each module's parameters (not valid for extremes)."""
        return np.asarray(self.group.column(name)[self.line])

    @property
    def whole(self) -> Flags:
        """Whether each module is free of NaN and infinities."""
        return np.asarray(self.group.whole[self.line])

    @property
    def l2(self) -> Numbers:
        """Euclidean norm of all parameters of a module."""
        return np.asarray(self.group.l2[self.line])

    @property
    def mean_abs_nonzero(self) -> Numbers:
        """Mean magnitude of the nonzero elements; 0 if there are none."""
        return np.asarray(self.group.mean_abs_nonzero[self.line])

    @property
    def carrying(self) -> Flags:
        """Whether each module should pass a gradient on, and has one."""
        return np.asarray(self.group.carrying[self.line])

    @property
    def carrying_count(self) -> int:
        """Number of modules that should pass a gradient on, and have one."""
        return self.group.carrying_count[self.line]

    def named(self, row: int) -> str:
        """Return path and class of a module, for messages."""
        return f'"{self.paths[row]}"' + (f" ({self.classes[row]})" if self.classes[row] else "")


def layers_of(table: Table) -> LayerTable:
    """Return the rows of a table of parameters grouped by module.

    Example:
        >>> from barograph.model.summary import Summary
        >>> weight, bias = Key(Kind.WEIGHT, "fc.weight"), Key(Kind.WEIGHT, "fc.bias")
        >>> view = StepView.of(0, {weight: Summary(count=8, sum_sq=7.0), bias: Summary(count=2, sum_sq=2.0)})
        >>> layers = layers_of(table_of(view, Kind.WEIGHT))
        >>> layers.paths, layers.l2.tolist()
        (('fc',), [3.0])
    """
    return table.layers


def table_of_rows(subjects: tuple[Subject, ...], moments: Numbers) -> Table:
    """Return the table of these tensors.

    Args:
        subjects: Subject of each row.
        moments: Shape (rows, 10), as in `MOMENT_FIELDS`.
    """
    return Table(StepGroup(subjects, np.ascontiguousarray(moments.T)[:, np.newaxis]))


@once
def _paths(subjects: tuple[Subject, ...]) -> tuple[str, ...]:
    return tuple(subject.key.path for subject in subjects)


@once
def _dtypes(subjects: tuple[Subject, ...]) -> NDArray[np.str_]:
    return np.array([subject.dtype for subject in subjects], np.str_)


@once
def _classes(subjects: tuple[Subject, ...]) -> NDArray[np.str_]:
    return np.array([subject.layer for subject in subjects], np.str_)


def lay_out(views: Sequence[StepView]) -> None:
    """Lay steps out together, so that statistics are computed for all of them at once.

    Only the last layout is kept; any other step is laid out alone on access.

    Args:
        views: Steps with the same subjects. Empty: the layout is dropped.
    """
    global _laid_out, _tables
    _laid_out = Spread(views) if views else None
    _tables = None, {}


def fit_together(views: Sequence[StepView]) -> int:
    """Return how many of these steps, counted from the first, can be laid out together."""
    table = views[0].merged().table
    at_most = min(MOST_STEPS, max(1, MOST_TENSORS // max(1, len(table.subjects))))
    count = 1
    while count < min(at_most, len(views)) and views[count].merged().table is table:
        count += 1
    return count


_laid_out: Spread | None = None


_tables: tuple[StepView | None, dict[Kind, Table]] = None, {}


def table_of(view: StepView, kind: Kind) -> Table:
    """Return the tensors of a kind with at least one element in this step.

    Plain numbers, such as losses, are tensors of one element.
    """
    global _tables
    # One tuple, assigned atomically: see `once_a_view`.
    seen, tables = _tables
    if seen is not view:
        _tables = view, (tables := {})
    found = tables.get(kind)
    if found is None:
        found = tables[kind] = _table_of(view, kind)
    return found


def _table_of(view: StepView, kind: Kind) -> Table:
    if kind not in view.kinds:
        return _EMPTY
    # Read once: another thread may lay out its own steps meanwhile.
    spread = _laid_out
    line = spread.line_of(view) if spread is not None else None
    group = spread.group(kind) if spread is not None and line is not None else None
    if group is not None and line is not None:
        return Table(group, line)
    return _single(view, kind)


def _single(view: StepView, kind: Kind) -> Table:
    columns = view.columns(kind, histograms=False)
    subjects, moments = columns.subjects, columns.moments
    if not moments[:, _COUNT].all():
        seen = moments[:, _COUNT] > 0
        subjects = tuple(subject for subject, is_seen in zip(subjects, seen, strict=True) if is_seen)
        moments = moments[seen]
    if kind not in WITH_NUMBERS:
        return table_of_rows(subjects, moments)
    known = {subject.key for subject in subjects}
    numbers = [(key, value) for key, value in view.numbers(kind) if key not in known]
    if not numbers:
        return table_of_rows(subjects, moments)
    rows = np.array([moments_of_number(value) for _, value in numbers])
    others = subjects_of(tuple(key for key, _ in numbers))
    return table_of_rows((*subjects, *others) if subjects else others, np.concatenate([moments, rows]))


_EMPTY = Table(StepGroup((), np.zeros((len(MOMENT_FIELDS), 1, 0))))


@once_a_view
def learning_rate(view: StepView) -> float | None:
    """Return the highest learning rate of the step's parameter groups; None if none was recorded."""
    rates = view.scalars(Kind.LEARNING_RATE)
    return max(rates.values()) if rates else None


@once_a_view
def stated_loss(view: StepView) -> tuple[Key, float] | None:
    """Return the step's main loss: the one that `backward` started from, else the first by name.

    None if no loss was recorded.
    """
    losses = view.scalars(Kind.LOSS)
    if not losses:
        return None
    key = TOTAL_LOSS if TOTAL_LOSS in losses else min(losses)
    return key, losses[key]


def silent_layer(view: StepView) -> str:
    """Return the first layer before the last whose outputs are all zero or negative, quoted; "" for none.

    A ReLU after it passes only zeros, so nothing before it learns.
    """
    outputs = table_of(view, Kind.OUTPUT)
    whole, greatest = outputs.whole, outputs.column("max")
    for row in range(len(outputs) - 1):
        layer = outputs.subjects[row].layer
        if whole[row] and greatest[row] <= 0 and not layer.startswith(("LogSoftmax", "LogSigmoid", "Dropout")):
            return f'"{outputs.subjects[row].key.path}"'
    return ""
