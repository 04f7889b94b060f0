"""HTML formatters of IPython for objects of lower packages, registered by name so that nothing is imported."""

from __future__ import annotations

from typing import Any


def register(shell: Any) -> None:
    """Register the HTML formatters of runs and findings; idempotent.

    Args:
        shell: IPython shell.
    """
    html = shell.display_formatter.formatters["text/html"]
    for module, name, draw in (
        ("barograph.runs.reading.reader", "Run", _run), ("barograph.model.finding", "Findings", _findings),
        ("barograph.model.finding", "Finding", _finding),
    ):
        html.for_type_by_name(module, name, draw)


def _run(run: Any) -> str:
    from barograph.experiments.shown import exhibits_of_run
    from barograph.report.notebook import run_html

    return run_html(run, exhibits=exhibits_of_run(run.store, run.manifest.run_id))


def _findings(findings: Any) -> str:
    from barograph.report.notebook import findings_html

    return findings_html(findings)


def _finding(finding: Any) -> str:
    return _findings([finding])
