"""Sections on step time, machine use and tree models."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from barograph.queries.machine import Gauge
from barograph.report.charts import Line, line_chart
from barograph.report.content import Report
from barograph.report.markup import Markup, element, joined
from barograph.report.page_numbers import line_of
from barograph.report.small_charts import bars
from barograph.report.tables import behind, table
from barograph.watch.figures import count, duration, figure, share, size

_WORDS = {"data": "waiting for data", "capture": "Barograph"}
_MOST_LINES = 12
_FEATURES_CHARTED = 6


def step_time(report: Report) -> Markup:
    """Return the step time by part, on average and over the steps."""
    times = report.step_time
    assert times is not None
    whole = times.secs.get("step") or 1.0
    parts = sorted(((name, secs) for name, secs in times.secs.items() if name != "step"), key=lambda item: -item[1])
    rows = [(_WORDS.get(name, name), secs, f"{duration(secs)} ({share(secs / whole)})") for name, secs in parts]
    longest = times.over_time.get("longest")
    names = [name for name in times.over_time if name != "longest"]
    curves = [times.over_time[name] for name in names]
    labels = [_WORDS.get(name, name) for name in names]
    chart = line_chart("Mean seconds per step, by part", f"{duration(whole)} per step on average.",
                       [line_of(curve, label) for curve, label in zip(curves, labels, strict=True)], y_text=_span,
                       from_zero=True, log=False)
    slowest = f" The slowest took {duration(longest.greatest)} (step {longest.greatest_step})." if longest else ""
    return joined(
        element("p", f"A step took {duration(whole)} on average.{slowest}"),
        element("div", bars(("part", "", "per step"), rows, "Mean step time by part") if rows else None,
                element("div", chart, behind(curves, labels, duration)), class_="charts"),
    )


def machine(report: Report) -> Markup:
    """Return machine use: utilization, memory, disk and network."""
    groups: tuple[tuple[str, str, Callable[[float], str]], ...] = (
        ("percent", "Utilization, percent", figure), ("bytes", "Memory", _bytes),
        ("bytes a second", "Disk and network, per second", _bytes),
    )
    charts = []
    for unit, title, text in groups:
        gauges = [gauge for gauge in report.machine if gauge.unit == unit][:_MOST_LINES]
        if gauges:
            charts.append(_gauges(title, gauges, text, y_range=(0.0, 100.0) if unit == "percent" else ()))
    heads = ("figure", "unit", "mean", "max", "last")
    rows = [(gauge.name, gauge.unit, *(_value_text(gauge, value) for value in (gauge.mean, gauge.greatest, gauge.last)))
            for gauge in report.machine]
    return joined(element("div", charts, class_="charts"), element(
        "details", element("summary", "Data"), table("Over the whole run", heads, rows, numbers=3)))


def importance(report: Report) -> Markup:
    """Return feature importance at the end and over the rounds."""
    rows = [(item.feature, item.share, share(item.share)) for item in report.importance]
    first = report.importance[:_FEATURES_CHARTED]
    curves, names = [item.over_time for item in first], [item.feature for item in first]
    chart = line_chart("Importance of the top features", "By round.",
                       [line_of(curve, name) for curve, name in zip(curves, names, strict=True)], x_title="round",
                       from_zero=True, log=False)
    more = f"{count(report.importance_left_out, 'more feature')} with less importance."
    return joined(
        element("div", bars(("feature", "", "share"), rows, "Share of total importance, last round"),
                element("div", chart, behind(curves, names)), class_="charts"),
        element("p", more, class_="note") if report.importance_left_out else None,
    )


def trees(report: Report) -> Markup:
    """Return depth and leaves of trees over the rounds."""
    charts = []
    for curve in report.trees:
        name = curve.key.partition(":")[2]
        charts.append(element("div", line_chart(name, f"{figure(curve.first)} first, {figure(curve.last)} last.",
                                                [line_of(curve, name)], x_title="round", from_zero=True, log=False),
                              behind([curve], [name])))
    return element("div", charts, class_="charts")


def _gauges(title: str, gauges: Sequence[Gauge], text: Callable[[float], str], y_range: Sequence[float]) -> Markup:
    lines = [Line(gauge.name, gauge.secs, gauge.values) for gauge in gauges]
    caption = "; ".join(f"{gauge.name}: {text(gauge.mean)} on average" for gauge in gauges)
    return line_chart(title, f"{caption}.", lines, x_title="since the start", x_text=_span, y_text=text,
                      y_range=y_range, from_zero=True, log=False, binary=gauges[0].unit.startswith("bytes"))


def _span(secs: float) -> str:
    return duration(secs) if secs else "0"


def _value_text(gauge: Gauge, value: float) -> str:
    return _bytes(value) if gauge.unit.startswith("bytes") else figure(value)


def _bytes(value: float) -> str:
    return size(int(value)) if value == value and abs(value) != float("inf") else figure(value)
