"""Statistics of many tensors at once, read from the columns of a step."""

from __future__ import annotations

import functools
import math
import typing
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from barograph.model.key import Key, Kind
from barograph.model.records import Subject
from barograph.model.summary import MOMENT_FIELDS
from barograph.runs.view import StepView

_AT = {name: index for index, name in enumerate(MOMENT_FIELDS)}

TOTAL_LOSS = Key(Kind.LOSS, "total")
"""The loss that `backward` starts from."""

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Table:
    """The tensors of one kind that were seen in one step, a row each, with what can be said of them.

    What is made of its columns is made once: many rules ask for the same few things of one step.

    Attributes:
        subjects: What each row is about.
        moments: Shape (rows, 10), as in `MOMENT_FIELDS`.
    """

    subjects: tuple[Subject, ...]
    moments: Numbers

    def __len__(self) -> int:
        return len(self.subjects)

    def column(self, name: str) -> Numbers:
        """Return one column of `MOMENT_FIELDS`."""
        return self.moments[:, _AT[name]]

    @cached_property
    def infinite(self) -> Numbers:
        """Elements that are +inf or -inf."""
        return self.column("posinf") + self.column("neginf")

    @cached_property
    def finite(self) -> Numbers:
        """Elements that are neither NaN nor infinite."""
        return self.column("count") - self.column("nan") - self.infinite

    @cached_property
    def whole(self) -> NDArray[np.bool_]:
        """Which rows hold neither NaN nor infinities."""
        return np.asarray(self.column("nan") + self.infinite == 0, bool)

    @cached_property
    def mean_abs(self) -> Numbers:
        """Mean magnitude of the finite elements; NaN where there is none."""
        return _divided(self.column("sum_abs"), self.finite)

    @cached_property
    def l2(self) -> Numbers:
        """Euclidean norm of the finite elements."""
        return np.sqrt(self.column("sum_sq"))

    @cached_property
    def variance(self) -> Numbers:
        """Population variance of the finite elements; NaN where there is none. See `Summary.variance`."""
        mean_square = _divided(self.column("sum_sq"), self.finite)
        mean = _divided(self.column("sum"), self.finite)
        return np.maximum(0.0, mean_square - mean**2)

    @cached_property
    def max_abs(self) -> Numbers:
        """Largest magnitude among the finite elements; NaN where there is none."""
        largest = np.maximum(np.abs(self.column("min")), np.abs(self.column("max")))
        return np.where(self.finite > 0, largest, np.nan)

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """Path of each row."""
        return _paths(self.subjects)

    @property
    def dtypes(self) -> NDArray[np.str_]:
        """Type of each row's elements."""
        return _dtypes(self.subjects)

    @property
    def classes(self) -> NDArray[np.str_]:
        """Class of the module of each row."""
        return _classes(self.subjects)

    @cached_property
    def layers(self) -> LayerTable:
        """The rows gathered by module, where they are parameters; see `layers_of`."""
        paths, classes, keys, order, starts = _grouping(self.subjects)
        rows = self.moments if order is None else self.moments[order]
        sums = np.add.reduceat(rows, starts, axis=0) if len(starts) else np.zeros((0, len(MOMENT_FIELDS)))
        return LayerTable(paths, classes, keys, sums)


@dataclass(frozen=True)
class LayerTable:
    """The parameters of one kind gathered by the module they belong to, in order of first appearance.

    Attributes:
        paths: Of the modules.
        classes: Of the modules.
        keys: Of the one parameter that stands for each: its weight, else its first.
        sums: Shape (modules, 10): the moments of all parameters of a module, added (extremes: do not use).
    """

    paths: tuple[str, ...]
    classes: tuple[str, ...]
    keys: tuple[Key, ...]
    sums: Numbers

    def __len__(self) -> int:
        return len(self.paths)

    def column(self, name: str) -> Numbers:
        """Return one column of `MOMENT_FIELDS`, added over each module's parameters."""
        return self.sums[:, _AT[name]]

    @cached_property
    def whole(self) -> NDArray[np.bool_]:
        """Which modules hold neither NaN nor infinities."""
        return np.asarray(self.column("nan") + self.column("posinf") + self.column("neginf") == 0, bool)

    @cached_property
    def l2(self) -> Numbers:
        """Euclidean norm of all parameters of a module."""
        return np.sqrt(self.column("sum_sq"))

    @cached_property
    def mean_abs_nonzero(self) -> Numbers:
        """Mean magnitude of the elements that are not zero; 0 where all are.

        Of an embedding or behind a ReLU most of a gradient is zero on purpose.
        """
        nonzero = self.column("count") - self.column("zeros")
        return np.where(nonzero > 0, self.column("sum_abs") / np.maximum(nonzero, 1.0), 0.0)

    def named(self, row: int) -> str:
        """Return a module as a person reads it: path and class."""
        return f'"{self.paths[row]}"' + (f" ({self.classes[row]})" if self.classes[row] else "")


def layers_of(table: Table) -> LayerTable:
    """Return the rows of a table of parameters gathered by module.

    Example:
        >>> from barograph.model.summary import Summary
        >>> weight, bias = Key(Kind.WEIGHT, "fc.weight"), Key(Kind.WEIGHT, "fc.bias")
        >>> view = StepView.of(0, {weight: Summary(count=8, sum_sq=7.0), bias: Summary(count=2, sum_sq=2.0)})
        >>> layers = layers_of(table_of(view, Kind.WEIGHT))
        >>> layers.paths, layers.l2.tolist()
        (('fc',), [3.0])
    """
    return table.layers


Made = TypeVar("Made")
Item = TypeVar("Item")


def once(make: Callable[[tuple[Item, ...]], Made]) -> Callable[[tuple[Item, ...]], Made]:
    """Remember what was made of the last few tuples of subjects, or of their names.

    By identity: steps of one plan share the very tuple, and to walk, or hash, thousands of names at each step
    would be most of the work.
    """
    known: dict[int, tuple[tuple[Item, ...], Made]] = {}

    @functools.wraps(make)
    def remembered(subjects: tuple[Item, ...]) -> Made:
        found = known.get(id(subjects))
        if found is None or found[0] is not subjects:
            if len(known) >= _MOST_REMEMBERED:
                known.clear()
            found = known[id(subjects)] = (subjects, make(subjects))
        return found[1]

    return remembered


_MOST_REMEMBERED = 64


@once
def _paths(subjects: tuple[Subject, ...]) -> tuple[str, ...]:
    return tuple(subject.key.path for subject in subjects)


@once
def _dtypes(subjects: tuple[Subject, ...]) -> NDArray[np.str_]:
    return np.array([subject.dtype for subject in subjects], np.str_)


@once
def _classes(subjects: tuple[Subject, ...]) -> NDArray[np.str_]:
    return np.array([subject.layer for subject in subjects], np.str_)


_Grouping = tuple[tuple[str, ...], tuple[str, ...], tuple[Key, ...], NDArray[np.intp] | None, NDArray[np.intp]]


@once
def _grouping(subjects: tuple[Subject, ...]) -> _Grouping:
    """Return the modules' paths, classes and keys, the rows by module (None: they stand so), and where each begins."""
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


def once_a_view(make: Callable[[StepView], Made]) -> Callable[[StepView], Made]:
    """Remember what was made of the view that was looked at last: every rule looks at the same one.

    What it returns is shared, and not to be written to.
    """
    held: tuple[StepView | None, Made | None] = (None, None)

    @functools.wraps(make)
    def remembered(view: StepView) -> Made:
        nonlocal held
        # One tuple, put in place at once: another thread sees what belongs to its own view, or makes it.
        seen, made = held
        if seen is not view:
            held = (view, made := make(view))
        return typing.cast(Made, made)

    return remembered


@once_a_view
def _tables(_: StepView) -> dict[Kind, Table]:
    return {}


def table_of(view: StepView, kind: Kind) -> Table:
    """Return the tensors of that kind with at least one element seen in this step.

    Plain numbers of the kind (losses, say) are tensors of one element.
    """
    tables = _tables(view)
    found = tables.get(kind)
    if found is None:
        found = tables[kind] = _table_of(view, kind)
    return found


def _table_of(view: StepView, kind: Kind) -> Table:
    columns = view.columns(kind, histograms=False)
    subjects, moments = columns.subjects, columns.moments
    if not moments[:, _AT["count"]].all():
        seen = moments[:, _AT["count"]] > 0
        subjects = tuple(subject for subject, is_seen in zip(subjects, seen, strict=True) if is_seen)
        moments = moments[seen]
    if kind not in _WITH_NUMBERS:
        return Table(subjects, moments)
    known = {subject.key for subject in subjects}
    numbers = {key: value for key, value in view.scalars(kind).items() if key not in known}
    if not numbers:
        return Table(subjects, moments)
    rows = np.array([_moments_of_number(value) for value in numbers.values()])
    return Table((*subjects, *(Subject(key) for key in numbers)), np.concatenate([moments, rows]))


def _moments_of_number(value: float) -> tuple[float, ...]:
    """Return the moments of a tensor of one element, as `moments_of_values` makes them."""
    if math.isfinite(value):
        return 1.0, 0.0, 0.0, 0.0, float(value == 0), value, value, value, value * value, abs(value)
    bad = (float(math.isnan(value)), float(value == math.inf), float(value == -math.inf))
    return 1.0, *bad, 0.0, math.inf, -math.inf, 0.0, 0.0, 0.0


_WITH_NUMBERS = frozenset({Kind.LOSS, Kind.SCALAR, Kind.LEARNING_RATE})


@once_a_view
def learning_rate(view: StepView) -> float | None:
    """Return the greatest learning rate of the step's parameter groups; None where none was recorded."""
    rates = view.scalars(Kind.LEARNING_RATE)
    return max(rates.values()) if rates else None


@once_a_view
def stated_loss(view: StepView) -> tuple[Key, float] | None:
    """Return the loss of the step that stands for all: what `backward` started from, or the only one there is.

    In evaluation nothing is differentiated, so there the first loss by name is taken. None where no loss
    was recorded.
    """
    losses = view.scalars(Kind.LOSS)
    if not losses:
        return None
    key = TOTAL_LOSS if TOTAL_LOSS in losses else min(losses)
    return key, losses[key]


def layer_path(parameter_path: str) -> str:
    """Return the module a parameter belongs to.

    Example:
        >>> layer_path("blocks.0.fc.weight"), layer_path("scale")
        ('blocks.0.fc', '')
    """
    return parameter_path.rpartition(".")[0]


def _divided(above: Numbers, below: Numbers) -> Numbers:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(below > 0, above / below, np.nan)


def silent_layer(view: StepView) -> str:
    """Return the first layer before the last that answers nothing above zero to any sample, quoted; "" for none.

    What a ReLU behind it lets through is zero, so nothing before it learns.
    """
    outputs = table_of(view, Kind.OUTPUT)
    whole, greatest = outputs.whole, outputs.column("max")
    for row in range(len(outputs) - 1):
        layer = outputs.subjects[row].layer
        if whole[row] and greatest[row] <= 0 and not layer.startswith(("LogSoftmax", "LogSigmoid", "Dropout")):
            return f'"{outputs.subjects[row].key.path}"'
    return ""
