"""Interface of executors, which evaluate several rules on the same steps.

The loop passes complete steps to an executor and gets back the results of each rule for each step. Rules may run in
the watcher's process, in another process or on another machine; the findings are the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from barograph.judging.judge import Judge
from barograph.model.clock import Clock
from barograph.model.finding import Finding, NotEvaluated
from barograph.rules.base import Rule
from barograph.rules.columns import fit_together, lay_out
from barograph.rules.step_groups import MOST_STEPS
from barograph.runs.reading.view import StepView


@dataclass(frozen=True, slots=True)
class NewAttempt:
    """A group of workers was restarted: its step numbers may go back.

    Attributes:
        group: Name of the group.
    """

    group: str


Item = StepView | NewAttempt


@dataclass(frozen=True, slots=True)
class RuleResult:
    """Result of one rule for one step.

    Attributes:
        item: Index of the step among those passed to `begin`.
        code: Code of the rule.
        findings: Findings that opened or closed, as of this step.
        problems: Problems of the rule itself, one sentence each.
    """

    item: int
    code: str
    findings: tuple[Finding, ...]
    problems: tuple[str, ...]


class RuleExecutor(Protocol):
    """Evaluates some rules on one run. No method raises because of a rule's failure."""

    @property
    def rules(self) -> tuple[Rule, ...]:
        ...

    def begin(self, items: Sequence[Item]) -> None:
        """Pass steps to the rules; returns at once if the rules run in another process."""
        ...

    def finish(self) -> list[RuleResult]:
        """Return the results for the last steps passed, by step and then in the order of the rules."""
        ...

    def open(self) -> list[Finding]:
        """Return the open findings."""
        ...

    def not_evaluated(self) -> list[NotEvaluated]:
        """Return the rules that could not be evaluated so far."""
        ...

    def state(self) -> tuple[list[dict[str, Any]], list[str]]:
        """Return each rule's state as plain JSON data, in the order of the rules, and problems of saving it."""
        ...

    def load(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Load what `state` returned."""
        ...

    def close(self) -> None:
        """Release all resources; later calls do nothing."""
        ...


class LocalExecutor:
    """Evaluates rules in the calling thread.

    Args:
        rules: The rules.
        clock: Measures the time that rules take.
        announce: Called with the index of a rule before each of its steps.
    """

    def __init__(
        self, rules: Iterable[Rule], clock: Clock, *, announce: Callable[[int], None] | None = None
    ) -> None:
        self.judges = [Judge(rule, clock) for rule in rules]
        self._announce = announce
        self._items: Sequence[Item] = ()

    @property
    def rules(self) -> tuple[Rule, ...]:
        return tuple(judge.rule for judge in self.judges)

    def begin(self, items: Sequence[Item]) -> None:
        """Keep the steps for `finish`."""
        self._items = items

    def finish(self) -> list[RuleResult]:
        """Evaluate the rules on the steps."""
        results = []
        items, self._items = self._items, ()
        upto = 0
        for number, item in enumerate(items):
            if number == upto:
                upto += _lay_out_from(items, number)
            for seat, judge in enumerate(self.judges):
                if isinstance(item, NewAttempt):
                    judge.new_attempt(item.group)
                    continue
                if self._announce is not None:
                    self._announce(seat)
                findings, problems = judge.take(item)
                if findings or problems:
                    results.append(RuleResult(number, judge.rule.code, tuple(findings), tuple(problems)))
        lay_out(())  # release the arrays
        return results

    def open(self) -> list[Finding]:
        """Return the open findings."""
        return [finding for judge in self.judges for finding in judge.open()]

    def not_evaluated(self) -> list[NotEvaluated]:
        """Return the rules that could not be evaluated so far."""
        return [found for judge in self.judges if (found := judge.not_evaluated())]

    def state(self) -> tuple[list[dict[str, Any]], list[str]]:
        """Return each rule's state, and problems of saving it."""
        problems = [problem for judge in self.judges if (problem := judge.check())]
        return [judge.to_json() for judge in self.judges], problems

    def load(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Load what `state` returned."""
        for judge, saved in zip(self.judges, states, strict=True):
            judge.load(saved)

    def close(self) -> None:
        """Do nothing: there are no resources."""


def _lay_out_from(items: Sequence[Item], first: int) -> int:
    """Lay out the step at an index together with the following ones that fit; return their number."""
    ahead = items[first : first + MOST_STEPS]
    views = [item for item in itertools.takewhile(lambda item: not isinstance(item, NewAttempt), ahead)
             if isinstance(item, StepView)]
    if not views:
        return 1
    count = fit_together(views)
    lay_out(views[:count])
    return count


def one_executor(rules: Sequence[Rule], clock: Clock) -> tuple[RuleExecutor, ...]:
    """Return the executor of all rules, in this thread."""
    return (LocalExecutor(rules, clock),)
