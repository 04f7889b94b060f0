"""Findings of rules in a run up to the last evaluated step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from barograph.judging.judge import Judge
from barograph.judging.progress import Progress, RateJump, progress_from_json, rate_jumps_in
from barograph.judging.state import state_of
from barograph.model.clock import SystemClock
from barograph.model.finding import Finding, NotEvaluated
from barograph.rules.base import Rule
from barograph.runs.state.findings import read_findings
from barograph.store.base import Store


@dataclass(frozen=True, slots=True)
class Judged:
    """Findings of rules in a run so far.

    Attributes:
        rules: The rules.
        steps: Number of evaluated steps.
        findings: All findings in their current state, by first step.
        not_evaluated: Rules that were not evaluated, fully or partly.
        problems: Problems of the watching.
        unmet: Expected records that are missing.
        damage: Parts of the run that cannot be read; also among the problems.
        would_have: Actions that would have been requested if the run had continued: finding and sentence.
        progress: Progress of each group of workers.
        store_full: The store was full at some time.
    """

    rules: tuple[Rule, ...] = ()
    steps: int = 0
    findings: tuple[Finding, ...] = ()
    not_evaluated: tuple[NotEvaluated, ...] = ()
    problems: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()
    damage: tuple[str, ...] = ()
    would_have: tuple[tuple[Finding, str], ...] = ()
    progress: Mapping[str, Progress] = field(default_factory=dict)
    store_full: bool = False

    @property
    def rate_jumps(self) -> tuple[RateJump, ...]:
        """Steps at which a learning rate jumped."""
        return rate_jumps_in(self.progress)


def judged_before(store: Store, state: Mapping[str, Any], rules: Sequence[Rule]) -> Judged:
    """Return the findings of the last watcher of a run.

    Args:
        store: Store of the run.
        state: State of that watcher.
        rules: Its rules, in the same order.

    Raises:
        DamagedChunk: The state is invalid.
        StoreError: The store cannot be read.
    """
    judges = [Judge(rule, SystemClock()) for rule in rules]
    with state_of(store):
        for judge, saved in zip(judges, state["judges"], strict=True):
            judge.load(saved)
        progress = {group: progress_from_json(saved) for group, saved in state["progress"].items()}
        still_open = {item.id: item for judge in judges for item in judge.open()}
    # Open findings have continued since they were recorded.
    recorded = {item.id: item for item in read_findings(store).findings} | still_open
    return Judged(
        tuple(rules), state["steps"], in_order(recorded.values()),
        tuple(found for judge in judges if (found := judge.not_evaluated())), tuple(state["problems"]),
        damage=tuple(state["damage"]), progress=progress, store_full=bool(state.get("store_full", False)),
    )


def in_order(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings by their first step."""
    return tuple(sorted(findings, key=lambda item: (item.since_step, item.id)))
