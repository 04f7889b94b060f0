"""HTML of runs, findings and curves for notebooks, of bounded size."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from barograph.errors import nearest
from barograph.model.cause import Suspicion
from barograph.model.exhibits import Exhibit
from barograph.model.finding import Finding, FindingState, Severity
from barograph.model.key import Key, Kind
from barograph.queries.curves import curves_of
from barograph.queries.problems import Problem
from barograph.queries.recall import recalled
from barograph.report.charts import Line, line_chart
from barograph.report.markup import Markup, element, joined
from barograph.report.page_exhibits import exhibit
from barograph.report.page_findings import finding_article, problem_article, severity_class
from barograph.report.page_numbers import by_key, chart_of, marks_of
from barograph.report.style import fragment
from barograph.runs.reading.bundle import series_names
from barograph.runs.reading.glance import Glance, RunState, glance
from barograph.runs.reading.one_worker import OneWorker, default_worker
from barograph.runs.reading.reader import RunReader
from barograph.watch.figures import count, duration, figure, local_time

MOST_FINDINGS = 12
"""Maximum number of findings in a notebook."""

MOST_CHARTS = 6
"""Number of charts if none are named."""

_MOST_NAMED = 24
_DRAWN = (Kind.LOSS, Kind.SCALAR)


def run_html(
    run: RunReader, metrics: Sequence[str] = (), *, now: Glance | None = None, exhibits: Sequence[Exhibit] = ()
) -> str:
    """Return the current state of a run: losses, scalars, findings and exhibits.

    Args:
        run: The run.
        metrics: Names of curves, such as `loss:total`, or without the kind; none: losses and first scalars.
        now: State of the run; None: it is read.
        exhibits: Exhibits of the run.

    Raises:
        StoreError: The run cannot be read.
    """
    now = now or glance(run.store)
    recall = recalled(run.store, run.damage)
    findings, problems = recall.summary.findings, recall.summary.problems
    return fragment(
        _head(run, now, problems),
        element("p", recall.verdict, class_="verdict") if recall.watched else Markup(),
        problems_markup(problems), charts_of(run, metrics, findings),
        findings_of(findings, recall.summary.diagnosis),
        joined([exhibit(item) for item in exhibits]),
    )


def findings_html(findings: Sequence[Finding]) -> str:
    """Return a list of findings."""
    return fragment(findings_of(findings) if findings else element("p", "No findings."))


def curve_html(title: str, xs: Sequence[float], ys: Sequence[float], x_title: str = "step") -> str:
    """Return a chart of one curve."""
    caption = f"{figure(ys[0])} first, {figure(ys[-1])} last." if len(ys) else "No data."
    return fragment(line_chart(title, caption, [Line(title, list(xs), list(ys))], x_title=x_title))


def problems_markup(problems: Sequence[Problem]) -> Markup:
    """Return a list of problems; the first, if there are many."""
    return joined([problem_article(item) for item in problems[:MOST_FINDINGS]])


def findings_of(findings: Sequence[Finding], diagnosis: Sequence[Suspicion] = ()) -> Markup:
    """Return a list of findings; the first, if there are many. Causes are in the order of the diagnosis."""
    more = len(findings) - MOST_FINDINGS
    return joined(
        [finding_article(item, diagnosis) for item in findings[:MOST_FINDINGS]],
        element("p", f"{count(more, 'more finding')}: barograph show lists all.", class_="note")
        if more > 0 else None,
    )


def charts_of(run: RunReader, metrics: Sequence[str] = (), findings: Sequence[Finding] = ()) -> Markup:
    """Return charts of a run; arguments and errors as in `run_html`. Unknown names are reported in the markup."""
    default = default_worker(run)
    shown = OneWorker(run.store, default) if default is not None else run
    kinds = (*_DRAWN, Kind.LEARNING_RATE) if metrics else _DRAWN
    keys = list(dict.fromkeys(name.key for kind in kinds for name in series_names(shown, kind)))
    chosen, strange = _named(keys, metrics) if metrics else (_first(keys), "")
    kept = chosen[:_MOST_NAMED if metrics else MOST_CHARTS]
    of_key = dict(by_key(curve for kind in kinds for curve in curves_of(shown, kind, kept)))
    marks = marks_of(findings)
    more = len(keys) - len(kept)
    return joined(
        element("div", [chart_of(str(key), of_key[str(key)], marks if key.kind == Kind.LOSS else ())
                        for key in kept if str(key) in of_key],
                class_="charts"),
        element("p", strange, class_="note") if strange else None,
        element("p", f"{count(more, 'more curve')} not shown: name those to draw.", class_="note")
        if more > 0 and not metrics else None,
    )


def _first(keys: list[Key]) -> list[Key]:
    # The total loss comes first; its components come after the scalars of the script.
    return sorted(keys, key=lambda key: (
        str(key) != "loss:total", str(key).startswith("scalar:hyperparameter["), key.kind == Kind.LOSS))


def _named(keys: list[Key], metrics: Sequence[str]) -> tuple[list[Key], str]:
    """Return the keys of those names, and a sentence about an unknown name."""
    known = {str(key): key for key in keys}
    short = {key.path: key for key in reversed(keys)}
    if "loss:total" in known:
        short.setdefault("loss", known["loss:total"])
    strange = [name for name in metrics if name not in known and name not in short]
    caption = f'No curve "{strange[0]}" so far. {nearest(strange[0], [*known, *short])}' if strange else ""
    return [found for name in metrics if (found := known.get(name) or short.get(name)) is not None], caption


def _head(run: RunReader, now: Glance, problems: Sequence[Problem]) -> Markup:
    facts: Iterable[tuple[str, str]] = (
        ("steps", f"{now.steps:,}" if now.steps else ""), ("loss", figure(now.loss) if now.loss is not None else ""),
        ("problems", _counted(problems)), ("started", local_time(run.manifest.created_unix)),
        ("took", "" if math.isnan(now.ended_unix) else duration(max(0.0, now.ended_unix - run.manifest.created_unix))),
        ("place", run.url),
    )
    return joined(
        element("h3", run.manifest.name or run.manifest.run_id, " ", state_badge(now.state.value)),
        element("dl", [joined(element("dt", name), element("dd", text)) for name, text in facts if text],
                class_="facts"),
    )


def _counted(problems: Sequence[Problem]) -> str:
    severities = Counter(item.severity for item in problems if item.state is FindingState.OPEN)
    still_open = ", ".join(f"{severities[severity]} {severity}" for severity in Severity if severities[severity])
    gone = len(problems) - severities.total()
    return ", ".join(filter(None, (still_open, f"{gone} gone" if gone else "")))


def state_badge(state: str) -> Markup:
    """Return a badge in the color of the state."""
    level = {RunState.FAILED: "breaking", RunState.KILLED: "breaking", RunState.DAMAGED: "breaking",
             RunState.STOPPED: "costly", RunState.FINISHED: "ok", RunState.RUNNING: "note"}
    return element("span", state, class_=f"badge {severity_class(level.get(RunState(state), '') or 'dull')}"
                   if state in tuple(RunState) else "badge dull")
