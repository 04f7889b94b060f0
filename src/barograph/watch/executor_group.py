"""The executors of a watcher, as if all rules ran in one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from barograph.errors import BadRule
from barograph.judging.judge import identity
from barograph.model.clock import Clock
from barograph.model.finding import Finding, NotEvaluated
from barograph.rules.base import Rule
from barograph.watch.executor import Item, RuleExecutor, RuleResult


class ExecutorGroup:
    """The executors of a watcher.

    Args:
        rules: The rules; each may occur once.
        executors: Distributes the rules to executors.
        clock: Measures the time that rules take.

    Attributes:
        rules: The rules, in order.

    Raises:
        BadRule: Two rules have the same code.
    """

    def __init__(
        self, rules: Iterable[Rule], executors: Callable[[Sequence[Rule], Clock], Iterable[RuleExecutor]], clock: Clock
    ) -> None:
        self.rules = tuple(rules)
        codes = [rule.code for rule in self.rules]
        if len(set(codes)) < len(codes):
            raise BadRule(f"Two of the rules have one code; they are {', '.join(sorted(codes))}.")
        self._place = {code: number for number, code in enumerate(codes)}
        self._executors = tuple(executors(self.rules, clock))
        self._not_evaluated: tuple[NotEvaluated, ...] | None = None

    def judge(self, items: Sequence[Item]) -> list[RuleResult]:
        """Return what the rules found in these steps, by step and then in the order of the rules."""
        if not items:
            return []
        for executor in self._executors:
            executor.begin(items)
        results = [one for executor in self._executors for one in executor.finish()]
        return sorted(results, key=lambda one: (one.item, self._place[one.code]))

    def open(self) -> list[Finding]:
        """Return the open findings."""
        return [finding for executor in self._executors for finding in executor.open()]

    def not_evaluated(self) -> tuple[NotEvaluated, ...]:
        """Return the rules that could not be evaluated so far, and what they need."""
        if self._not_evaluated is not None:
            return self._not_evaluated
        found = [item for executor in self._executors for item in executor.not_evaluated()]
        return tuple(sorted(found, key=lambda item: self._place[item.code]))

    def states(self) -> tuple[list[dict[str, Any]], list[str]]:
        """Return the saved state of each rule, in order, and the problems of saving them."""
        states: dict[str, dict[str, Any]] = {}
        problems: list[str] = []
        for executor in self._executors:
            saved, failed = executor.state()
            states.update({rule.code: state for rule, state in zip(executor.rules, saved, strict=True)})
            problems += failed
        return [states[rule.code] for rule in self.rules], problems

    def fits(self, states: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether these are states of the same rules with the same parameters."""
        return [state["rule"] for state in states] == [identity(rule) for rule in self.rules]

    def load(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Load what `states` returned."""
        for executor in self._executors:
            executor.load([states[self._place[rule.code]] for rule in executor.rules])

    def close(self) -> None:
        """Close the executors; later calls do nothing."""
        # A call after the end would start a process that nothing terminates.
        self._not_evaluated = self.not_evaluated()
        for executor in self._executors:
            executor.close()
