"""Heat map of a statistic over layers and steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
    "zeros": lambda sums: sums["zeros"] / sums["count"],
    "nonfinite": lambda sums: sums["nan"] + sums["posinf"] + sums["neginf"],
}
"""What a heat map can show, from sums over all tensors of a layer at the steps of a column."""
_COLUMNS = ("count", "nan", "posinf", "neginf", "zeros", "sum_sq", "sum_abs")


@dataclass(frozen=True, slots=True)
class HeatMap:
    """A statistic of each layer over the steps.

    Attributes:
        kind: Kind of the tensors.
        statistic: One of `STATISTICS`.
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
        statistic: One of `STATISTICS`.
        columns: Maximum number of columns.

    Raises:
        UnknownName: There is no such statistic.
        StoreError: The store cannot be read.
    """
    if statistic not in STATISTICS:
        raise UnknownName(f'A heat map has no "{statistic}". {nearest(statistic, STATISTICS)}')
    table = run.arrow(kind, mode=Mode.TRAIN, columns=("path", "step", *_COLUMNS))
    table = table.filter(table["count"].is_valid()) if len(table) else table
    steps = np.unique(table["step"].to_numpy())
    if not len(steps):
        return HeatMap(kind.value, statistic, (), (), (), ())
    paths = dictionary_column(table, "path")
    layers = layers_in_order(run)
    place = {path: number for number, path in enumerate(layers)}
    row = np.array([place.get(layer_path(Key(kind, path)) or "", -1) for path in paths.texts])[paths.codes]
    shape = (len(layers), len(steps))
    cell = row * len(steps) + np.searchsorted(steps, table["step"].to_numpy())
    sums = {name: np.bincount(cell, table[name].to_numpy().astype(np.float64), shape[0] * shape[1])
            .astype(np.float64).reshape(shape) for name in _COLUMNS}
    with np.errstate(invalid="ignore"):
        values = np.where(sums["count"] > 0, STATISTICS[statistic](sums), np.nan)
    broken = sums["nan"] + sums["posinf"] + sums["neginf"] > 0
    # As many recorded steps to each column, as they are not evenly spaced under a budget. A column shows the greatest
    # value, so that no spike is lost.
    edges = np.linspace(0, len(steps), min(columns, len(steps)) + 1).astype(int)[:-1]
    lasts = np.append(edges[1:], len(steps)) - 1
    values, broken = np.fmax.reduceat(values, edges, axis=1), np.logical_or.reduceat(broken, edges, axis=1)
    shown = [number for number in range(len(layers)) if not np.isnan(values[number]).all()]
    return HeatMap(
        kind.value, statistic, tuple(layers[number] for number in shown),
        tuple(zip(steps[edges].tolist(), steps[lasts].tolist(), strict=True)),
        tuple(tuple(None if np.isnan(value) else float(value) for value in values[number]) for number in shown),
        tuple(tuple(np.flatnonzero(broken[number]).tolist()) for number in shown),
    )


def _finite(sums: _Sums) -> NDArray[np.float64]:
    return sums["count"] - sums["nan"] - sums["posinf"] - sums["neginf"]
