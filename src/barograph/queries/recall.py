"""The summary that the last watcher of a run saved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from barograph.errors import BarographError, DamagedChunk
from barograph.judging.judge import identity
from barograph.judging.judged import Judged, judged_before
from barograph.judging.progress import RateJump, progress_from_json, rate_jumps_in
from barograph.judging.state import read_state, state_of
from barograph.model.finding import SEVERITY_ORDER, FindingState
from barograph.queries.summary import RunSummary, summary_of
from barograph.rules.base import Rule, rule_with
from barograph.rules.registry import installed
from barograph.runs.state.findings import read_findings
from barograph.runs.state.survey import survey
from barograph.store.base import Store

NOT_WATCHED = "This run has not been watched."
NOT_ALL_JUDGED = "No problems found so far. Not everything was judged yet."


@dataclass(frozen=True, slots=True)
class Recall:
    """Summary of a run without watching it.

    Attributes:
        summary: Summary of the run; of workers and coverage only if the run was never watched.
        watched: Whether a watcher saved its state.
        complete: Whether that watcher has evaluated everything that was published.
        problem: Why its state cannot be used, so that only its recorded findings are known; "" if it can, or if there
            is none.
    """

    summary: RunSummary
    watched: bool
    complete: bool
    problem: str = ""

    @property
    def verdict(self) -> str:
        """The verdict; "No problems found" only if everything was evaluated, by known rules."""
        if self.summary.findings:
            return self.summary.verdict
        if not self.summary.workers:
            return self.summary.verdict
        if not self.watched:
            return NOT_WATCHED
        if not self.complete:
            return NOT_ALL_JUDGED
        return "Its watcher recorded no findings." if self.problem else self.summary.verdict


def recalled(store: Store, damage: Iterable[str] = ()) -> Recall:
    """Return the summary that the last watcher of a run saved; nothing is written.

    Args:
        store: Store of the run.
        damage: Parts of the run that cannot be read now.

    Raises:
        StoreError: The store cannot be read.
    """
    state = read_state(store)
    rules, problem = _rules_of(state) if state else ((), "")
    judged = judged_before(store, state, rules) if state and not problem else Judged()
    is_complete = state is not None and _has_judged_all(store, state)
    summary = summary_of(store, judged, is_complete=is_complete)
    if problem or not state:
        findings = sorted(read_findings(store).findings, key=lambda item: (
            item.state is not FindingState.OPEN, SEVERITY_ORDER.index(item.severity), item.since_step, item.id))
        summary = replace(summary, findings=tuple(findings))
    summary = summary.but_damaged(*damage)
    return Recall(summary, state is not None, is_complete, problem)


def judged_and_jumps(store: Store) -> tuple[bool, tuple[RateJump, ...]]:
    """Return whether a watcher has evaluated everything that was published, and the learning rate jumps that it saw.

    Both at once, since its state is one object, which a bucket charges for. A damaged state has no jumps.

    Raises:
        StoreError: The store cannot be read.
    """
    state = read_state(store)
    return (False, ()) if state is None else (_has_judged_all(store, state), _rate_jumps(store, state))


def _rate_jumps(store: Store, state: Mapping[str, Any]) -> tuple[RateJump, ...]:
    try:
        with state_of(store):
            return rate_jumps_in({group: progress_from_json(saved) for group, saved in state["progress"].items()})
    except DamagedChunk:
        return ()


def _rules_of(state: Mapping[str, Any]) -> tuple[tuple[Rule, ...], str]:
    """Return the rules in a watcher's state, or why they cannot be used: one is not installed here."""
    known = {rule_class.code: rule_class for rule_class in installed().classes}
    rules = []
    for judge in state["judges"]:
        wanted = judge["rule"]
        # Only installed rules: a run is data, and must not load code.
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
