"""Sentences about findings, problems and rules that were not evaluated, for every text and page."""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import StrEnum

from barograph.judging.feeding import SHORT
from barograph.model.finding import Evidence, Finding, FindingState, NotEvaluated, Unmet
from barograph.model.one_line import shown
from barograph.model.step import named
from barograph.queries.problems import Problem
from barograph.rules.words import number, sentence


def evidence_text(item: Evidence, message: str) -> str:
    """Return a piece of evidence: key, step, value and threshold.

    Args:
        item: The evidence.
        message: Message of the finding; text that it already has is not repeated.

    Example:
        >>> from barograph.model.key import key_from_text
        >>> evidence_text(Evidence(key_from_text("weight:fc"), 7, "max_abs", 30.0, 10.0), "It is loud.")
        'weight:fc at step 7: max_abs 30, threshold 10'
        >>> evidence_text(Evidence(None, 7, "share", 0.9, 0.5, "dead in 3 of 4"), "It is dead.")
        'run at step 7: dead in 3 of 4 (share 0.9, threshold 0.5)'
        >>> evidence_text(Evidence(None, 7, "share", 0.9, 0.5, "a share of 0.9"), "It is dead.")
        'run at step 7: a share of 0.9 (threshold 0.5)'
    """
    where_and_when = f"{item.key or 'run'} at step {item.step}"
    text = after_colon(item.text, message)
    # A count that must be 0, or a number without a threshold, needs no comparison.
    if not math.isfinite(item.threshold) or item.threshold in (0.0, item.value):
        return where_and_when + text
    value, limit = number(item.value), number(item.threshold)
    if value in item.text and limit in item.text:
        return where_and_when + text
    held = f"threshold {limit}" if text and value in item.text else f"{item.statistic} {value}, threshold {limit}"
    return f"{where_and_when}{text} ({held})" if text else f"{where_and_when}: {held}"


def after_colon(text: str, message: str) -> str:
    """Return the text after a colon; "" if the message already says it.

    Example:
        >>> after_colon("it is applied twice", "It is applied twice."), after_colon("in 3 layers", "It is dead.")
        ('', ': in 3 layers')
    """
    repeats = message.casefold().startswith(text.rstrip(".").casefold())
    return "" if repeats else f": {text}"


def not_evaluated_lines(items: Iterable[NotEvaluated], *, whole: bool) -> list[str]:
    """Return the rules that were not evaluated; rules that need the same thing share a line.

    Rules that are not applicable to this training are left out unless `whole` is set.

    Args:
        items: Rules that were not evaluated.
        whole: Include those that are not applicable.
    """
    listed = [item for item in items if whole or item.status is not Unmet.NOT_APPLICABLE]
    by_feed: dict[tuple[Unmet, str, bool], list[NotEvaluated]] = {}
    for item in sorted(listed, key=lambda item: _ORDER.index(item.status)):
        by_feed.setdefault((item.status, item.feed, item.in_part), []).append(item)
    lines = []
    for (status, feed, in_part), together in by_feed.items():
        head = f"{status.value}{', in part' if in_part else ''}"
        if len(together) > 1 and feed:
            lines.append(f"{head}: {', '.join(f'{item.code} {item.rule}' for item in together)}. {feed}")
        else:
            lines += [f"{head}: {item.code} {item.rule}. {_why(item.reason)} {item.feed}".rstrip() for item in together]
    return lines


def _why(reason: str) -> str:
    return sentence(reason.removeprefix("Not judged yet: "))  # the status has said so


_ORDER = (Unmet.FAILED, Unmet.NEEDS_SETTING, Unmet.NOT_ENOUGH_DATA, Unmet.NOT_APPLICABLE)


def not_evaluated_line(items: Iterable[NotEvaluated]) -> str:
    """Return in one line how many rules were not evaluated and what the user can change; "" if none.

    Leaves out rules that are not applicable or were evaluated in part.
    """
    items = [item for item in items if not item.in_part]
    needs: dict[str, int] = {}
    for item in items:
        if item.status is Unmet.NEEDS_SETTING:
            short = SHORT.get(item.feed, item.feed.rstrip("."))
            needs[short] = needs.get(short, 0) + 1
    if waiting := sum(item.status is Unmet.NOT_ENOUGH_DATA for item in items):
        needs["more data"] = waiting
    parts = [f"{number} {what}" if place else f"{_rules(number)} {'needs' if number == 1 else 'need'} {what}"
             for place, (what, number) in enumerate(needs.items())]
    if failed := [item.code for item in items if item.status is Unmet.FAILED]:
        parts.append(f"{', '.join(failed)} failed")
    return ", ".join(parts)


def _rules(number: int) -> str:
    return "1 rule" if number == 1 else f"{number} rules"


def since(problem: Problem) -> str:
    """Return the first step of a problem, unless its title has it, and the code of its rule."""
    parts = [] if f" {problem.since_step:,}" in problem.title else [f"since step {problem.since_step:,}"]
    parts += ["gone"] if problem.state is FindingState.CLOSED else []
    return f" ({', '.join([*parts, problem.findings[0].code])})"


class Part(StrEnum):
    """Kinds of lines below the title of a problem."""

    EVIDENCE = "evidence"
    REMEDY = "remedy"
    CONSEQUENCES = "consequences"


def problem_rest(problem: Problem, *, evidence: int = 1) -> list[tuple[Part, str]]:
    """Return the lines below the title of a problem: evidence, remedy and consequences."""
    lines = [(Part.EVIDENCE, shown(text)) for text in problem.evidence[:evidence]]
    if problem.state is not FindingState.CLOSED:
        lines.append((Part.REMEDY, f"{remedy_label(problem)}: {shown(problem.remedy.text)}"))
    if problem.consequences:
        lines.append((Part.CONSEQUENCES, f"leads to: {', '.join(problem.leads_to)}"))
    return lines


def remedy_label(problem: Problem) -> str:
    """Return the label of the remedy: "fix", or "cause not known yet"."""
    return "fix" if problem.cause else "cause not known yet"


def where(finding: Finding) -> str:
    """Return worker and optimizer, as in " (p1, optimizer generator)"; "" if there is only one."""
    # The only process, or all ranks together, need no name.
    parts = [] if finding.worker in ("p0", "r") else [finding.worker]
    if finding.optimizer:
        parts.append(named(finding.optimizer))
    return f" ({', '.join(parts)})" if parts else ""


def when(finding: Finding) -> str:
    """Return the first and the last step of a finding, and whether it is gone."""
    if finding.state is FindingState.CLOSED:
        return f"steps {finding.since_step} to {finding.last_step}, gone"
    if finding.last_step > finding.opened_step:
        return f"since step {finding.since_step}, last seen in step {finding.last_step}"
    return f"since step {finding.since_step}"
