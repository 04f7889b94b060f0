"""Exhibits on a page and in a notebook."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from barograph.model.exhibits import (
    ConfusionMatrix,
    Exhibit,
    NotShown,
    Picture,
    PrecisionRecallCurves,
    RocCurves,
    Sheet,
)
from barograph.queries.classes import MOST_CLASSES
from barograph.report.charts import Line, figure_of, line_chart
from barograph.report.markup import Markup, element, joined
from barograph.report.small_charts import matrix
from barograph.report.tables import table
from barograph.watch.figures import figure, share

MOST_PICTURE_BYTES = 4 * 2**20
"""Larger images are listed only, so that the page stays small enough to send."""

MOST_LINES = 16
"""Maximum number of classes in a chart; the table has all."""

_POINTS = 200
_MOST_COLUMNS = 40
_DRAWN = frozenset({"image/png", "image/svg+xml", "image/jpeg", "image/gif", "image/webp"})


def exhibits(shown: Sequence[Exhibit]) -> Markup:
    """Return all exhibits."""
    return element("div", [exhibit(item) for item in shown], class_="charts")


def exhibit(shown: Exhibit) -> Markup:
    """Return one exhibit."""
    return element("div", _DRAWERS[type(shown)](shown))


def roc_chart(title: str, lines: Sequence[Line], rows: Sequence[tuple[str, str, str, str]]) -> Markup:
    """Return a chart of ROC curves with the chance line, and a table of AUC values.

    Args:
        title: Title of the chart.
        lines: The curves, over the false positive rate.
        rows: Name, samples, other samples and AUC of each class.
    """
    return joined(
        line_chart(title, _caption(rows, "area"), [*lines, Line("chance: 0.5", (0.0, 1.0), (0.0, 1.0))],
                   x_title="false positive rate", x_text=percent, y_text=percent, y_range=(0.0, 1.0),
                   log=False, square=True),
        _folded(table("Area under the curve", ("class", "samples", "others", "area"), rows, numbers=3)),
    )


def percent(part: float) -> str:
    """Return a share as a percentage for an axis."""
    return f"{100 * part:.3g}%"


def _confusion(shown: ConfusionMatrix) -> Markup:
    kept = _most_frequent(shown)
    names = [shown.labels[at] for at in kept]
    counts = [[shown.counts[row][column] for column in kept] for row in kept]
    whole = not shown.normalize and all(times.is_integer() for row in shown.counts for times in row)
    text: Callable[[float], str] = "{:.0f}".format if whole else "{:.2g}".format
    caption = "" if math.isnan(shown.accuracy) else f"Accuracy: {share(shown.accuracy)}."
    shares = {"": "", "true": ", shares of the row", "pred": ", shares of the column", "all": ", shares of all"}
    drawing = matrix(f"{shown.title}: targets in rows, predictions in columns{shares.get(shown.normalize, '')}",
                     caption or "Confusion matrix.", names, counts, numbers=True, text=text)
    rows = [(name, *map(text, line)) for name, line in zip(names, counts, strict=True)]
    left_out = len(shown.labels) - len(kept)
    return joined(
        drawing, element("p", caption, class_="note") if caption else None,
        element("p", f"{left_out:,} rarer classes not shown.", class_="note") if left_out else None,
        _folded(table("Targets in rows, predictions in columns", ("target", *names), rows, numbers=len(names))),
    )


def _most_frequent(shown: ConfusionMatrix) -> list[int]:
    """Return the classes to draw: the most frequent targets or predictions, if there are very many."""
    often = [sum(row) + sum(line[at] for line in shown.counts) for at, row in enumerate(shown.counts)]
    return sorted(sorted(range(len(often)), key=lambda at: -often[at])[:MOST_CLASSES])


def _roc(shown: RocCurves) -> Markup:
    lines = [Line(f"{curve.label}: {figure(curve.area)}", *_thinned(curve.false_positives, curve.true_positives))
             for curve in shown.curves[:MOST_LINES]]
    rows = [(curve.label, f"{curve.positives:,.6g}", f"{curve.negatives:,.6g}", figure(curve.area))
            for curve in shown.curves]
    return roc_chart(f"{shown.title}: ROC, with the area under each curve", lines, rows)


def _precision_recall(shown: PrecisionRecallCurves) -> Markup:
    lines = [Line(f"{curve.label}: {figure(curve.average_precision)}", *_thinned(curve.recall, curve.precision))
             for curve in shown.curves[:MOST_LINES]]
    if shown.no_skill is not None:
        lines.append(Line(f"no skill: {figure(shown.no_skill)}", (0.0, 1.0), (shown.no_skill, shown.no_skill)))
    rows = [(curve.label, f"{curve.positives:,.6g}", f"{curve.negatives:,.6g}", figure(curve.average_precision))
            for curve in shown.curves]
    return joined(
        line_chart(f"{shown.title}: precision over recall, with the average precision",
                   _caption(rows, "average precision"), lines, x_title="recall", x_text=percent, y_text=percent,
                   y_range=(0.0, 1.0), log=False, square=True),
        _folded(table("Average precision", ("class", "samples", "others", "average precision"), rows, numbers=3)),
    )


def _sheet(shown: Sheet) -> Markup:
    columns = shown.columns[:_MOST_COLUMNS]
    more = [f"{shown.count - len(shown.rows):,} more rows" if shown.count > len(shown.rows) else "",
            f"{len(shown.columns) - len(columns):,} more columns" if len(shown.columns) > len(columns) else ""]
    caption = " and ".join(filter(None, more))
    return joined(table(shown.title, columns, [row[:_MOST_COLUMNS] for row in shown.rows], numbers=0),
                  element("p", f"{caption} not shown.", class_="note") if caption else None)


def _picture(shown: Picture) -> Markup:
    if shown.media_type not in _DRAWN or len(shown.data) > MOST_PICTURE_BYTES:
        return _not_shown(NotShown(shown.title, f"Image of {len(shown.data):,} bytes, {shown.media_type}."))
    # As an image, because browsers run no scripts in images, unlike in inline SVG.
    source = f"data:{shown.media_type};base64,{base64.b64encode(shown.data).decode()}"
    return figure_of(shown.title, element("img", src=source, alt=shown.title, style="max-width:100%"))


def _not_shown(shown: NotShown) -> Markup:
    return element("p", element("b", shown.title), f": {shown.reason}")


_DRAWERS: Mapping[type[Exhibit], Callable[[Any], Markup]] = {
    ConfusionMatrix: _confusion, RocCurves: _roc, PrecisionRecallCurves: _precision_recall, Sheet: _sheet,
    Picture: _picture, NotShown: _not_shown,
}


def _thinned(xs: Sequence[float], ys: Sequence[float]) -> tuple[Sequence[float], Sequence[float]]:
    if len(xs) <= _POINTS:
        return xs, ys
    kept = sorted({round(at * (len(xs) - 1) / (_POINTS - 1)) for at in range(_POINTS)})
    return [xs[at] for at in kept], [ys[at] for at in kept]


def _caption(rows: Sequence[tuple[str, ...]], what: str) -> str:
    return "; ".join(f"{row[0]}: {what} {row[-1]}" for row in rows[:MOST_LINES]) + "."


def _folded(inside: Markup) -> Markup:
    return element("details", element("summary", "Data"), inside)
