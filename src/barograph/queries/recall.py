"""The summary that the last watcher of a run saved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from barograph.errors import BarographError
from barograph.judging.judge import identity
from barograph.judging.judged import Judged, judged_before
from barograph.judging.state import read_state
from barograph.model.finding import SEVERITY_ORDER, FindingState
from barograph.queries.summary import RunSummary, summary_of
from barograph.rules.base import Rule, rule_with
from barograph.rules.registry import installed
from barograph.runs.state.findings import read_findings
from barograph.runs.state.survey import survey
from barograph.store.base import Store


@dataclass(frozen=True, slots=True)
class Recall:
    """Summary of a run without watching it.

    Attributes:
        summary: As `summary_of` gives it. Where nobody watched, it speaks of the workers and of coverage alone.
        watched: Whether a watcher left its state.
        complete: Whether that watcher has judged all that was published.
        problem: Why its state cannot be taken up, so that only the findings it recorded are known; "" where it
            can, or where there is none.
    """

    summary: RunSummary
    watched: bool
    complete: bool
    problem: str = ""

    @property
    def verdict(self) -> str:
        """One sentence; "No findings" only where all there is was judged, and it is known by which rules."""
        if self.summary.findings:
            return self.summary.verdict
        if not self.summary.workers:
            return self.summary.verdict
        if not self.watched:
            return "This run has not been watched."
        if not self.complete:
            return "No problems found so far. Not everything was judged yet."
        return "Its watcher recorded no findings." if self.problem else self.summary.verdict


def recalled(store: Store, damage: Iterable[str] = ()) -> Recall:
    """Return what the last watcher of the run in `store` left; nothing is written.

    Args:
        store: The run's.
        damage: What of the run cannot be read now, whether or not it could be then.

    Raises:
        StoreError: The store cannot be read.
    """
    state = read_state(store)
    rules, problem = _rules_of(state) if state else ((), "")
    judged = judged_before(store, state, rules) if state and not problem else Judged()
    summary = summary_of(store, judged)
    if problem or not state:
        findings = sorted(read_findings(store).findings, key=lambda item: (
            item.state is not FindingState.OPEN, SEVERITY_ORDER.index(item.severity), item.since_step, item.id))
        summary = replace(summary, findings=tuple(findings))
    summary = summary.but_damaged(*damage)
    return Recall(summary, state is not None, state is not None and _has_judged_all(store, state), problem)


def has_judged_all(store: Store) -> bool:
    """Return whether a watcher has judged all that was published in the run so far.

    Raises:
        StoreError: The store cannot be read.
    """
    state = read_state(store)
    return state is not None and _has_judged_all(store, state)


def _rules_of(state: Mapping[str, Any]) -> tuple[tuple[Rule, ...], str]:
    """Return the rules of a watcher's state; and why that cannot be, where one is not installed here."""
    known = {rule_class.code: rule_class for rule_class in installed().classes}
    rules = []
    for judge in state["judges"]:
        wanted = judge["rule"]
        # Only installed rules: a run is data, and says nothing about what code to load.
        rule_class = known.get(wanted["code"])
        try:
            rule = rule_with(rule_class, wanted["parameters"]) if rule_class else None
        except BarographError:
            rule = None
        if rule is None or identity(rule) != wanted:
            return (), (f"It was watched with a rule {wanted['code']} ({wanted['class']}) that is not installed here "
                        "as it was then.")
        rules.append(rule)
    return tuple(rules), ""


def _has_judged_all(store: Store, state: Mapping[str, Any]) -> bool:
    cursor = state.get("cursor")
    if not cursor:
        return False
    found = survey(store)
    for attempt, worker in found.chunks:
        if attempt < cursor["attempt"]:
            continue
        files = found.files((attempt, worker))
        next_chunk, _ = cursor["workers"].get(worker, (0, 0))
        if attempt > cursor["attempt"] or files[-1].last >= next_chunk:
            return False
    return True
