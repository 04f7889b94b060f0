"""Head of the page: state of the run, findings, and savings from stopping early."""

from __future__ import annotations

import math
import shlex
from collections.abc import Sequence

from barograph.model.cause import Suspicion
from barograph.model.finding import Finding, FindingState, Severity
from barograph.queries.causes import causes_in_order
from barograph.queries.problems import Problem
from barograph.queries.wording import after_colon, evidence_text, not_evaluated_lines, remedy_label, since, when, where
from barograph.report.content import Report
from barograph.report.markup import Markup, element, joined
from barograph.report.savings import money
from barograph.rules.words import sentence
from barograph.watch.figures import count, duration, local_time, share
from barograph.watch.wording import CAUSES_SHOWN, EVIDENCE_SHOWN

MOST_FINDINGS = 60
"""Maximum number of findings on a page; JSON has all."""

_GOING_ON = ("running", "starting")


def severity_class(severity: str) -> str:
    """Return the CSS class of a severity or a layer's health."""
    known = {"note": "note-level", "ok": "ok", "not finite": "bad-level", "not judged": "dull"}
    return known.get(severity, severity if severity in tuple(Severity) else "dull")


def head(report: Report) -> Markup:
    """Return name, state and key figures of the run."""
    run, judgement = report.run, report.judgement
    still_open = sum(item.state is FindingState.OPEN for item in judgement.problems)
    tiles = [
        ("state", run.state),
        ("problems", f"{len(judgement.problems)}, {still_open} open" if judgement.watched or judgement.findings else
                     "not judged"),
        ("steps", f"{run.steps:,}" + (f" ({run.steps_seen:,} with tensors)" if run.steps_seen < run.steps else "")),
        ("trained for", duration(run.secs) if run.secs else "–"),
    ]
    if report.savings.cost is not None:
        tiles.append(("cost", money(report.savings.cost, report.savings.currency)))
    if report.savings.saved is not None and report.savings.finding:
        tiles.append(("could have been saved", money(report.savings.saved, report.savings.currency)))
    return element(
        "header", element("h1", run.name or run.run_id), _banners(report),
        element("p", judgement.verdict, class_="verdict"),
        element("dl", [element("div", element("dt", name), element("dd", value)) for name, value in tiles],
                class_="tiles"),
    )


def facts(report: Report) -> Markup:
    """Return place, command, times and versions of the run."""
    run = report.run
    entries = [("place", run.url), ("run", run.run_id), ("command", shlex.join(run.command)),
               ("started", local_time(run.started_unix)),
               ("last heartbeat", "" if math.isnan(run.ended_unix) else local_time(run.ended_unix)),
               ("ended because", run.reason), ("trained on", run.device), ("workers", ", ".join(run.workers)),
               ("attempts", f"{run.attempt + 1}" if run.attempt else ""),
               ("recording cost", _capture(run.capture_share)),
               ("versions", ", ".join(f"{name} {version}" for name, version in sorted(run.versions.items())))]
    return element("dl", [joined(element("dt", name), element("dd", value)) for name, value in entries if value],
                   class_="facts")


def findings(report: Report) -> Markup:
    """Return problems, their findings, and rules that were not evaluated."""
    judgement = report.judgement
    parts: list[Markup] = [problem_article(item) for item in judgement.problems]
    if not judgement.findings:
        parts.append(element("p", judgement.verdict))
    else:
        parts.append(element("h3", f"{count(len(judgement.findings), 'finding')} behind them"))
    parts += [finding_article(item, judgement.diagnosis) for item in judgement.findings[:MOST_FINDINGS]]
    if len(judgement.findings) > MOST_FINDINGS:
        parts.append(element("p", f"{len(judgement.findings) - MOST_FINDINGS} more: barograph show lists all."))
    lists = (
        ("Actions taken", judgement.actions), ("Not recorded", judgement.unseen),
        ("Not evaluated", not_evaluated_lines(judgement.not_evaluated, whole=True)), ("Warnings", judgement.warnings),
    )
    parts += [_folded(title, texts) for title, texts in lists if texts]
    return joined(parts)


def savings(report: Report) -> Markup:
    """Return the savings from stopping at the first breaking finding."""
    saved = report.savings
    rest = None
    if saved.cost is not None and saved.price_per_hour is not None:
        rest = (f"The run cost {money(saved.cost, saved.currency)} in total, at "
                f"{money(saved.price_per_hour, saved.currency)} per hour.")
    elif saved.finding:
        rest = "For the cost in money, pass --price-per-hour."
    return joined(element("p", saved.text), element("p", rest, class_="note") if rest else None)


def _banners(report: Report) -> Markup:
    run, judgement = report.run, report.judgement
    texts = []
    if run.state in _GOING_ON:
        texts.append(f"The run is still in progress. This report shows its state at {local_time(report.made_unix)}.")
    if run.shown:
        others = ", ".join(name for name in run.workers if name != run.shown)
        texts.append(f"Several processes trained independently. The figures are those of {run.shown}; the others "
                     f"are {others}.")
    if report.damage:
        parts = "1 part" if len(report.damage) == 1 else f"{len(report.damage)} parts"
        texts.append(f"{parts} of this run cannot be read; the rest is shown. Run barograph doctor to list every "
                     f"problem. {report.damage[0]}")
    if judgement.problem:
        texts.append(f"{judgement.problem} To evaluate the rules again, run barograph watch --fresh.")
    elif not judgement.watched:
        texts.append("No rules have been evaluated. Run barograph watch, then create this report again.")
    elif not judgement.complete and run.state not in _GOING_ON:
        texts.append("The last barograph watch did not finish. Run it again, then create this report again.")
    return joined([element("p", text, class_="banner") for text in texts])


def _capture(part: float) -> str:
    return "" if math.isnan(part) else f"{share(part)} of the training time"


def problem_article(problem: Problem) -> Markup:
    """Return a problem: description, start, evidence, fix and consequences."""
    gone = problem.state is FindingState.CLOSED
    level = severity_class(problem.severity.value)
    consequences = ", ".join(problem.leads_to)
    return element(
        "article",
        element("h3", element("span", problem.severity.value, class_=f"badge {level}"), f" {problem.title}"),
        element("p", since(problem).strip(" ()"), class_="note"),
        [element("p", line) for line in problem.evidence],
        None if gone else element("p", element("b", f"{sentence(remedy_label(problem))}: "), problem.remedy.text),
        element("p", element("b", "Leads to: "), consequences) if consequences else None,
        class_=f"{level}{' gone' if gone else ''}",
    )


def finding_article(finding: Finding, diagnosis: Sequence[Suspicion] = ()) -> Markup:
    """Return a finding: message, place, start, evidence and fix.

    Args:
        finding: The finding.
        diagnosis: Diagnosis of the run, which orders the causes.
    """
    gone = finding.state is FindingState.CLOSED
    causes = causes_in_order(finding, diagnosis)
    remedy = next((cause.remedy for cause in causes[:1] if cause.remedy), finding.remedy)
    evidence = [element("li", element("span", f"{item.key or 'run'}", class_="code"),
                        evidence_text(item, finding.message).removeprefix(f"{item.key or 'run'}"))
                for item in finding.evidence[:EVIDENCE_SHOWN]]
    likely = [element("p", element("b", "Likely: " if number == 0 else "Or: "), cause.cause,
                      after_colon(cause.why, finding.message))
              for number, cause in enumerate(causes[:CAUSES_SHOWN])]
    level = severity_class(finding.severity.value)
    return element(
        "article",
        element("h3", element("span", finding.severity.value, class_=f"badge {level}"),
                f" {finding.code} {finding.rule}{where(finding)}"),
        element("p", finding.message), element("p", when(finding), class_="note"),
        element("ul", evidence) if evidence else None,
        None if gone else joined(
            element("p", element("b", "Why it matters: "), finding.why) if finding.why else None, likely,
            element("p", element("b", "Fix: "), remedy),
        ),
        class_=f"{level}{' gone' if gone else ''}",
    )


def _folded(title: str, texts: list[str] | tuple[str, ...]) -> Markup:
    return element("details", element("summary", f"{title} ({count(len(texts), 'line')})"),
                   element("ul", [element("li", text) for text in texts]))
