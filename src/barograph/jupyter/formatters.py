"""HTML formatters of IPython for our objects, registered by type name so that nothing is imported for it."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

_DRAWN_BY = {
    ("barograph.runs.reading.reader", "RunReader"): "run_html",
    ("barograph.model.finding", "Findings"): "findings_html",
    ("barograph.model.finding", "Finding"): "finding_html",
    ("barograph.model.exhibits", "Exhibit"): "exhibit_html",
    ("barograph.experiments.active_run", "ActiveRun"): "active_run_html",
    ("barograph.experiments.handle", "Handle"): "handle_html",
    ("barograph.experiments.handle", "Listing"): "listing_html",
    ("barograph.experiments.table", "ComponentTable"): "table_html",
    ("barograph.experiments.comparing", "Comparison"): "comparison_html",
    ("barograph.experiments.verdict", "Verdict"): "verdict_html",
    ("barograph.experiments.judging", "Judgement"): "judgement_html",
    ("barograph.experiments.table_curves", "Curves"): "curves_html",
    ("barograph.experiments.curves", "Curve"): "curve_html",
    ("barograph.experiments.lineage", "Lineage"): "lineage_html",
    ("barograph.tune.study", "Study"): "study_html",
}
"""Module and name of a type, which may have subclasses, to the function of `drawing` that returns it as HTML."""


def register(shell: Any) -> None:
    """Register the HTML formatters of our objects; idempotent.

    Args:
        shell: IPython shell.
    """
    html = shell.display_formatter.formatters["text/html"]
    for (module, name), function in _DRAWN_BY.items():
        html.for_type_by_name(module, name, _drawing(function))


def _drawing(function: str) -> Callable[[Any], str]:
    def draw(value: Any) -> str:
        # Loaded only when a notebook displays something.
        return str(getattr(importlib.import_module("barograph.jupyter.drawing"), function)(value))

    return draw
