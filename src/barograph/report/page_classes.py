"""Sections on labels, confusion, accuracy by class, ROC and residuals."""

from __future__ import annotations

from barograph.queries.classes import Classes, ConfusionFrame
from barograph.queries.predictions import Residuals, Roc
from barograph.report.charts import Line, line_chart
from barograph.report.content import Report
from barograph.report.markup import Markup, element, joined
from barograph.report.page_exhibits import percent, roc_chart
from barograph.report.page_numbers import line_of
from barograph.report.small_charts import bars, histogram, matrix, scatter
from barograph.report.tables import behind, table
from barograph.watch.figures import count, figure, share

_CHARTED = 16


def classes(report: Report) -> Markup:
    """Return accuracy, confusion over time and labels for each loss and mode."""
    return joined([_part(item) for item in report.classes])


def roc(report: Report) -> Markup:
    """Return the ROC curves; those of one pair of tensors share a chart."""
    groups: dict[tuple[str, int], list[Roc]] = {}
    for item in report.roc:
        groups.setdefault((item.name, item.step), []).append(item)
    return element("div", [_roc(name, step, items) for (name, step), items in groups.items()], class_="charts")


def residuals(report: Report) -> Markup:
    """Return the residuals of regressions."""
    return joined([_residuals(item) for item in report.residuals])


def _part(item: Classes) -> Markup:
    names = [f"{number}" for number in item.classes]
    left: list[Markup] = []
    if item.accuracy is not None:
        every = [item.accuracy, *list(item.accuracy_by_class.values())[:_CHARTED]]
        labels = ["all", *(f"class {number}" for number in list(item.accuracy_by_class)[:_CHARTED])]
        left.append(element(
            "div", line_chart("Accuracy by class",
                              f"All classes: {share(item.accuracy.first)} first, "
                              f"{share(item.accuracy.last)} last.",
                              [line_of(curve, label) for curve, label in zip(every, labels, strict=True)],
                              y_text=percent, y_range=(0.0, 1.0), log=False), behind(every, labels, share),
        ))
    left.append(bars(("class", "", "samples"), [(name, times, f"{times:,.0f}") for name, times in
                                                 zip(names, item.labels, strict=True)],
                      "Samples by true class, over the recorded steps"))
    more = f"{item.left_out:,} rarer classes not shown." if item.left_out else ""
    return joined(element("h3", f"{item.name}, {item.mode}"),
                  element("div", element("div", left), _last(item, names) if item.frames else None, class_="charts"),
                  _frames(item, names), _confused(item), element("p", more, class_="note") if more else None)


def _last(item: Classes, names: list[str]) -> Markup:
    last = item.frames[-1]
    right = sum(line[at] for at, line in enumerate(last.counts))
    total = sum(map(sum, last.counts)) or 1.0
    drawing = matrix(f"Confusion, {_when(last)}: targets in rows, predictions in columns",
                     f"Accuracy: {share(right / total)}.", names, last.counts, numbers=True)
    rows = [(name, *(f"{times:.0f}" for times in line)) for name, line in zip(names, last.counts, strict=True)]
    return element("div", drawing, element("details", element("summary", "Data"), table(
        "Targets in rows, predictions in columns", ("target", *names), rows, numbers=len(names))))


def _frames(item: Classes, names: list[str]) -> Markup | None:
    if len(item.frames) < 2:
        return None
    drawn = [matrix(_when(frame).capitalize(), "Confusion matrix, shaded by the share of each row.", names,
                    frame.counts, numbers=False) for frame in item.frames]
    return joined(element("p", "Confusion over time: targets in rows, predictions in columns.", class_="note"),
                  element("div", drawn, class_="charts frames"))


def _when(frame: ConfusionFrame) -> str:
    if frame.first_step == frame.last_step:
        return f"step {frame.first_step}"
    return f"steps {frame.first_step} to {frame.last_step}"


def _confused(item: Classes) -> Markup | None:
    if not item.confused:
        return None
    rows = [(f"{target} predicted as {prediction}", f"{times:,.0f}", share(part))
            for target, prediction, times, part in item.confused]
    return element("details", element("summary", "Most often confused"),
                   table("Over all recorded steps",
                         ("target and prediction", "samples", "of the target"), rows, numbers=2))


def _roc(name: str, step: int, items: list[Roc]) -> Markup:
    lines = [Line(f"class {item.label}: {figure(item.area)}", item.false_positives, item.true_positives)
             for item in items]
    rows = [(f"class {item.label}", f"{item.positives:,}", f"{item.negatives:,}", figure(item.area)) for item in items]
    return element("div", roc_chart(f"ROC of {name} at step {step}, with the area under each curve", lines, rows))


def _residuals(item: Residuals) -> Markup:
    caption = (f"Prediction minus target of {count(item.count - item.nonfinite, 'sample')}: mean {figure(item.mean)}, "
               f"standard deviation {figure(item.std)}, mean magnitude {figure(item.mean_abs)}, R² {figure(item.r2)}.")
    bad = f" {count(item.nonfinite, 'sample')} left out: NaN or infinite." if item.nonfinite else ""
    edges = zip(item.edges, item.edges[1:], item.counts, strict=False)
    rows = [(f"{figure(low)} to {figure(high)}", f"{times:,}") for low, high, times in edges]
    return joined(
        element("p", f"{item.name} at step {item.step}. {caption}{bad}"),
        element("div", histogram("Residuals", caption, item.edges, item.counts),
                scatter("Residual by prediction", "One point per sample, evenly sampled; the line is at zero.",
                        item.predictions, item.residuals, "prediction"), class_="charts"),
        element("details", element("summary", "Data"),
                table("Samples by residual", ("residual", "samples"), rows, numbers=1)),
    )
