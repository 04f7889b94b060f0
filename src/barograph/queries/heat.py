"""Heat map of a statistic over layers and steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from barograph.errors import UnknownName, nearest
from barograph.model.key import Key, Kind
from barograph.model.plain import plain
from barograph.model.step import Mode
from barograph.runs.format.events import dictionary_column
from barograph.runs.reading.layers import layer_path, layers_in_order
from barograph.runs.reading.reader import RunReader

MOST_COLUMNS = 400
"""Maximum number of columns of a heat map: steps beyond it share one."""

_Sums = Mapping[str, NDArray[np.float64]]
STATISTICS: Mapping[str, Callable[[_Sums], NDArray[np.float64]]] = {
    "norm": lambda sums: np.sqrt(sums["sum_sq"]),
    "mean_abs": lambda sums: sums["sum_abs"] / _finite(sums),
    "rms": lambda sums: np.sqrt(sums["sum_sq"] / _finite(sums)),
    "max_abs": lambda sums: sums["max_abs"],
    "zeros": lambda sums: sums["zeros"] / sums["count"],
    "nonfinite": lambda sums: sums["nan"] + sums["posinf"] + sums["neginf"],
}
"""Statistics of a heat map, from sums over all tensors of a layer at the steps of a column."""
UPDATE_RATIO = "update_ratio"
"""Norm of the update divided by the norm of the weights; of no single kind."""
_COLUMNS = ("count", "nan", "posinf", "neginf", "zeros", "sum_sq", "sum_abs")


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A statistic of each layer over the steps.

    Attributes:
        kind: Kind of the tensors.
        statistic: One of `STATISTICS`, or `UPDATE_RATIO`.
        layers: Paths of the layers, in the order in which they ran.
        steps: First and last recorded step of each column.
        values: For each layer, its value in each column; None where nothing was recorded of it.
        nonfinite: For each layer, the columns in which a tensor of it has NaN or infinities.
    """

    kind: str
    statistic: str
    layers: tuple[str, ...]
    steps: tuple[tuple[int, int], ...]
    values: tuple[tuple[float | None, ...], ...]
    nonfinite: tuple[tuple[int, ...], ...]

    def to_json(self) -> dict[str, Any]:
        """Return strict JSON data."""
        data: dict[str, Any] = plain(self)
        return data


def heat_map(run: RunReader, kind: Kind, statistic: str = "norm", *, columns: int = MOST_COLUMNS) -> HeatMap:
    """Return the heat map of a kind of tensors in training steps.

    Args:
        run: The run.
        kind: One of `LAYER_KINDS`.
        statistic: One of `STATISTICS`, or `UPDATE_RATIO`, for which the kind does not matter.
        columns: Maximum number of columns.

    Raises:
        UnknownName: There is no such statistic.
        StoreError: The store cannot be read.
    """
    if statistic not in STATISTICS and statistic != UPDATE_RATIO:
        raise UnknownName(f'A heat map has no "{statistic}". {nearest(statistic, (*STATISTICS, UPDATE_RATIO))}')
    kind = Kind.UPDATE if statistic == UPDATE_RATIO else kind
    layers = run.once("layers in order", lambda: layers_in_order(run))
    cells = _cells(run, kind, layers)
    if not len(cells.steps):
        return HeatMap(kind.value, statistic, (), (), (), ())
    if statistic == UPDATE_RATIO:
        values = _ratios(cells, _cells(run, Kind.WEIGHT, layers))
    else:
        with np.errstate(invalid="ignore", divide="ignore"):
            values = np.where(cells.sums["count"] > 0, STATISTICS[statistic](cells.sums), np.nan)
    broken = cells.sums["nan"] + cells.sums["posinf"] + cells.sums["neginf"] > 0
    # As many recorded steps to each column, as they are not evenly spaced under a budget. A column shows the greatest
    # value, so that no spike is lost.
    steps = cells.steps
    edges = np.linspace(0, len(steps), min(columns, len(steps)) + 1).astype(int)[:-1]
    lasts = np.append(edges[1:], len(steps)) - 1
    seen = np.logical_or.reduceat(cells.sums["count"] > 0, edges, axis=1)
    values, broken = np.fmax.reduceat(values, edges, axis=1), np.logical_or.reduceat(broken, edges, axis=1)
    shown = [number for number in range(len(layers)) if seen[number].any()]
    return HeatMap(
        kind.value, statistic, tuple(layers[number] for number in shown),
        tuple(zip(steps[edges].tolist(), steps[lasts].tolist(), strict=True)),
        tuple(tuple(None if np.isnan(value) else float(value) for value in values[number]) for number in shown),
        tuple(tuple(np.flatnonzero(broken[number]).tolist()) for number in shown),
    )


@dataclass(frozen=True, slots=True)
class _Cells:
    """Sums over the tensors of each layer at each recorded step; a row per layer, a column per step."""

    steps: NDArray[np.int64]
    sums: dict[str, NDArray[np.float64]]


def _cells(run: RunReader, kind: Kind, layers: Sequence[str]) -> _Cells:
    table = run.arrow(kind, mode=Mode.TRAIN, columns=("path", "step", "min", "max", *_COLUMNS))
    paths = dictionary_column(table, "path")
    place = {path: number for number, path in enumerate(layers)}
    row = np.array([place.get(layer_path(Key(kind, path)) or "", -1) for path in paths.texts], np.int64)[paths.codes]
    # Plain numbers have no count.
    kept = np.flatnonzero((row >= 0) & table["count"].is_valid().to_numpy())
    row, row_steps = row[kept], table["step"].to_numpy()[kept]
    of_row = {name: table[name].to_numpy()[kept].astype(np.float64) for name in ("min", "max", *_COLUMNS)}
    steps = np.unique(row_steps)
    shape = (len(layers), len(steps))
    cell = row * len(steps) + np.searchsorted(steps, row_steps)
    sums = {name: np.bincount(cell, of_row[name], shape[0] * shape[1]).astype(np.float64).reshape(shape)
            for name in _COLUMNS}
    largest = np.full(shape[0] * shape[1], np.nan)
    np.fmax.at(largest, cell, np.where(_finite(of_row) > 0, np.maximum(np.abs(of_row["min"]), np.abs(of_row["max"])),
                                       np.nan))
    return _Cells(steps, {**sums, "max_abs": largest.reshape(shape)})


def _ratios(updates: _Cells, weights: _Cells) -> NDArray[np.float64]:
    """Return the norm of each update divided by that of the weights at the same step; NaN where one is missing."""
    ratios = np.full(updates.sums["count"].shape, np.nan)
    steps, at, among = np.intersect1d(updates.steps, weights.steps, return_indices=True)
    if len(steps):
        update, weight = updates.sums["sum_sq"][:, at], weights.sums["sum_sq"][:, among]
        there = (updates.sums["count"][:, at] > 0) & (weights.sums["count"][:, among] > 0)
        with np.errstate(invalid="ignore", divide="ignore"):
            ratios[:, at] = np.where(there & (weight > 0), np.sqrt(update / weight), np.nan)
    return ratios


def _finite(sums: _Sums) -> NDArray[np.float64]:
    return sums["count"] - sums["nan"] - sums["posinf"] - sums["neginf"]
