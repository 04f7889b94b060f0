"""Prints the exhibits of components: matrices and tables as tables, curves by their areas."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from barograph.cli.printing import Column, Printer
from barograph.model.exhibits import (
    ConfusionMatrix,
    Exhibit,
    NotShown,
    Picture,
    PrecisionRecallCurves,
    RocCurves,
    Sheet,
)
from barograph.watch.figures import count, figure, share, size

_MOST_CLASSES = 12
_MOST_ROWS = 8
_MOST_COLUMNS = 8


def print_exhibits(printer: Printer, exhibits: Sequence[Exhibit]) -> None:
    """Print each exhibit with its title."""
    for shown in exhibits:
        _PRINTERS[type(shown)](printer, shown)


def _confusion(printer: Printer, shown: ConfusionMatrix) -> None:
    said = "" if math.isnan(shown.accuracy) else f", accuracy {share(shown.accuracy)}"
    kept = shown.labels[:_MOST_CLASSES]
    printer.heading(shown.title, f"rows: targets, columns: predictions{said}")
    printer.table(
        [Column("target"), *(Column(label, right=True) for label in kept)],
        [[label, *(figure(times) for times in row[:_MOST_CLASSES])]
         for label, row in zip(kept, shown.counts, strict=False)])
    if len(shown.labels) > len(kept):
        printer.line(f"The first {len(kept)} of {len(shown.labels):,} classes. barograph report shows the most "
                     "frequent.", indent=2)


def _roc(printer: Printer, shown: RocCurves) -> None:
    printer.heading(shown.title, "ROC: area under the curve")
    printer.table((Column("class"), Column("samples", right=True), Column("others", right=True),
                   Column("area", right=True)),
                  [[item.label, f"{item.positives:.6g}", f"{item.negatives:.6g}", figure(item.area)]
                   for item in shown.curves])


def _precision_recall(printer: Printer, shown: PrecisionRecallCurves) -> None:
    printer.heading(shown.title, "precision-recall")
    printer.table((Column("class"), Column("samples", right=True), Column("others", right=True),
                   Column("average precision", right=True)),
                  [[item.label, f"{item.positives:.6g}", f"{item.negatives:.6g}", figure(item.average_precision)]
                   for item in shown.curves])


def _sheet(printer: Printer, shown: Sheet) -> None:
    rows = shown.rows[:_MOST_ROWS]
    columns = len(shown.columns)
    more = f", the first {_MOST_COLUMNS} of {columns} columns" if columns > _MOST_COLUMNS else ""
    printer.heading(shown.title, (f"{count(shown.count, 'row')}" if len(rows) == shown.count else
                                  f"the first {len(rows)} of {count(shown.count, 'row')}") + more)
    printer.table([Column(name) for name in shown.columns[:_MOST_COLUMNS]],
                  [row[:_MOST_COLUMNS] for row in rows])


def _picture(printer: Printer, shown: Picture) -> None:
    printer.heading(shown.title, f"{shown.media_type}, {size(len(shown.data))}; shown by barograph report")


def _not_shown(printer: Printer, shown: NotShown) -> None:
    printer.heading(shown.title, shown.reason)


_PRINTERS: Mapping[type[Exhibit], Callable[[Printer, Any], None]] = {
    ConfusionMatrix: _confusion, RocCurves: _roc, PrecisionRecallCurves: _precision_recall, Sheet: _sheet,
    Picture: _picture, NotShown: _not_shown,
}
