"""Sections on losses, scalars and learning rates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from barograph.model.finding import SEVERITY_ORDER, Finding
from barograph.model.step import named
from barograph.queries.curves import Curve
from barograph.report.charts import Line, Mark, line_chart
from barograph.report.content import Report
from barograph.report.markup import Markup, element, joined
from barograph.report.page_findings import severity_class
from barograph.report.tables import behind, table
from barograph.watch.figures import count, figure

MOST_CHARTS = 12
"""Maximum number of scalars with a chart; the others are in a table."""

_MOST_MARKS = 12


def line_of(curve: Curve, name: str) -> Line:
    """Return a curve as a chart line."""
    return Line(name, [float(step) for step in curve.steps], curve.values)


def losses(report: Report) -> Markup:
    """Return a chart per loss with training, evaluation and the opening of findings."""
    marks = marks_of(report.judgement.findings)
    charts = [chart_of(name, curves, marks) for name, curves in by_key(report.losses)]
    note = (
        "Dashed vertical lines: findings, at the step where they opened. Crosses at the top: NaN or infinite."
    ) if marks else None
    return joined(element("div", charts, class_="charts"), element("p", note, class_="note") if note else None)


def numbers(report: Report) -> Markup:
    """Return charts of the first scalars and learning rates, and a table of the others.

    Values logged only once, such as settings of boosted trees, are only in the table.
    """
    groups = by_key(report.numbers)
    courses = [group for group in groups if any(curve.count > 1 for curve in group[1])]
    once = [group for group in groups if group not in courses]
    charts = [chart_of(name, curves, ()) for name, curves in courses[:MOST_CHARTS]]
    rest = [(curve.key, curve.mode, f"{curve.count:,}", figure(curve.first), figure(curve.last), figure(curve.least),
             figure(curve.greatest)) for _, curves in (*courses[MOST_CHARTS:], *once) for curve in curves]
    heads = ("number", "mode", "points", "first", "last", "min", "max")
    more = f"{count(report.numbers_left_out, 'more number')}: barograph keys --kind scalar lists all."
    return joined(
        element("div", charts, class_="charts") if charts else None,
        table("Others" if charts else "Logged once", heads, rest, numbers=5) if rest else None,
        element("p", more, class_="note") if report.numbers_left_out else None,
    )


def by_key(curves: Iterable[Curve]) -> list[tuple[str, list[Curve]]]:
    """Return the curves of each key, which share a chart."""
    groups: dict[str, list[Curve]] = {}
    for curve in curves:
        groups.setdefault(curve.key, []).append(curve)
    return list(groups.items())


def chart_of(name: str, curves: Sequence[Curve], marks: Sequence[Mark]) -> Markup:
    """Return a chart of one key in all modes, with a table of its numbers."""
    several = len({curve.optimizer for curve in curves}) > 1
    names = [curve.mode + (f", {named(curve.optimizer)}" if several and curve.optimizer else "") for curve in curves]
    lines = [line_of(curve, label) for curve, label in zip(curves, names, strict=True)]
    caption = "; ".join(f"{label}: {figure(curve.first)} first, {figure(curve.last)} last"
                        for curve, label in zip(curves, names, strict=True))
    high = max(max(line.xs, default=0.0) for line in lines)
    low = min(min(line.xs, default=0.0) for line in lines)
    inside = [mark for mark in marks if low <= mark.x <= high]
    return element("div", line_chart(name, f"{caption}.", lines, marks=inside), behind(curves, names))


def marks_of(findings: Iterable[Finding]) -> list[Mark]:
    """Return marks where findings opened; the worst, if there are many."""
    worst_first = sorted(findings, key=lambda item: SEVERITY_ORDER.index(item.severity))
    return [Mark(float(item.opened_step), f"{item.code} {item.rule} opened at step {item.opened_step}",
                 severity_class(item.severity.value)) for item in worst_first[:_MOST_MARKS]]
