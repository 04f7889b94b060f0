"""Line charts as SVG: readable on a phone, in the page's colors, with title and description for screen readers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from barograph.report.axes import Axis, axis_for
from barograph.report.markup import Markup, brief, element, joined
from barograph.watch.figures import figure

WIDTH, HEIGHT = 420, 220
LEFT, RIGHT, TOP, BOTTOM = 54, 10, 12, 32

COLORS = 8
"""Number of colors in the style sheet, `s0` and so on; further lines reuse them, dashed."""

_LETTER = 7.0
_FEW_POINTS = 40
_DENSE_PIXELS = 4


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a chart.

    Attributes:
        name: Name in the legend.
        xs, ys: Equal length; values that are not finite break the line and are marked at the top.
    """

    name: str
    xs: Sequence[float]
    ys: Sequence[float]


@dataclass(frozen=True, slots=True)
class Mark:
    """A vertical line in a chart.

    Attributes:
        x: Position.
        text: Its meaning.
        severity: Determines its color.
    """

    x: float
    text: str
    severity: str


def line_chart(
    title: str, description: str, lines: Sequence[Line], *, x_title: str = "step", marks: Sequence[Mark] = (),
    y_text: Callable[[float], str] = figure, x_text: Callable[[float], str] = figure, y_range: Iterable[float] = (),
    log: bool | None = None, square: bool = False, from_zero: bool = False, binary: bool = False,
) -> Markup:
    """Return a line chart with its legend.

    Args:
        title, description: For screen readers; the title is also shown.
        lines: Lines to draw.
        x_title: Title of the x-axis.
        marks: Vertical lines, for findings.
        y_text, x_text: Format the labels of the axes.
        y_range: Values that the y-axis must include.
        log: See `axis_for`.
        square: Whether the chart is square.
        from_zero: Whether the y-axis includes 0.
        binary: Whether the y-axis counts bytes.
    """
    height = WIDTH - LEFT - RIGHT + TOP + BOTTOM if square else HEIGHT
    up = axis_for([*(y for line in lines for y in line.ys), *y_range], height - BOTTOM, TOP, log=log,
                  from_zero=from_zero, binary=binary)
    left = room_for(map(y_text, up.ticks()))
    across = axis_for([x for line in lines for x in line.xs], left, WIDTH - RIGHT, log=False)
    drawn = [_drawn(line, number, across, up) for number, line in enumerate(lines)]
    inside = joined(
        axes(across, up, height, x_title, x_text, y_text), [_upright(mark, across, height) for mark in marks], drawn
    )
    scale = " (logarithmic)" if up.log else ""
    if lines and not any(math.isfinite(y) for line in lines for y in line.ys):
        inside = joined(inside, element("text", "no finite values", x=(LEFT + WIDTH) / 2, y=height / 2,
                                        class_="tick", text_anchor="middle"))
    drawing = svg(title, description, inside, WIDTH, height)
    return figure_of(title + scale, drawing, legend([line.name for line in lines]))


def figure_of(title: str, drawing: Markup, below: Markup | None = None) -> Markup:
    """Return a figure: a drawing with a title above and markup below."""
    return element("figure", element("figcaption", title), drawing, below)


def svg(title: str, description: str, inside: Markup, width: float, height: float, class_: str = "chart") -> Markup:
    """Return an SVG with title and description."""
    return element(
        "svg", element("title", title), element("desc", description), inside, viewBox=f"0 0 {width:g} {height:g}",
        role="img", aria_label=brief(f"{title}. {description}"), class_=class_,
    )


def room_for(texts: Iterable[str]) -> float:
    """Return the left margin that fits the labels of the y-axis.

    Example:
        >>> room_for(["0.5", "1"]), room_for(["953.7 MiB"])
        (54, 71.0)
    """
    return max(LEFT, 8 + _LETTER * max(map(len, texts), default=0))


def legend(names: Sequence[str]) -> Markup | None:
    """Return the legend; None for a single line."""
    if len(names) < 2:
        return None
    return element("ul", [element("li", element("i", class_=color(number)), name) for number, name in
                          enumerate(names)], class_="legend")


def color(number: int) -> str:
    """Return the CSS classes of the line of that index.

    Example:
        >>> color(1), color(9)
        ('s1', 's1 dashed')
    """
    return f"s{number % COLORS}" + (" dashed" if number >= COLORS else "")


def axes(
    across: Axis, up: Axis, height: float, x_title: str, x_text: Callable[[float], str],
    y_text: Callable[[float], str],
) -> Markup:
    """Return both axes with ticks and grid lines."""
    parts = []
    left, right = _pixel(across.start), WIDTH - RIGHT
    for value in up.ticks():
        y = _pixel(up.at(value))
        parts += [element("line", x1=left, x2=right, y1=y, y2=y, class_="grid"),
                  element("text", y_text(value), x=_pixel(across.start - 6), y=y, class_="tick", text_anchor="end",
                          dy="0.32em")]
    for value in across.ticks():
        # The last label must not exceed the chart.
        x = across.at(value)
        parts.append(element("text", x_text(value), x=f"{x:.1f}", y=height - BOTTOM + 14, class_="tick",
                             text_anchor="end" if x > WIDTH - 2 * RIGHT else "middle"))
    parts += [element("line", x1=left, x2=right, y1=height - BOTTOM, y2=height - BOTTOM, class_="axis"),
              element("text", x_title, x=right, y=height - 4, class_="tick", text_anchor="end")]
    return joined(parts)


def path_of(points: Iterable[tuple[float, float]]) -> str:
    """Return the SVG path through points; NaN breaks it.

    Example:
        >>> path_of([(0.0, 1.0), (2.0, 3.25), (3.0, math.nan), (4.0, 1.0)])
        'M0 1L2 3.2M4 1'
    """
    parts, pen_down = [], False
    for x, y in points:
        if math.isnan(y):
            pen_down = False
            continue
        parts.append(f"{'L' if pen_down else 'M'}{_pixel(x)} {_pixel(y)}")
        pen_down = True
    return "".join(parts)


def _pixel(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _drawn(line: Line, number: int, across: Axis, up: Axis) -> Markup:
    points = [(across.at(x), up.at(y)) for x, y in zip(line.xs, line.ys, strict=True)]
    parts = [element("path", d=path_of(points), class_=f"line {color(number)}")]
    known = [point for point in points if not math.isnan(point[1])]
    if len(known) <= _FEW_POINTS:
        parts += [element("circle", cx=_pixel(x), cy=_pixel(y), r=2, class_=f"dot {color(number)}") for x, y in known]
    bad = sorted({round(x / _DENSE_PIXELS) * _DENSE_PIXELS for x, y in points if math.isnan(y)})
    if bad:
        crosses = "".join(f"M{x - 2} {TOP - 8}l4 4m0 -4l-4 4" for x in bad)
        parts.append(element("path", element("title", f"{line.name}: NaN or infinite"), d=crosses, class_="bad"))
    return joined(parts)


def _upright(mark: Mark, across: Axis, height: float) -> Markup:
    x = _pixel(across.at(mark.x))
    return element("line", element("title", mark.text), x1=x, x2=x, y1=TOP, y2=height - BOTTOM,
                   class_=f"mark {mark.severity}")
