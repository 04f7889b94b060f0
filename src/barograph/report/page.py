"""A report as one HTML file: no script, nothing from elsewhere, nothing a name in the run could break out of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from barograph.report import (
    page_background,
    page_classes,
    page_exhibits,
    page_findings,
    page_layers,
    page_machine,
    page_numbers,
)
from barograph.report.content import Report
from barograph.report.document import document
from barograph.report.exhibits import Picture
from barograph.report.markup import Markup, element
from barograph.watch.figures import local_time


@dataclass(frozen=True, slots=True)
class _Section:
    anchor: str
    title: str
    has: Callable[[Report], object]
    of: Callable[[Report], Markup]


_SECTIONS = (
    _Section("findings", "Findings", lambda report: True, page_findings.findings),
    _Section("savings", "What stopping sooner would have saved", lambda report: True, page_findings.savings),
    _Section("notes", "Notes and tags", page_background.has_notes, page_background.notes),
    _Section("losses", "Losses", lambda report: report.losses, page_numbers.losses),
    _Section("numbers", "Logged numbers and learning rates", lambda report: report.numbers, page_numbers.numbers),
    _Section("layers", "Health by layer", lambda report: report.layers, page_layers.layers),
    _Section("distributions", "Distributions", lambda report: report.distributions, page_layers.distributions),
    _Section("importance", "Importance of features", lambda report: report.importance, page_machine.importance),
    _Section("trees", "Trees", lambda report: report.trees, page_machine.trees),
    _Section("classes", "Labels and confusion", lambda report: report.classes, page_classes.classes),
    _Section("roc", "ROC", lambda report: report.roc, page_classes.roc),
    _Section("residuals", "Residuals", lambda report: report.residuals, page_classes.residuals),
    _Section("exhibits", "Tables, curves and figures", lambda report: report.exhibits,
             lambda report: page_exhibits.exhibits(report.exhibits)),
    _Section("time", "Where the time of a step goes", lambda report: report.step_time, page_machine.step_time),
    _Section("machine", "Use of the machine", lambda report: report.machine, page_machine.machine),
    _Section("origin", "What made it", page_background.has_origin, page_background.origin),
    _Section("artifacts", "Artifacts", page_background.has_artifacts, page_background.artifacts),
    _Section("missing", "Not shown", lambda report: report.missing, lambda report: _missing(report)),
    _Section("run", "The run", lambda report: True, page_findings.facts),
)


def page_of(report: Report) -> str:
    """Return the report as a whole HTML document."""
    shown = [section for section in _SECTIONS if section.has(report)]
    sections = [(section.anchor, section.title, section.of(report)) for section in shown]
    return document(report.run.name or report.run.run_id, page_findings.head(report), sections,
                    f"Made by Barograph {report.barograph} on {local_time(report.made_unix)}.",
                    pictures=any(isinstance(item, Picture) for item in report.exhibits))


def _missing(report: Report) -> Markup:
    return element("ul", [element("li", element("b", item.section), f": {item.reason}",
                                  f" {item.feed}" if item.feed else None) for item in report.missing])


