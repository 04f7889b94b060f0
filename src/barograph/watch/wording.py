"""Findings as text: while watching, in the final summary and in `show`."""

from __future__ import annotations

import math
from collections.abc import Iterable

from rich.text import Text

from barograph.model.cause import Suspicion
from barograph.model.finding import Finding, FindingState, Severity
from barograph.model.manifest import SHORT_SECS, Cost
from barograph.model.one_line import shown as shown
from barograph.queries.causes import causes_in_order
from barograph.queries.problems import KNOWN, Problem
from barograph.queries.titles import cause_in_words
from barograph.queries.wording import after_colon, evidence_text, since, when, where
from barograph.watch.figures import duration, share

SEVERITY_STYLES = {
    Severity.BREAKING: "bold red", Severity.COSTLY: "bold yellow", Severity.DOUBTFUL: "yellow", Severity.NOTE: "cyan",
}

EVIDENCE_SHOWN = 3
"""Pieces of evidence printed; JSON has all."""

_WIDTH = 10


CAUSES_SHOWN = 3
"""Causes printed per finding."""


def finding_lines(finding: Finding, diagnosis: Iterable[Suspicion] = (), problem: str = "") -> list[Text]:
    """Return a finding as lines: message, evidence and, while it is open, causes and remedy.

    The first line has everything that matters, so that grep shows it.

    Args:
        finding: The finding.
        diagnosis: Diagnosis of the run; determines the order of the causes.
        problem: Title of the problem that it belongs to, to print instead of its own remedy: a consequence has another.
    """
    gone = finding.state is FindingState.CLOSED
    head = Text.assemble(
        (f"{finding.severity.value:<{_WIDTH}}", "dim" if gone else SEVERITY_STYLES[finding.severity]),
        (f"{finding.code} {finding.rule}", "bold"), f"{where(finding)} {when(finding)}: {shown(finding.message)}",
    )
    lines = [head]
    for item in finding.evidence[:EVIDENCE_SHOWN]:
        lines.append(Text(f"· {shown(evidence_text(item, finding.message))}", "dim"))
    if not gone:
        lines += _what_to_do(finding, diagnosis, problem)
    return lines


def _what_to_do(finding: Finding, diagnosis: Iterable[Suspicion], problem: str) -> list[Text]:
    # Usual suspects are no diagnosis.
    causes = [cause for cause in causes_in_order(finding, diagnosis) if cause.weight > KNOWN]
    lines = [Text.assemble(("why it matters: ", "bold"), shown(finding.why))] if finding.why else []
    for place, cause in enumerate(causes[:CAUSES_SHOWN]):
        named = shown(f"{cause_in_words(cause.cause)}{after_colon(cause.why, finding.message)}")
        lines.append(Text.assemble(("likely: " if place == 0 else "or: ", "bold"), named))
    if problem:
        return [*lines, Text.assemble(("problem: ", "bold"), shown(problem))]
    remedy = next((cause.remedy for cause in causes[:1] if cause.remedy), finding.remedy)
    return [*lines, Text.assemble(("fix: ", "bold"), shown(remedy))]


def problem_head(problem: Problem) -> Text:
    """Return the first line of a problem: severity, title and first step."""
    gone = problem.state is FindingState.CLOSED
    return Text.assemble(
        (f"{problem.severity.value:<{_WIDTH}}", "dim" if gone else SEVERITY_STYLES[problem.severity]),
        (shown(problem.title), "bold"), since(problem),
    )


def recording_cost(cost: Cost, *, brief: bool = False, budget: bool = True) -> str:
    """Return what recording cost, beside its budget; no percentage of a run that is too short for one.

    Args:
        cost: The cost.
        brief: In few words: without what the budget means for short runs.
        budget: Whether to name the budget, or the duration of a run that is too short for one.

    Example:
        >>> from barograph.model.manifest import Cost
        >>> recording_cost(Cost(train_secs=600.0, capture_secs=5.0, budget=0.01))
        'recording cost 0.8% (budget 1%)'
        >>> recording_cost(Cost(train_secs=60.0, capture_secs=0.9, budget=0.01))
        'recording cost 1.5% (budget 1%; runs of less than 120 s may exceed it)'
        >>> recording_cost(Cost(train_secs=2.3, capture_secs=0.3, budget=0.01))
        'recording took 300 ms of 2.3 s (the budget of 1% is for longer runs)'
        >>> recording_cost(Cost(train_secs=2.3, capture_secs=0.3, budget=0.01), brief=True)
        'cost 300 ms of 2.3 s'
    """
    limited = budget and not math.isnan(cost.budget)
    limit = f"{100 * cost.budget:g}%"
    if cost.too_short:
        took = duration(cost.capture_secs) + (f" of {duration(cost.train_secs)}" if budget else "")
        if brief:
            return f"cost {took}"
        return f"recording took {took}" + (f" (the budget of {limit} is for longer runs)" if limited else "")
    exceeds = not brief and cost.share > cost.budget and cost.may_exceed
    why = f"; runs of less than {SHORT_SECS:g} s may exceed it" if exceeds else ""
    return f"{'' if brief else 'recording '}cost {share(cost.share)}" + (f" (budget {limit}{why})" if limited else "")


def gone_line(finding: Finding) -> Text:
    """Return the line for a finding that is gone."""
    return Text.assemble((f"{'gone':<{_WIDTH}}", "green"), f"{finding.code} {finding.rule}{where(finding)}: not seen "
                         f"since step {finding.last_step}")


def indented(lines: Iterable[Text], *, by: int = 0) -> list[Text]:
    """Return the lines of a finding, indented; all but the first align with its name."""
    return [Text(" " * (by + (_WIDTH if place else 0))) + line for place, line in enumerate(lines)]
