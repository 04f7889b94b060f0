"""Prints findings, the same way in every command."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.text import Text

from barograph.cli.printing import Printer
from barograph.cli.signs import SIGN
from barograph.model.cause import Suspicion
from barograph.model.finding import Finding, FindingState
from barograph.watch.wording import SEVERITY_STYLES, finding_lines

_INDENT = 4


def print_findings(
    printer: Printer, findings: Iterable[Finding], diagnosis: Sequence[Suspicion] = (),
    problems: Mapping[str, str] | None = None,
) -> None:
    """Print findings with a symbol in the color of their severity; closed ones are dim.

    Args:
        printer: Prints.
        findings: The findings.
        diagnosis: Diagnosis of the run; determines the order of the causes.
        problems: Title of the problem of each finding, by its ID.
    """
    for finding in findings:
        head, *rest = finding_lines(finding, diagnosis, (problems or {}).get(finding.id, ""))
        style = "dim" if finding.state is FindingState.CLOSED else SEVERITY_STYLES[finding.severity]
        printer.line(Text.assemble((f"{SIGN} ", style), head), indent=2)
        for line in rest:
            printer.line(line, indent=_INDENT)
