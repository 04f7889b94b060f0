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
from barograph.rules.step_groups import Numbers
from barograph.runs.reading.view import StepView

Value = TypeVar("Value", float, Numbers)

LARGE_INPUT = 10.0
"""Root mean square from which inputs are far from unit variance."""

_LOWEST = {"tanh": -1.0, "hardtanh": -1.0, "softsign": -1.0, "sigmoid": 0.0, "hardsigmoid": 0.0}
"""The lower bound of each saturating activation; the upper one is 1."""
_SQUASHING = (*_LOWEST, "logsigmoid")
_FLAT = 0.3
"""Share of the largest derivative below which an activation is, on average, saturated."""
_SCALED_INSIDE = 3e-3
"""With any usual initialization, a first layer's output has at least a tenth of its input's mean square."""
_PASSING = ("Flatten", "Unflatten", "Identity", "Dropout")
_BYTES = ("uint8", "int8")


class Between(NamedTuple):
    """The squashing activations between layers, which shrink gradients.

    Attributes:
        made_of: Count by class.
        flat: Whether the first one is saturated, without a normalization before it.
    """

    made_of: dict[str, int]
    flat: bool


def between_layers(view: StepView) -> Between:
    """Return the squashing activations of a model except its last layer.

    Functional activations show in the inputs of the layers after them.
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
    """Return whether a normalization ran before a module, according to the recorded outputs."""
    for subject in table_of(view, Kind.OUTPUT).subjects:
        if subject.key.path == path:
            return False
        if "Norm" in subject.layer:
            return True
    return False


def mean_derivative(layer: str, mean: Value, mean_square: Value) -> Value:
    """Return the mean derivative of a bounded activation, from mean and mean square of its outputs.

    Exact for tanh, 1 − y², and the sigmoid, y − y²; for others with these bounds it is also 0 at saturation.

    Example:
        >>> mean_derivative("Tanh", 0.0, 0.25), mean_derivative("sigmoid", 0.5, 0.5)
        (0.75, 0.0)
    """
    lowest = _LOWEST[layer.lower()]
    return mean * (1 + lowest) - mean_square - lowest


def openness(layer: str, mean: float, mean_square: float) -> float:
    """Return `mean_derivative` relative to its maximum; 1 for an unbounded activation.

    Example:
        >>> openness("Tanh", 0.0, 1.0), openness("Sigmoid", 0.5, 0.25), openness("ReLU", 3.0, 10.0)
        (0.0, 1.0, 1.0)
    """
    lowest = _LOWEST.get(layer.lower())
    return 1.0 if lowest is None else mean_derivative(layer, mean, mean_square) / ((1 - lowest) / 2) ** 2


def size_of_inputs(view: StepView) -> float | None:
    """Return the root mean square of the model's largest input.

    Returns:
        0 if the model scales its inputs itself, and for integers (token ids, categories), whose size means nothing,
        except raw bytes. None if inputs or layer outputs were not recorded.

    Example:
        >>> from barograph.model.key import Key
        >>> from barograph.model.summary import Summary
        >>> fed, fc = Key(Kind.BATCH, "model[0]"), Key(Kind.OUTPUT, "fc")
        >>> size_of_inputs(StepView.of(0, {fed: Summary(count=4, sum_sq=400.0), fc: Summary(count=1, sum_sq=9.0)}))
        10.0
    """
    first = first_output(view)
    if Kind.BATCH not in view.kinds or first is None:
        return None
    batch = table_of(view, Kind.BATCH)
    sized = [not subject.dtype or "float" in subject.dtype or subject.dtype in _BYTES for subject in batch.subjects]
    square = float((batch.column("sum_sq") / np.maximum(batch.finite, 1.0))[sized].max(initial=0.0))
    return 0.0 if is_scaled_inside(first, square) else math.sqrt(square)


def first_output(view: StepView) -> list[Any] | None:
    """Return class, output mean and output mean square of the first layer; None if unknown."""
    table = table_of(view, Kind.OUTPUT)
    for row, subject in enumerate(table.subjects):
        if not subject.layer.startswith(_PASSING):
            return [subject.layer, *_means_of(table, row)]
    return None


def normalises_first(view: StepView) -> bool:
    """Return whether one of the first two layers normalizes, which removes the scale of the input."""
    ran = [subject.layer for subject in table_of(view, Kind.OUTPUT).subjects if not subject.layer.startswith(_PASSING)]
    return any("Norm" in layer for layer in ran[:2])


def is_scaled_inside(first: list[Any], square: float) -> bool:
    """Return whether a model scales its inputs itself: it normalizes, embeds or divides them.

    Args:
        first: Result of `first_output`. A division before the first layer shows in a small output, or, if the output
            is bounded, in one below saturation.
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
