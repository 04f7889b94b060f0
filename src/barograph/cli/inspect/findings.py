"""Findings as they are printed wherever a run is looked at."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.text import Text

from barograph.cli.printing import Printer
from barograph.cli.signs import SIGN
from barograph.model.cause import Suspicion
from barograph.model.finding import Finding, FindingState
from barograph.watch.wording import SEVERITY_STYLES, finding_lines

_INDENT = 4


def print_findings(printer: Printer, findings: Iterable[Finding], diagnosis: Sequence[Suspicion] = ()) -> None:
    """Print findings, each with a sign in the color of its severity; those that are gone are dim.

    Args:
        printer: Where to.
        findings: Which.
        diagnosis: Of the whole run: the causes of each come in its order.
    """
    for finding in findings:
        head, *rest = finding_lines(finding, diagnosis)
        style = "dim" if finding.state is FindingState.CLOSED else SEVERITY_STYLES[finding.severity]
        printer.line(Text.assemble((f"{SIGN} ", style), head), indent=2)
        for line in rest:
            printer.line(line, indent=_INDENT)
