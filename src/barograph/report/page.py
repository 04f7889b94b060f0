"""A report as one HTML file: no script, nothing from elsewhere, nothing a name in the run could break out of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from barograph.report import page_classes, page_exhibits, page_findings, page_layers, page_machine, page_numbers
from barograph.report.content import Report
from barograph.report.exhibits import Picture
from barograph.report.markup import Markup, element
from barograph.report.style import STYLE
from barograph.watch.figures import local_time

# A second wall behind the escaping: a browser that is told so runs no script and fetches nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


@dataclass(frozen=True, slots=True)
class _Section:
    anchor: str
    title: str
    has: Callable[[Report], object]
    of: Callable[[Report], Markup]


_SECTIONS = (
    _Section("findings", "Findings", lambda report: True, page_findings.findings),
    _Section("savings", "What stopping sooner would have saved", lambda report: True, page_findings.savings),
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
    _Section("missing", "Not shown", lambda report: report.missing, lambda report: _missing(report)),
    _Section("run", "The run", lambda report: True, page_findings.facts),
)


def page_of(report: Report) -> str:
    """Return the report as a whole HTML document."""
    shown = [section for section in _SECTIONS if section.has(report)]
    links = [element("li", element("a", section.title, href=f"#{section.anchor}")) for section in shown]
    body = element(
        "body", page_findings.head(report),
        element("main", element("nav", element("ul", links), aria_label="Sections"),
                [element("section", element("h2", section.title, id=f"{section.anchor}-title"), section.of(report),
                         id=section.anchor, aria_labelledby=f"{section.anchor}-title") for section in shown]),
        element("footer", f"Made by Barograph {report.barograph} on {local_time(report.made_unix)}."),
    )
    head = element(
        "head", element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy(report)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"{report.run.name or report.run.run_id} – Barograph"), element("style", STYLE),
    )
    return f"<!DOCTYPE html>\n{element('html', head, body, lang='en')}\n"


def _policy(report: Report) -> str:
    # Pictures are in the page itself.
    return f"{_POLICY}; img-src data:" if any(isinstance(item, Picture) for item in report.exhibits) else _POLICY


def _missing(report: Report) -> Markup:
    return element("ul", [element("li", element("b", item.section), f": {item.reason}",
                                  f" {item.feed}" if item.feed else None) for item in report.missing])


