"""Findings as they are printed wherever a run is looked at."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from barograph.cli.printing import Printer, shown
from barograph.cli.signs import severity_text
from barograph.model.finding import Finding, FindingState

_EVIDENCE = 3
_INDENT = 4


def print_findings(printer: Printer, findings: Iterable[Finding]) -> None:
    """Print what is wrong, where, since when, the evidence, and what to do."""
    for finding in findings:
        gone = finding.state is FindingState.CLOSED
        sign = f"● {finding.severity.value:<9}"
        head = Text.assemble(
            Text(sign, "dim") if gone else severity_text(finding.severity, sign),
            (f" {finding.code} {finding.rule}", "bold"), f"{_where(finding)}  {when(finding)}",
        )
        printer.line(head, indent=2)
        printer.line(finding.message, indent=_INDENT)
        for item in finding.evidence[:_EVIDENCE]:
            what = f"{item.key or 'run'} at step {item.step}: {item.text}"
            printer.line(Text(f"· {shown(what)}", "dim"), indent=_INDENT)
        if not gone:
            printer.line(Text.assemble(("do: ", "bold"), shown(finding.remedy)), indent=_INDENT)


def when(finding: Finding) -> str:
    """Return from which step on, and whether it is over."""
    if finding.state is FindingState.CLOSED:
        return f"steps {finding.since_step} to {finding.last_step}, gone"
    return f"since step {finding.since_step}, open"


def _where(finding: Finding) -> str:
    # The only process, or all ranks together, need no name.
    named = "" if finding.worker in ("p0", "r") else f" in {finding.worker}"
    return named + (f", optimizer {finding.optimizer}" if finding.optimizer else "")
