"""Tables of the page, including those behind charts."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence

from barograph.queries.curves import Curve
from barograph.report.markup import Child, Markup, element
from barograph.watch.figures import figure

_POINTS_LISTED = 12


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[Child]], *, numbers: int,
          right: Collection[int] = ()) -> Markup:
    """Return a table that scrolls if it is too wide.

    Args:
        caption: Its caption.
        heads: Titles of its columns.
        rows: Cells of each row.
        numbers: Number of right-aligned columns at the end.
        right: Indexes of other right-aligned columns.
    """
    first = len(heads) - numbers
    classes = ["number" if at >= first or at in right else None for at in range(len(heads))]
    head = element("tr", [element("th", text, scope="col", class_=class_)
                          for text, class_ in zip(heads, classes, strict=True)])
    lines = [
        element("tr", [element("td" if at else "th", cell, class_=classes[at], scope=None if at else "row")
                       for at, cell in enumerate(row)])
        for row in rows
    ]
    return element("div", element("table", element("caption", caption), element("thead", head),
                                  element("tbody", lines)), class_="scroll", tabindex=0)


def behind(curves: Sequence[Curve], names: Sequence[str], text: Callable[[float], str] = figure) -> Markup:
    """Return a collapsed table of a chart's curves, with extremes and some points."""
    rows = [(name, curve.mode, f"{curve.count:,}", text(curve.first), text(curve.last),
             _at(curve.least, curve.least_step, text), _at(curve.greatest, curve.greatest_step, text),
             f"{curve.nonfinite:,}")
            for name, curve in zip(names, curves, strict=True)]
    heads = ("series", "mode", "points", "first", "last", "min", "max", "NaN or infinite")
    points = [(name, "; ".join(f"{step}: {text(value)}" for step, value in some_points(curve)))
              for name, curve in zip(names, curves, strict=True)]
    return element(
        "details", element("summary", "Data"), table("Numbers", heads, rows, numbers=6),
        table("Some points, step: value", ("series", "points"), points, numbers=0),
    )


def some_points(curve: Curve) -> list[tuple[int, float]]:
    """Return some evenly spaced points of a curve, including the first and the last."""
    count = len(curve.steps)
    if not count:
        return []
    taken = sorted({round(at * (count - 1) / (_POINTS_LISTED - 1)) for at in range(_POINTS_LISTED)})
    return [(curve.steps[at], curve.values[at]) for at in taken]


def _at(value: float, step: int, text: Callable[[float], str]) -> str:
    return f"{text(value)} at {step}" if step >= 0 else "–"
