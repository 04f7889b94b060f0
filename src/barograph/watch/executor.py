"""Rules that sit together and judge the same steps: the waist between the loop and where rules run.

The loop hands an executor the steps that became complete and gets back what each rule said of each. Where the
rules run (here, in a process of their own, on another machine) is the executor's affair; what they find is not.
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
from barograph.rules.sheets import MOST_STEPS
from barograph.runs.reading.view import StepView


@dataclass(frozen=True, slots=True)
class NewAttempt:
    """A group of workers was started again: its steps may go back.

    Attributes:
        group: Which.
    """

    group: str


Item = StepView | NewAttempt


@dataclass(frozen=True, slots=True)
class Said:
    """Result of one rule for one step.

    Attributes:
        item: Position of the step among those that were handed over.
        code: Of the rule.
        findings: That opened or closed, as they then stood.
        problems: With the rule itself, a sentence each.
    """

    item: int
    code: str
    findings: tuple[Finding, ...]
    problems: tuple[str, ...]


class RuleExecutor(Protocol):
    """Some rules at work on one run. None of these raises because of what a rule does."""

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules, in order."""
        ...

    def begin(self, items: Sequence[Item]) -> None:
        """Hand over steps; returns at once where the rules run elsewhere."""
        ...

    def finish(self) -> list[Said]:
        """Return what the rules said of the steps handed over last, by step and then in the order of the rules."""
        ...

    def open(self) -> list[Finding]:
        """Return the findings that are open."""
        ...

    def not_evaluated(self) -> list[NotEvaluated]:
        """Return the rules that could not judge what they are for, so far."""
        ...

    def state(self) -> tuple[list[dict[str, Any]], list[str]]:
        """Return each rule's state as plain JSON data, in the order of the rules; and problems that it met with."""
        ...

    def load(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Take up what `state` returned."""
        ...

    def close(self) -> None:
        """Let go of what it runs on; later calls do nothing."""
        ...


class LocalExecutor:
    """Rules that judge in this thread.

    Args:
        rules: Which.
        clock: For the time they take.
        announce: Told which rule begins, by its position, before each of its steps.
    """

    def __init__(
        self, rules: Iterable[Rule], clock: Clock, *, announce: Callable[[int], None] | None = None
    ) -> None:
        self.judges = [Judge(rule, clock) for rule in rules]
        self._announce = announce
        self._items: Sequence[Item] = ()

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules, in order."""
        return tuple(judge.rule for judge in self.judges)

    def begin(self, items: Sequence[Item]) -> None:
        """Keep the steps for `finish`."""
        self._items = items

    def finish(self) -> list[Said]:
        """Judge the steps."""
        said = []
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
                    said.append(Said(number, judge.rule.code, tuple(findings), tuple(problems)))
        lay_out(())  # nothing is held between two turns
        return said

    def open(self) -> list[Finding]:
        """Return the findings that are open."""
        return [finding for judge in self.judges for finding in judge.open()]

    def not_evaluated(self) -> list[NotEvaluated]:
        """Return the rules that could not judge what they are for, so far."""
        return [found for judge in self.judges if (found := judge.not_evaluated())]

    def state(self) -> tuple[list[dict[str, Any]], list[str]]:
        """Return each rule's state, and problems with what it remembers."""
        problems = [problem for judge in self.judges if (problem := judge.check())]
        return [judge.to_json() for judge in self.judges], problems

    def load(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Take up what `state` returned."""
        for judge, saved in zip(self.judges, states, strict=True):
            judge.load(saved)

    def close(self) -> None:
        """Nothing is held."""


def _lay_out_from(items: Sequence[Item], first: int) -> int:
    """Lay the step at a place out with those behind it, as far as they go together; return how many items that is."""
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
