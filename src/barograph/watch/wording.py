"""A finding in words, the same wherever one is told: as it happens, in the closing summary, in `show`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from rich.text import Text

from barograph.model.cause import Suspicion
from barograph.model.finding import Evidence, Finding, FindingState, NotEvaluated, Severity
from barograph.model.one_line import shown as shown
from barograph.model.step import named
from barograph.rules.words import number
from barograph.watch.diagnosis import causes_in_order

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


def evidence_text(item: Evidence, message: str) -> str:
    """Return a piece of evidence: on what, in which step, what was seen, and what it was held against.

    Args:
        item: Which.
        message: Of the finding; what that has said is not said again.

    Example:
        >>> from barograph.model.key import key_from_text
        >>> evidence_text(Evidence(key_from_text("weight:fc"), 7, "max_abs", 30.0, 10.0), "It is loud.")
        'weight:fc at step 7: max_abs 30 against 10'
        >>> evidence_text(Evidence(None, 7, "share", 0.9, 0.5, "dead in 3 of 4"), "It is dead.")
        'run at step 7: dead in 3 of 4 (share 0.9 against 0.5)'
        >>> evidence_text(Evidence(None, 7, "share", 0.9, 0.5, "a share of 0.9"), "It is dead.")
        'run at step 7: a share of 0.9 (against 0.5)'
    """
    where_and_when = f"{item.key or 'run'} at step {item.step}"
    text = after_colon(item.text, message)
    # Of counts that must be 0, and of numbers that are only shown, there is nothing to be said.
    if not math.isfinite(item.threshold) or item.threshold in (0.0, item.value):
        return where_and_when + text
    value, limit = number(item.value), number(item.threshold)
    if value in item.text and limit in item.text:
        return where_and_when + text
    held = f"against {limit}" if text and value in item.text else f"{item.statistic} {value} against {limit}"
    return f"{where_and_when}{text} ({held})" if text else f"{where_and_when}: {held}"


def after_colon(text: str, message: str) -> str:
    """Return the text behind a colon; "" where the message has said just that.

    Example:
        >>> after_colon("it is applied twice", "It is applied twice."), after_colon("in 3 layers", "It is dead.")
        ('', ': in 3 layers')
    """
    said = message.casefold().startswith(text.rstrip(".").casefold())
    return "" if said else f": {text}"


def cause_lines(diagnosis: Sequence[Suspicion]) -> list[Text]:
    """Return what is most likely behind all findings of a run: the cause, what speaks for it, what to do.

    The remedy stands with the first alone; where two are about equally likely, the second has its line, too.
    """
    lines: list[Text] = []
    for cause in diagnosis[:CAUSES_SHOWN]:
        if lines and cause.weight < _WORTH_NAMING * diagnosis[0].weight:
            break
        why = f": {shown(cause.why)}" if cause.why else ""
        lines.append(Text.assemble((shown(cause.cause), "" if lines else "bold"), why))
    if diagnosis and diagnosis[0].remedy:
        lines.insert(1, Text.assemble(("do: ", "bold"), shown(diagnosis[0].remedy)))
    return lines


_WORTH_NAMING = 0.5
"""Share of the first cause's weight below which another is not named beside it."""


def not_evaluated_lines(items: Iterable[NotEvaluated], *, whole: bool) -> list[str]:
    """Return the rules that were not evaluated: those that one thing would feed in one line, with that thing.

    Those that were fed in part are told apart: they may have findings.

    Args:
        items: Which.
        whole: With the reason of each that nothing would feed; else their codes alone.
    """
    by_feed: dict[tuple[str, bool], list[NotEvaluated]] = {}
    unfed: list[NotEvaluated] = []
    for item in items:
        (by_feed.setdefault((item.feed, item.in_part), []) if item.feed else unfed).append(item)
    lines = []
    for (feed, in_part), together in by_feed.items():
        if len(together) == 1:
            lines.append(f"{together[0].code} {together[0].rule}: {together[0].reason} {feed}")
        else:
            named = ", ".join(f"{item.code} {item.rule}" for item in together)
            some = "some of what they need was not recorded" if in_part else "nothing was recorded of what they need"
            lines.append(f"{named}: {some}. {feed}")
    if whole or len(unfed) == 1:
        return [*lines, *(f"{item.code} {item.rule}: {item.reason}" for item in unfed)]
    if unfed:
        codes = ", ".join(item.code for item in unfed)
        lines.append(f"{codes}: met nothing that they judge, or too little of it so far; barograph show tells of each.")
    return lines


def gone_line(finding: Finding) -> Text:
    """Return the line that says a finding is gone."""
    return Text.assemble((f"{'gone':<{_WIDTH}}", "green"), f"{finding.code} {finding.rule}{where(finding)}: not seen "
                         f"since step {finding.last_step}")


def where(finding: Finding) -> str:
    """Return in which process and of which optimizer, " (p1, optimizer generator)"; "" where there is but one."""
    # The only process, or all ranks together, need no name.
    parts = [] if finding.worker in ("p0", "r") else [finding.worker]
    if finding.optimizer:
        parts.append(named(finding.optimizer))
    return f" ({', '.join(parts)})" if parts else ""


def when(finding: Finding) -> str:
    """Return from which step on, how long it was seen, and whether it is over."""
    if finding.state is FindingState.CLOSED:
        return f"steps {finding.since_step} to {finding.last_step}, gone"
    if finding.last_step > finding.opened_step:
        return f"since step {finding.since_step}, last seen in step {finding.last_step}"
    return f"since step {finding.since_step}"


def indented(lines: Iterable[Text], *, by: int = 0) -> list[Text]:
    """Return the lines of a finding with all but the first moved below its name, and all of them by some more."""
    return [Text(" " * (by + (_WIDTH if place else 0))) + line for place, line in enumerate(lines)]
