"""HTML of experiments, trials, components, tables and verdicts for notebooks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from barograph.errors import BarographError
from barograph.experiments.active_run import ActiveRun
from barograph.experiments.comparing import Comparison
from barograph.experiments.component import Component
from barograph.experiments.curves import Curve
from barograph.experiments.experiment import Experiment, Trial
from barograph.experiments.handle import Handle
from barograph.experiments.item import Item
from barograph.experiments.judging import Judgement
from barograph.experiments.lineage import Lineage
from barograph.experiments.shown import exhibits_of_run
from barograph.experiments.table import ComponentTable
from barograph.experiments.table_curves import Curves
from barograph.experiments.verdict import Verdict
from barograph.model.exhibits import Exhibit
from barograph.model.finding import Finding
from barograph.model.items import ArtifactLink, ItemKind
from barograph.report import notebook
from barograph.report.charts import Line, line_chart
from barograph.report.markup import Child, Markup, element, joined
from barograph.report.notebook import charts_of, state_badge
from barograph.report.page_exhibits import exhibit
from barograph.report.page_findings import severity_class
from barograph.report.style import fragment
from barograph.report.tables import table
from barograph.runs.reading.reader import RunReader
from barograph.runs.reading.reader import open as open_run
from barograph.tune.overview import overview_of
from barograph.tune.study import Study
from barograph.tune.study_page import study_fragment
from barograph.watch.figures import figure, local_time, size

MOST_ROWS = 30
"""Maximum number of table rows in a notebook."""

MOST_COLUMNS = 24
"""Maximum number of table columns."""

MOST_LINES = 24
"""Maximum number of lines in a chart."""

_FACTS = ("description", "hypothesis", "message", "command", "commit", "place")
_USUAL = ("uid", "kind", "place", "by", "steps", "started_unix", "ended_unix", "changed_unix", "command", "host",
          "message", "repository", "branch", "commit", "dirty", "starred", "archived", "duration")
_TIMES = ("created_unix", "started_unix", "ended_unix")


def handle_html(handle: Handle) -> str:
    """Return an experiment with its trials, a trial with its components, or a component with what it shows."""
    return fragment(_head(handle.item), _known(handle.item), _below(handle))


def run_html(run: RunReader) -> str:
    """Return a run that was opened, with its curves, findings and exhibits."""
    return notebook.run_html(run, exhibits=exhibits_of_run(run.store, run.manifest.run_id))


def findings_html(findings: Sequence[Finding]) -> str:
    """Return findings one below the other."""
    return notebook.findings_html(findings)


def finding_html(finding: Finding) -> str:
    """Return one finding."""
    return notebook.findings_html([finding])


def active_run_html(run: ActiveRun) -> str:
    """Return a run that this process writes, with its curves, findings and exhibits."""
    return notebook.run_html(open_run(run.url), exhibits=run.exhibits())


def study_html(study: Study) -> str:
    """Return what a study found, with its trials."""
    return study_fragment(overview_of(study, "Study"))


def exhibit_html(shown: Exhibit) -> str:
    """Return a confusion matrix, a curve, a table or a picture."""
    return fragment(exhibit(shown))


def curve_html(shown: Curve) -> str:
    """Return one curve as a chart."""
    return notebook.curve_html("curve", shown.at.tolist(), shown.values.tolist(), "")


def listing_html(handles: Sequence[Handle]) -> str:
    """Return items as a table, one per row."""
    rows = [[_name(one.item), str(one.item.facts["state"] or one.item.kind), local_time(one.item.facts["created_unix"]),
             _some(one.item.parameters), ", ".join(f"{name} {figure(it.last)}" for name, it in
                                                   list(one.item.metrics.items())[:4])]
            for one in handles[:MOST_ROWS]]
    return fragment(table("Last value of each metric", ("name", "state", "created", "parameters", "last metrics"),
                          rows, numbers=0), _more(len(handles), "row"))


def table_html(shown: ComponentTable) -> str:
    """Return a table of components; only the first rows and columns, if there are many."""
    names = shown.columns.filled()
    wanted = [name for name in names if name not in _USUAL] or names
    kept = wanted[:MOST_COLUMNS]
    values = [(name, shown.columns[name]) for name in kept]
    rows = [[_cell(name, column[at]) for name, column in values] for at in range(min(len(shown), MOST_ROWS))]
    left_out = len(names) - len(kept)
    return fragment(
        table(f"{len(shown):,} components", kept, rows, numbers=0,
              right=[at for at, (name, column) in enumerate(values) if name not in _TIMES and _are_numbers(column)]),
        _more(len(shown), "row"),
        element("p", f"{left_out:,} more columns: use .only([…]) or .to_pandas().", class_="note")
        if left_out > 0 else Markup(),
    )


def comparison_html(shown: Comparison) -> str:
    """Return the differences between components, by part."""
    if not shown.parts:
        return fragment(element("p", "No differences."))
    return fragment(*(
        table(f"{part}{f', {shown.same[part]} others the same' if shown.same.get(part) else ''}", ("", *shown.names),
              [[row.name, *(_cell(row.name, value) for value in row.values)] for row in differences[:MOST_ROWS]],
              numbers=0)
        for part, differences in shown.parts.items()
    ))


def verdict_html(shown: Verdict) -> str:
    """Return a verdict as a sentence, with its interval drawn relative to zero."""
    level = {"accepted": "ok", "rejected": "breaking"}.get(shown.outcome.value, "doubtful")
    bounds = "" if shown.low != shown.low else (
        f" {shown.level:.0%} interval {figure(shown.low)} to {figure(shown.high)}, from {shown.counts[0]} and "
        f"{shown.counts[1]} results.")
    return fragment(element(
        "p", element("span", shown.outcome.value, class_=f"badge {severity_class(level)}"),
        f": the first is {'not shown to be ' if level == 'doubtful' else 'worse, not ' if level == 'breaking' else ''}"
        f"better, by {figure(shown.difference)}.{bounds} {shown.reason}"))


def judgement_html(shown: Judgement) -> str:
    """Return groups as a table, best first, and the verdict on the first two."""
    rows = [(group.name, ", ".join(group.differs), group.counted, figure(group.mean),
             "" if group.low != group.low else f"{figure(group.low)} to {figure(group.high)}")
            for group in shown.groups[:MOST_ROWS]]
    heads = (shown.by, "differ in", "runs", f"mean {shown.metric}", f"{shown.level:.0%} interval")
    repeats = [sentence for group in shown.groups for sentence in group.repeats]
    parts = [table("Groups, best first", heads, rows, numbers=3), _more(len(shown.groups), "group"),
             element("p", f"Counted once: {'; '.join(repeats[:MOST_ROWS])}.", class_="note") if repeats else Markup()]
    return fragment(*parts) + (verdict_html(shown.verdict) if shown.verdict is not None else "")


def curves_html(shown: Curves) -> str:
    """Return the curves of several runs in one chart."""
    drawn = [(name, curve.thinned()) for name, curve in list(shown.items())[:MOST_LINES]]
    lines = [Line(name, curve.at.tolist(), curve.values.tolist()) for name, curve in drawn]
    summary = "; ".join(f"{line.name}: {figure(line.ys[0])} first, {figure(line.ys[-1])} last" for line in lines)
    without = f"Without: {', '.join(shown.without)}." if shown.without else ""
    return fragment(
        line_chart(shown.metric, f"{summary}.", lines, x_title=shown.along), _more(len(shown), "run", MOST_LINES),
        element("p", without, class_="note") if without else Markup())


def lineage_html(lineage: Lineage) -> str:
    """Return the steps of a lineage, nearest first."""
    names = lineage.names()
    rows = [[str(edge.depth), names.get(edge.source, edge.source), edge.relation.replace("_", " "),
             names.get(edge.target, edge.target)] for edge in lineage[:MOST_ROWS * 4]]
    return fragment(table(f"{len(lineage):,} steps", ("away", "this", "is", "that"), rows, numbers=0),
                    _more(len(lineage), "step", MOST_ROWS * 4))


def _below(handle: Handle) -> Markup:
    if isinstance(handle, Experiment):
        trials = handle.trials()
        return _trials_table(trials, [len(handle.catalog.members_of(trial.uid)) for trial in trials[:MOST_ROWS]])
    if isinstance(handle, Trial):
        return _members_table(handle.components())
    return _component_parts(handle) if isinstance(handle, Component) else Markup()


def _component_parts(component: Component) -> Markup:
    item = component.item
    curves = _curves(str(item.facts["place"])) if item.kind is ItemKind.RUN and item.facts["place"] else None
    return joined(curves, [exhibit(shown) for shown in component.exhibits()])


def _trials_table(trials: Sequence[Handle], counts: Sequence[int]) -> Markup:
    rows = [[_name(trial.item), _some(trial.item.facts["variables"]), f"{count:,}"]
            for trial, count in zip(trials[:MOST_ROWS], counts, strict=False)]
    return joined(table(f"{len(trials):,} trials", ("trial", "variables", "components"), rows, numbers=1),
                  _more(len(trials), "trial"))


def _members_table(members: Sequence[Handle]) -> Markup:
    rows = [[_name(one.item), str(one.item.facts["state"] or one.item.kind), _some(one.item.parameters),
             ", ".join(f"{name} {figure(it.last)}" for name, it in list(one.item.metrics.items())[:4])]
            for one in members[:MOST_ROWS]]
    return joined(table("Last value of each metric", ("name", "state", "parameters", "last metrics"), rows,
                        numbers=0), _more(len(members), "component"))


def _head(item: Item) -> Markup:
    facts = [(name, str(item.facts[name])) for name in _FACTS if item.facts.get(name)]
    facts += [("made", local_time(item.facts["created_unix"]))] if item.facts.get("created_unix") else []
    if item.trials:
        facts.append(("trials", ", ".join(f"{trial.experiment} / {trial.name}" for trial in item.trials[:10])))
    if item.tags:
        facts.append(("tags", ", ".join(f"{name}={text}" for name, text in item.tags.items())))
    if item.facts.get("variables"):
        facts.append(("variables", _some(item.facts["variables"], most=20)))
    badge = state_badge(str(item.facts["state"])) if item.facts.get("state") else None
    return joined(
        element("h3", f"{'★ ' if item.facts.get('starred') else ''}{item.name} ",
                element("span", str(item.kind), class_="note"), " ", badge),
        element("dl", [joined(element("dt", name), element("dd", text)) for name, text in facts], class_="facts"),
    )


def _known(item: Item) -> Markup:
    parts: list[Markup | None] = []
    if item.parameters:
        parts.append(_table("parameters", ("parameter", "value"), [
            (name, _cell(name, value)) for name, value in item.parameters.items()]))
    if item.metrics:
        parts.append(_table("metrics", ("metric", "last", "min", "max", "numbers"), [
            (name, figure(it.last), figure(it.min), figure(it.max), f"{it.count:,}")
            for name, it in item.metrics.items()]))
    for title, links in (("inputs", item.inputs), ("outputs", item.outputs)):
        if links:
            parts.append(_table(title, ("artifact", "what", "where"), [_link(link) for link in links]))
    if item.findings:
        parts.append(_table("findings", ("rule", "severity", "state", "since step"), [
            (f"{found.code} {found.rule}", found.severity, found.state, f"{found.step}") for found in item.findings]))
    if item.notes:
        parts.append(_table("notes", ("when", "annotations"), [
            (f"{local_time(note.time_unix)} {note.by}".rstrip(), note.text) for note in item.notes]))
    return joined(parts)


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[Child]]) -> Markup:
    return joined(table(title, heads, rows[:MOST_ROWS], numbers=0), _more(len(rows), "row"))


def _curves(place: str) -> Markup:
    try:
        return charts_of(open_run(place))
    except BarographError as error:
        return element("p", f"Cannot show its curves. {error}", class_="note")


def _more(there: int, what: str, most: int = MOST_ROWS) -> Markup:
    return element("p", f"And {there - most:,} more {what}s.", class_="note") if there > most else Markup()


def _link(link: ArtifactLink) -> tuple[str, str, str]:
    known = f"{size(link.size_bytes)} " if link.size_bytes >= 0 else ""
    return link.name, f"{known}{link.media_type}".rstrip(), link.uri


def _name(item: Item) -> str:
    return f"{'★ ' if item.facts.get('starred') else ''}{item.name}"


def _some(values: Mapping[str, Any], most: int = 6) -> str:
    shown = [f"{name}={_cell(name, value)}" for name, value in list(values.items())[:most]]
    return ", ".join(shown) + (", …" if len(values) > most else "")


def _are_numbers(values: Sequence[Any]) -> bool:
    known = [value for value in values if value is not None]
    return bool(known) and all(isinstance(value, int | float) and not isinstance(value, bool) for value in known)


def _cell(name: str, value: Any) -> str:
    if value is None:
        return ""
    if name in _TIMES and isinstance(value, float | int):
        return local_time(float(value))
    text = figure(value) if isinstance(value, float) else str(value)
    return text if len(text) <= 200 else f"{text[:200]}…"

