"""A finding in words, the same wherever one is told: as it happens, in the closing summary, in `show`."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from barograph.model.cause import Suspicion
from barograph.model.finding import Finding, FindingState, Severity
from barograph.model.one_line import shown as shown
from barograph.queries.causes import causes_in_order
from barograph.queries.problems import Problem
from barograph.queries.wording import after_colon, evidence_text, since, when, where

SEVERITY_STYLES = {
    Severity.BREAKING: "bold red", Severity.COSTLY: "bold yellow", Severity.DOUBTFUL: "yellow", Severity.NOTE: "cyan",
}

EVIDENCE_SHOWN = 3
"""Most pieces of evidence that are told; JSON has all."""

_WIDTH = 10


CAUSES_SHOWN = 3
"""Most causes that are told of one finding."""


def finding_lines(finding: Finding, diagnosis: Iterable[Suspicion] = ()) -> list[Text]:
    """Return a finding as lines: what, where, since when; the evidence; and, while it is open, why and what to do.

    The first line says all that matters, so that a search shows it whole; the others belong below it.

    Args:
        finding: Which.
        diagnosis: Of the whole run, where it is known: the finding's causes come in its order.
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
        lines += _what_to_do(finding, diagnosis)
    return lines


def _what_to_do(finding: Finding, diagnosis: Iterable[Suspicion]) -> list[Text]:
    causes = causes_in_order(finding, diagnosis)
    lines = [Text.assemble(("why it matters: ", "bold"), shown(finding.why))] if finding.why else []
    for place, cause in enumerate(causes[:CAUSES_SHOWN]):
        why = shown(after_colon(cause.why, finding.message))
        lines.append(Text.assemble(("likely: " if place == 0 else "or: ", "bold"), shown(cause.cause), why))
    remedy = next((cause.remedy for cause in causes[:1] if cause.remedy), finding.remedy)
    return [*lines, Text.assemble(("do: ", "bold"), shown(remedy))]


def problem_head(problem: Problem) -> Text:
    """Return the first line of a problem: how bad, what, since when."""
    gone = problem.state is FindingState.CLOSED
    return Text.assemble(
        (f"{problem.severity.value:<{_WIDTH}}", "dim" if gone else SEVERITY_STYLES[problem.severity]),
        (shown(problem.title), "bold"), since(problem),
    )


def gone_line(finding: Finding) -> Text:
    """Return the line that says a finding is gone."""
    return Text.assemble((f"{'gone':<{_WIDTH}}", "green"), f"{finding.code} {finding.rule}{where(finding)}: not seen "
                         f"since step {finding.last_step}")


def indented(lines: Iterable[Text], *, by: int = 0) -> list[Text]:
    """Return the lines of a finding with all but the first moved below its name, and all of them by some more."""
    return [Text(" " * (by + (_WIDTH if place else 0))) + line for place, line in enumerate(lines)]
