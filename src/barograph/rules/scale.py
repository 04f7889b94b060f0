"""How large what a model is fed is, and whether that drives its activations to where they are flat."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any, NamedTuple, TypeVar

import numpy as np

from barograph.model.key import Kind
from barograph.model.records import Subject
from barograph.rules.columns import Table, table_of
from barograph.rules.once import once
from barograph.rules.sheets import Numbers
from barograph.runs.reading.view import StepView

Value = TypeVar("Value", float, Numbers)

LARGE_INPUT = 10.0
"""Root mean square of inputs from which on they are far from unit variance."""

_LOWEST = {"tanh": -1.0, "hardtanh": -1.0, "softsign": -1.0, "sigmoid": 0.0, "hardsigmoid": 0.0}
"""The lower bound of each activation that is flat where what reaches it is large; the upper one is 1."""
_SQUASHING = (*_LOWEST, "logsigmoid")
_FLAT = 0.3
"""Share of what the derivative is in the middle below which, on average, an activation lets next to nothing through."""
_SCALED_INSIDE = 3e-3
"""A first layer at any usual beginning answers with at least a tenth of the mean square of what it is fed."""
_PASSING = ("Flatten", "Unflatten", "Identity", "Dropout")
_BYTES = ("uint8", "int8")


class Between(NamedTuple):
    """The activations between layers that shrink what comes back through them.

    Attributes:
        made_of: How many of each class there are.
        flat: Whether the first of them is where it is flat, and nothing before it normalises.
    """

    made_of: dict[str, int]
    flat: bool


def between_layers(view: StepView) -> Between:
    """Return the squashing activations of a model but its last layer, which is its answer: none where none were seen.

    Where no layer is one, these are calls of functions, which show by what the layer after them is fed.
    """
    table = table_of(view, Kind.OUTPUT)
    rows = _modules_that_squash(table.subjects)
    if not rows:
        table = table_of(view, Kind.INPUT)
        rows = _fed_by_functions_that_squash(table.subjects)
    if not rows:
        return Between({}, flat=False)
    first = table.subjects[rows[0]]
    flat = openness(first.layer, *_means_of(table, rows[0])) < _FLAT
    return Between(dict(Counter(table.subjects[row].layer for row in rows)),
                   flat and not is_normalised_before(view, first.key.path))


def is_normalised_before(view: StepView, path: str) -> bool:
    """Return whether a normalisation ran before a module, as far as outputs were recorded."""
    for subject in table_of(view, Kind.OUTPUT).subjects:
        if subject.key.path == path:
            return False
        if "Norm" in subject.layer:
            return True
    return False


def mean_derivative(layer: str, mean: Value, mean_square: Value) -> Value:
    """Return the mean derivative of an activation with bounds, of mean and mean square of its answers.

    Exact for tanh, 1 − y², and the sigmoid, y − y²; for others with these bounds it is 0 where they are flat, too.

    Example:
        >>> mean_derivative("Tanh", 0.0, 0.25), mean_derivative("sigmoid", 0.5, 0.5)
        (0.75, 0.0)
    """
    lowest = _LOWEST[layer.lower()]
    return mean * (1 + lowest) - mean_square - lowest


def openness(layer: str, mean: float, mean_square: float) -> float:
    """Return `mean_derivative` beside the greatest it can be; 1 of an activation without bounds.

    Example:
        >>> openness("Tanh", 0.0, 1.0), openness("Sigmoid", 0.5, 0.25), openness("ReLU", 3.0, 10.0)
        (0.0, 1.0, 1.0)
    """
    lowest = _LOWEST.get(layer.lower())
    return 1.0 if lowest is None else mean_derivative(layer, mean, mean_square) / ((1 - lowest) / 2) ** 2


def size_of_inputs(view: StepView) -> float | None:
    """Return the root mean square of what the model was fed, of the largest of its inputs.

    Returns:
        0 where the model brings it to scale by itself, and of whole numbers (token ids, categories), whose size means
        nothing; raw bytes have one. None where this was not recorded, or no answer of a layer was.

    Example:
        >>> from barograph.model.key import Key
        >>> from barograph.model.summary import Summary
        >>> fed, fc = Key(Kind.BATCH, "model[0]"), Key(Kind.OUTPUT, "fc")
        >>> size_of_inputs(StepView.of(0, {fed: Summary(count=4, sum_sq=400.0), fc: Summary(count=1, sum_sq=9.0)}))
        10.0
    """
    first = first_answer(view)
    if Kind.BATCH not in view.kinds or first is None:
        return None
    batch = table_of(view, Kind.BATCH)
    sized = [not subject.dtype or "float" in subject.dtype or subject.dtype in _BYTES for subject in batch.subjects]
    square = float((batch.column("sum_sq") / np.maximum(batch.finite, 1.0))[sized].max(initial=0.0))
    return 0.0 if is_scaled_inside(first, square) else math.sqrt(square)


def first_answer(view: StepView) -> list[Any] | None:
    """Return the class of the first layer that ran, mean and mean square of its answer; None where unknown."""
    table = table_of(view, Kind.OUTPUT)
    for row, subject in enumerate(table.subjects):
        if not subject.layer.startswith(_PASSING):
            return [subject.layer, *_means_of(table, row)]
    return None


def normalises_first(view: StepView) -> bool:
    """Return whether the first layer or the one after it normalises: the scale of the input is lost there."""
    ran = [subject.layer for subject in table_of(view, Kind.OUTPUT).subjects if not subject.layer.startswith(_PASSING)]
    return any("Norm" in layer for layer in ran[:2])


def is_scaled_inside(first: list[Any], square: float) -> bool:
    """Return whether a model brings its inputs to scale by itself: it normalises or embeds them, or divides them.

    Args:
        first: Of its first layer, see `first_answer`. What is divided before it shows by an answer that is small; where
            that has bounds of its own, by one that is not at these.
        square: Mean square of the inputs.
    """
    layer, mean, mean_square = first
    if layer.lower() in _LOWEST:
        return openness(layer, mean, mean_square) >= _FLAT
    return bool(layer.startswith("Embedding") or "Norm" in layer or mean_square < _SCALED_INSIDE * square)


@once
def _modules_that_squash(subjects: tuple[Subject, ...]) -> list[int]:
    return [row for row, subject in enumerate(subjects[:-1]) if subject.layer.lower() in _SQUASHING]


@once
def _fed_by_functions_that_squash(subjects: tuple[Subject, ...]) -> list[int]:
    return [row for row, subject in enumerate(subjects) if subject.layer in ("tanh", "sigmoid")]


def _means_of(table: Table, row: int) -> tuple[float, float]:
    count = max(float(table.finite[row]), 1.0)
    return float(table.column("sum")[row]) / count, float(table.column("sum_sq")[row]) / count
