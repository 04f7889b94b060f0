"""HTML page of a comparison: one file without scripts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from barograph.experiments.comparing import Comparison, Difference
from barograph.experiments.judging import Judgement
from barograph.experiments.verdict import Outcome
from barograph.report.charts import Line, line_chart
from barograph.report.document import document
from barograph.report.markdown import rendered
from barograph.report.markup import Markup, element, joined
from barograph.report.tables import table
from barograph.share.comparison import ComparisonContent, Overlay
from barograph.version import __version__
from barograph.watch.figures import count, duration, figure, local_time

_PARTS = {
    "parameters": "Parameters", "code": "Code", "packages": "Packages", "data": "Data", "tags": "Tags",
    "findings": "Findings", "metrics": "Metrics",
}
_MOST_ROWS = 500
_MOST_NOTES = 20
_LEVELS = {Outcome.ACCEPTED: "ok", Outcome.REJECTED: "breaking", Outcome.UNDECIDED: "doubtful"}


def page_of_comparison(content: ComparisonContent) -> str:
    """Return a comparison as an HTML document."""
    names = [item.name for item in content.items]
    title = " and ".join(names) if len(names) <= 2 else f"{names[0]} and {len(names) - 1} others"
    if content.judged is not None:
        title = f"{content.judged.metric} by {content.judged.by}"
    header = element("header", element("h1", title), _lead(content))
    sections = [(anchor, heading, markup) for anchor, heading, markup in (
        ("verdict", "Verdict", _verdict(content.judged) if content.judged else None),
        ("curves", "Curves", _curves(content)),
        *_parts(content.comparison),
        ("notes", "Notes", _notes(content)), ("runs", "Runs", _runs(content)),
    ) if markup is not None]
    return document(title, header, sections, f"Created by Barograph {__version__} on {local_time(content.made_unix)}.")


def _parts(comparison: Comparison | None) -> list[tuple[str, str, Markup]]:
    if comparison is None:
        return []
    return [(part, _PARTS[part], _differences(comparison.names, rows, comparison.same[part]))
            for part, rows in comparison.parts.items()]


def _lead(content: ComparisonContent) -> Markup:
    if content.sentence:
        return element("p", content.sentence, class_="verdict")
    differing = [_PARTS[part].lower() for part in (content.comparison.parts if content.comparison else ())]
    return element("p", f"They differ in: {', '.join(differing)}." if differing else
                   "No differences.", class_="verdict")


def _verdict(judged: Judgement) -> Markup:
    rows = [(group.name, ", ".join(figure(value) for value in group.values), group.counted, figure(group.mean),
             "–" if group.low != group.low else f"{figure(group.low)} to {figure(group.high)}")
            for group in judged.groups]
    heads = (judged.by, judged.metric, "runs", "mean", f"{judged.level:.0%} interval")
    note = None
    if judged.verdict is not None:
        method = "Welch\u2019s interval" if judged.verdict.method == "t" else "bootstrap"
        note = joined(element("span", str(judged.verdict.outcome), class_=f"badge {_LEVELS[judged.verdict.outcome]}"),
                      f" {judged.verdict.reason} Method: {method}.")
    notes = [f"Runs of {group.name} differ in {', '.join(group.differs)}." for group in judged.groups if group.differs]
    notes += [f"{sentence}." for group in judged.groups for sentence in group.repeats]
    return joined(table("Groups, best first", heads, rows, numbers=3), element("p", note) if note else None,
                  [element("p", text, class_="note") for text in notes])


def _curves(content: ComparisonContent) -> Markup | None:
    if not content.overlays:
        return None
    left_out = [f"{count(content.overlays_left_out, 'metric')} more: --metric shows one."
                if content.overlays_left_out else "",
                f"{count(content.lines_left_out, 'run')} more have no line." if content.lines_left_out else ""]
    return joined(
        element("div", [_chart(overlay, content.along) for overlay in content.overlays], class_="charts"),
        [element("p", text, class_="note") for text in left_out if text],
    )


def _chart(overlay: Overlay, along: str) -> Markup:
    place: Callable[[float], str] = (lambda secs: duration(secs) if secs else "0") if along == "time" else figure
    caption = "; ".join(f"{line.name}: first {figure(line.first)}, last {figure(line.last)}"
                        for line in overlay.lines)
    chart = line_chart(overlay.metric, f"{caption}.", [Line(line.name, line.at, line.values) for line in overlay.lines],
                       x_title=along, x_text=place)
    rows = [(line.name, f"{line.count:,}", *map(figure, (line.first, line.last, line.least, line.greatest)))
            for line in overlay.lines]
    behind = element("details", element("summary", "Numbers"),
                     table("Numbers", ("run", "points", "first", "last", "least", "greatest"), rows, numbers=5))
    without = f"Without: {', '.join(overlay.without)}." if overlay.without else ""
    return element("div", chart, behind, element("p", without, class_="note") if without else None)


def _differences(names: Sequence[str], rows: Sequence[Difference], same: int) -> Markup:
    numbers = len(names) if all(isinstance(value, int | float | None) for row in rows for value in row.values) else 0
    shown = [(row.name, *map(_text, row.values)) for row in rows[:_MOST_ROWS]]
    more = [f"{len(rows) - _MOST_ROWS} more differ." if len(rows) > _MOST_ROWS else "",
            f"{count(same, 'other')} the same." if same else ""]
    return joined(table("Differences", ("", *names), shown, numbers=numbers),
                  [element("p", text, class_="note") for text in more if text])


def _notes(content: ComparisonContent) -> Markup | None:
    notes = [element("article", element("h3", item.name),
                     [joined(element("p", f"{local_time(note.time_unix)} {note.by}".rstrip(), class_="note"),
                             rendered(note.text)) for note in item.notes[-_MOST_NOTES:]])
             for item in content.items if item.notes]
    return joined(notes) if notes else None


def _runs(content: ComparisonContent) -> Markup:
    rows = [(item.name, str(item.kind), str(item.facts["state"] or ""),
             ", ".join(f"{trial.experiment}: {trial.name}" for trial in item.trials),
             local_time(item.facts["created_unix"]), item.uid, str(item.facts["place"] or ""))
            for item in content.items[:_MOST_ROWS]]
    return table("Compared items", ("name", "kind", "state", "trials", "created", "ID", "place"), rows,
                 numbers=0)


def _text(value: Any) -> str:
    return "–" if value is None else figure(value) if isinstance(value, float) else str(value)
