"""Small charts: sparklines, bands, heat maps, bars."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from barograph.queries.curves import Curve
from barograph.queries.distributions import Distribution
from barograph.report.axes import Axis, axis_for
from barograph.report.charts import BOTTOM, LEFT, RIGHT, TOP, WIDTH, axes, figure_of, path_of, svg
from barograph.report.markup import Markup, element, joined
from barograph.watch.figures import figure, share

_SPARK_WIDTH, _SPARK_HEIGHT = 120, 26
_BAND_HEIGHT = 150
_CELL, _LABEL = 16, 120
_HEAT_COLUMNS = 48
_ROOM_FOR_A_NUMBER = 22
_FULL = 0.55
_LETTER = 6.5
_LONGEST_NAME = 16


def sparkline(curve: Curve, name: str) -> Markup:
    """Return a sparkline of magnitudes on a logarithmic scale of its own."""
    across = axis_for([float(step) for step in curve.steps], 1, _SPARK_WIDTH - 1, log=False)
    up = axis_for(curve.values, _SPARK_HEIGHT - 2, 2, log=True)
    points = [(across.at(x), up.at(y)) for x, y in zip(curve.steps, curve.values, strict=True)]
    caption = f"{figure(curve.first)} first, {figure(curve.last)} last, maximum {figure(curve.greatest)}"
    if curve.nonfinite:
        caption += f", {curve.nonfinite} times NaN or infinite"
    path = element("path", d=path_of(points), class_="line s0")
    return svg(name, caption, path, _SPARK_WIDTH, _SPARK_HEIGHT, "spark")


def band_chart(distribution: Distribution, low: float, high: float) -> Markup:
    """Return a distribution as bands of 5% to 95% and 25% to 75% around the median.

    Args:
        distribution: Distribution of one tensor.
        low, high: Range of the y-axis, shared by tensors of one kind.
    """
    steps = [float(step) for step in distribution.steps]
    across = axis_for(steps, LEFT, WIDTH - RIGHT, log=False)
    up = Axis(low, high, _BAND_HEIGHT - BOTTOM, TOP, log=True)
    columns = list(zip(*distribution.quantiles, strict=True))
    places = [across.at(step) for step in steps]
    bands = [element("polygon", points=_polygon(places, [up.at(value) for value in lower],
                                                [up.at(value) for value in upper]), class_=f"band {class_}")
             for lower, upper, class_ in ((columns[0], columns[4], "wide"), (columns[1], columns[3], "narrow"))]
    median = element("path", d=path_of(zip(places, (up.at(value) for value in columns[2]), strict=True)),
                     class_="line s0")
    path = distribution.key.partition(":")[2]
    caption = (f"Median magnitude {figure(columns[2][0])} at step {distribution.steps[0]}, {figure(columns[2][-1])} at "
            f"step {distribution.steps[-1]}; last share of zeros: {share(distribution.zeros[-1])}.")
    inside = joined(axes(across, up, _BAND_HEIGHT, "step", figure, figure), bands, median)
    return figure_of(path, svg(f"Magnitudes of {distribution.key}", caption, inside, WIDTH, _BAND_HEIGHT))


def heat_rows(title: str, description: str, rows: Sequence[tuple[str, Curve]]) -> Markup:
    """Return a heat map of magnitudes over the steps on one logarithmic scale; NaN stands out."""
    steps = [step for _, curve in rows for step in curve.steps]
    first, last = min(steps, default=0), max(steps, default=0)
    positive = [value for _, curve in rows for value in curve.values if 0 < value < math.inf]
    scale = axis_for(positive, 0.08, 1.0, log=True)
    cells = []
    for number, (name, curve) in enumerate(rows):
        y = number * _CELL
        # The end of a path distinguishes a layer from its neighbors.
        short = name if len(name) <= _LONGEST_NAME else f"…{name[1 - _LONGEST_NAME:]}"
        cells.append(element("text", element("title", name), short, x=_LABEL - 6, y=y + 12, class_="tick",
                             text_anchor="end"))
        for column, columns, value, bad in _held(curve, first, last):
            x = _LABEL + column * (WIDTH - _LABEL) / _HEAT_COLUMNS
            width = columns * (WIDTH - _LABEL) / _HEAT_COLUMNS + 0.3
            shade = {"class_": "cell bad-cell"} if bad else {"class_": "cell", "opacity": f"{scale.at(value):.2f}"}
            cells.append(element("rect", x=f"{x:.1f}", y=y, width=f"{width:.1f}", height=_CELL - 1, **shade))
    height = len(rows) * _CELL + 16
    ends = [element("text", f"step {step}", x=x, y=height - 3, class_="tick", text_anchor=anchor)
            for step, x, anchor in ((first, _LABEL, "start"), (last, WIDTH, "end"))]
    span = f"From {figure(min(positive))} (pale) to {figure(max(positive))} (full); red: not finite." if positive else (
        "Never finite.")
    caption = f"{description} {span}"
    return element("figure", element("figcaption", title),
                   svg(title, caption, joined(cells, ends), WIDTH, height), element("p", caption, class_="note"))


def matrix(title: str, description: str, names: Sequence[str], counts: Sequence[Sequence[float]], *,
           numbers: bool, text: Callable[[float], str] = "{:.0f}".format) -> Markup:
    """Return a confusion matrix: targets in rows, predictions in columns, shaded by the share of the row.

    Args:
        title, description: As in `line_chart`.
        names: Names of the classes; long ones are cut, except in tooltips.
        counts: A row per target.
        numbers: Whether to print numbers in the cells, if they fit.
        text: Formats a number.
    """
    size = max(10, min(34, 360 // max(1, len(names))))
    longest = max((min(len(name), _LONGEST_NAME) for name in names), default=0)
    # Names wider than a cell are rotated.
    upright = longest * _LETTER > size
    left = max(30.0, 8 + longest * _LETTER)
    top = left if upright else 30.0
    cells = []
    for row, (name, line) in enumerate(zip(names, counts, strict=True)):
        total = sum(line)
        x, y = left + row * size + size / 2, top + row * size
        short = name if len(name) <= _LONGEST_NAME else f"{name[:_LONGEST_NAME - 1]}…"
        cells.append(element("text", short, x=left - 4, y=y + size / 2, class_="tick", text_anchor="end", dy="0.32em"))
        cells.append(element("text", short, x=x, y=top - 6, class_="tick",
                             text_anchor="start" if upright else "middle",
                             transform=f"rotate(-90 {x:g} {top - 6:g}) translate(0 4)" if upright else None))
        for column, times in enumerate(line):
            part = times / total if total else 0.0
            where = {"x": left + column * size, "y": y}
            right = "right" if row == column else "wrong"
            cells.append(element("rect", **where, width=size - 1, height=size - 1, class_="empty"))
            if times:
                caption = f"{name} predicted as {names[column]}: {text(times)} ({share(part)})"
                cells.append(element("rect", element("title", caption), **where, width=size - 1, height=size - 1,
                                     class_=f"cell {right}", opacity=f"{0.12 + 0.88 * part:.2f}"))
            if numbers and times and size >= _ROOM_FOR_A_NUMBER:
                cells.append(element("text", text(times), x=where["x"] + size / 2 - 0.5, y=y + size / 2,
                                     dy="0.34em", text_anchor="middle", class_="count on" if part > _FULL else "count"))
    extent = len(names) * size + 2
    return figure_of(title, svg(title, description, joined(cells), left + extent, top + extent))


def bars(heads: tuple[str, str, str], rows: Sequence[tuple[str, float, str]], title: str) -> Markup:
    """Return a table with a bar in each row.

    Args:
        heads: Titles of the three columns: name, bar, number.
        rows: Name, number >= 0, and the number as text.
        title: Title of the table.
    """
    greatest = max((value for _, value, _ in rows if math.isfinite(value)), default=0.0) or 1.0
    lines = [
        element("tr", element("th", name, scope="row"),
                element("td", element("i", style=f"width:{100 * max(0.0, value) / greatest:.1f}%"), class_="bar"),
                element("td", text, class_="number"))
        for name, value, text in rows
    ]
    # The bar repeats the number, and an empty header would be read aloud.
    head = element("tr", [element("th", text, scope="col") if text else element("td") for text in heads])
    return element("table", element("caption", title), element("thead", head), element("tbody", lines), class_="bars")


def histogram(title: str, description: str, edges: Sequence[float], counts: Sequence[int]) -> Markup:
    """Return a histogram."""
    height = 220
    across = axis_for(edges, LEFT, WIDTH - RIGHT, log=False)
    up = axis_for([float(count) for count in counts], height - BOTTOM, TOP, log=False, from_zero=True)
    columns = [
        element("rect", x=f"{across.at(low):.1f}", y=f"{up.at(count):.1f}",
                width=f"{max(0.5, across.at(high) - across.at(low) - 1):.1f}",
                height=f"{height - BOTTOM - up.at(count):.1f}", class_="fill s0")
        for low, high, count in zip(edges, edges[1:], counts, strict=False)
    ]
    inside = joined(axes(across, up, height, "residual", figure, figure), columns)
    return figure_of(title, svg(title, description, inside, WIDTH, height))


def scatter(title: str, description: str, xs: Sequence[float], ys: Sequence[float], x_title: str) -> Markup:
    """Return a scatter plot with a line at zero."""
    height = 220
    across = axis_for(xs, LEFT, WIDTH - RIGHT, log=False)
    up = axis_for([*ys, 0.0], height - BOTTOM, TOP, log=False)
    dots = [element("circle", cx=f"{across.at(x):.1f}", cy=f"{up.at(y):.1f}", r=2, class_="point s0")
            for x, y in zip(xs, ys, strict=True)]
    zero = element("line", x1=LEFT, x2=WIDTH - RIGHT, y1=f"{up.at(0.0):.1f}", y2=f"{up.at(0.0):.1f}", class_="axis")
    inside = joined(axes(across, up, height, x_title, figure, figure), zero, dots)
    return figure_of(title, svg(title, description, inside, WIDTH, height))


def _polygon(places: Sequence[float], lower: Sequence[float], upper: Sequence[float]) -> str:
    if len(places) == 1:
        # A single point would have no width.
        places, lower, upper = [places[0] - 3, places[0] + 3], [*lower] * 2, [*upper] * 2
    points = [*zip(places, upper, strict=True), *reversed(list(zip(places, lower, strict=True)))]
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points if not math.isnan(y))


def _held(curve: Curve, first: int, last: int) -> list[tuple[int, int, float, bool]]:
    """Return the cells of a row: column, width in columns, maximum, and whether a value was not finite."""
    found = _greatest(curve, first, last)
    columns = sorted(found)
    return [(column, after - column, *found[column]) for column, after in zip(columns, [*columns[1:], columns[-1] + 1],
                                                                             strict=True)] if columns else []


def _greatest(curve: Curve, first: int, last: int) -> dict[int, tuple[float, bool]]:
    found: dict[int, tuple[float, bool]] = {}
    for step, value in zip(curve.steps, curve.values, strict=True):
        column = (step - first) * _HEAT_COLUMNS // (last - first + 1)
        before, bad = found.get(column, (0.0, False))
        good = math.isfinite(value)
        found[column] = (max(before, value) if good else before, bad or not good)
    return found
