"""Output of `barograph curves`."""

from __future__ import annotations

import csv
import io
import math
import sys
from collections.abc import Mapping, Sequence

import numpy as np

from barograph.cli.experiments.catalog_options import catalog_with
from barograph.cli.opening import run_at
from barograph.cli.printing import Column, Printer
from barograph.errors import SettingsError
from barograph.experiments.curves import ALIGNMENTS, Curve, curves_of_items
from barograph.model.items import ItemKind
from barograph.model.one_line import shown_lines
from barograph.watch.figures import duration, figure

_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 48
_NOT_FINITE = "×"


def print_curves(
    metric: str, names: Sequence[str], root: str | None, *, search: str | None, by: str, as_csv: bool, as_json: bool
) -> None:
    """Print a metric of runs; arguments as in the command.

    Raises:
        UnknownItem: No run has that name.
        UnknownKey: No run has the metric; runs that lack it are listed on standard error.
        SearchError, SettingsError: The search or `by` is invalid.
    """
    if by not in ALIGNMENTS:
        raise SettingsError(f'--by is "{by}"; it must be one of {", ".join(ALIGNMENTS)}.')
    catalog = catalog_with(names, root)
    items = [catalog.item(name, ItemKind.RUN) for name in names]
    if search is not None:
        items += catalog.find(search, kinds=(ItemKind.RUN,))
    found = curves_of_items(items, metric, by, open_run=run_at)
    for sentence in found.missing:
        print(f"barograph: {shown_lines(sentence)}", file=sys.stderr)
    printer = Printer()
    if as_json:
        printer.json(found.to_json())
    elif as_csv:
        sys.stdout.write(csv_of(found.columns(), by))
    else:
        _print(printer, found.curves, by)


def sparkline(values: Sequence[float], width: int = _WIDTH) -> str:
    """Return numbers as bars of eight heights, with a cross for bars that include a non-finite number.

    Example:
        >>> sparkline([0.0, 1.0, 2.0, float("nan"), 7.0])
        '▁▂▃×█'
        >>> sparkline([3.0] * 1000, width=4), sparkline([])
        ('▁▁▁▁', '')
    """
    parts = np.array_split(np.asarray(values, float), min(width, len(values))) if len(values) else []
    known = [value for value in values if math.isfinite(value)]
    low = min(known, default=0.0)
    span = (max(known, default=0.0) - low) or 1.0
    return "".join(_NOT_FINITE if not np.isfinite(part).all() else
                   _BARS[min(int((float(part.mean()) - low) / span * len(_BARS)), len(_BARS) - 1)] for part in parts)


def csv_of(columns: Mapping[str, Sequence[float]], by: str) -> str:
    """Return columns as CSV, with empty cells for missing points.

    Example:
        >>> csv_of({"at": [0.0, 1.0], "a": [0.5, float("nan")]}, "step")
        'step,a\\n0,0.5\\n1,\\n'
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([by, *(name for name in columns if name != "at")])
    for row in zip(*columns.values(), strict=True):
        writer.writerow(["" if math.isnan(value) else repr(value).removesuffix(".0") for value in row])
    return text.getvalue()


def _print(printer: Printer, curves: Mapping[str, Curve], by: str) -> None:
    place = duration if by == "time" else figure
    rows = []
    for name, curve in curves.items():
        finite = curve.values[np.isfinite(curve.values)]
        rows.append([
            name, sparkline(curve.values.tolist()), f"{len(curve.values):,}",
            *(figure(value) for value in (curve.values[0], curve.values[-1])),
            *(figure(float(value)) for value in ((finite.min(), finite.max()) if len(finite) else (math.nan,) * 2)),
            f"{place(float(curve.at[0]))} to {place(float(curve.at[-1]))}",
        ])
    right = ("points", "first", "last", "min", "max")
    printer.table([Column("run"), Column("curve", pipe=False, spare=1), *(Column(title, right=True) for title in right),
                   Column(by)], rows)
