"""A metric of several runs as one table with a column per run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from barograph.errors import UnknownKey
from barograph.experiments.curves import Curve, aligned, best_at, curve_of, run_of
from barograph.experiments.item import Item

if TYPE_CHECKING:
    import pandas
    import polars


class Curves(Mapping[str, Curve]):
    """Curves of a metric by run name.

    Args:
        metric: Name of the metric.
        along: The axis, one of `ALIGNMENTS`.
        curves: Curves by run name.
        without: Names of the runs without the metric.
    """

    def __init__(self, metric: str, along: str, curves: Mapping[str, Curve], without: Sequence[str] = ()) -> None:
        self.metric = metric
        self.along = along
        self.without = tuple(without)
        self._curves = dict(curves)

    def __getitem__(self, name: str) -> Curve:
        return self._curves[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._curves)

    def __len__(self) -> int:
        return len(self._curves)

    def __repr__(self) -> str:
        return f"Curves({self.metric} of {len(self)} runs by {self.along})"

    def best_at(self, at: Sequence[float], *, greater_is_better: bool) -> dict[str, list[float]]:
        """Return the best value that each curve had reached at these places; NaN before its first point."""
        return {name: best_at(curve, at, greater_is_better=greater_is_better) for name, curve in self.items()}

    def to_arrow(self) -> pa.Table:
        """Return a table with a row per place and a column per run; NaN marks missing values."""
        columns = aligned(self._curves)
        return pa.table({self.along: columns.pop("at"), **columns})

    def to_pandas(self) -> pandas.DataFrame:
        """Return `to_arrow` as a pandas data frame, with the places as index."""
        return self.to_arrow().to_pandas().set_index(self.along)

    def to_polars(self) -> polars.DataFrame:
        """Return `to_arrow` as a polars data frame."""
        import polars

        return polars.DataFrame(self.to_arrow())


def curves_of(items: Sequence[Item], metric: str, along: str = "step", *, points: int | None = None) -> Curves:
    """Return a metric of several runs.

    Args:
        items: Items of a catalog; those without the metric or without records are listed in `without`.
        metric, along, points: As in `curve_of`.

    Raises:
        SettingsError: `along` is unknown.
        UnknownKey: None of them has the metric.
    """
    found: dict[str, Curve] = {}
    without, why = [], ""
    for item in items:
        run, curve = run_of(item), None
        try:
            curve = curve_of(run, metric, along, points=points) if run is not None else None
        except UnknownKey as error:
            why = str(error)
        if curve is None or not len(curve.at):
            without.append(item.name)
        else:
            # Two runs may share a name; each gets a column.
            found[item.name if item.name not in found else f"{item.name} ({item.uid})"] = curve
    if not found:
        raise UnknownKey(why or f'None of these recorded a metric "{metric}".')
    return Curves(metric, along, found, without)
