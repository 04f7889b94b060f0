"""Evaluates rules in another process, here or on another machine, whose end does not harm the watching.

The parent keeps the rules' last saved state and the steps since then. If the process dies or a rule exceeds its time
limit, the parent disables the running rule and reports it, starts a new process, restores the other rules' state and
replays the steps. If a machine is lost, no rule is to blame, and all rules continue on the next machine.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any

from barograph.errors import BadRule
from barograph.model.clock import SystemClock
from barograph.model.finding import Finding, NotEvaluated
from barograph.model.selection import Histogram
from barograph.processes.process import HostLost
from barograph.rules.base import Rule
from barograph.watch.executor import Item, LocalExecutor, NewAttempt, RuleResult
from barograph.watch.executor_process import answer
from barograph.watch.line import Line, LineFactory, RuleLost, Start
from barograph.watch.process_line import ProcessLine

RULE_TIMEOUT_SECS = 60.0
"""Time limit of a rule for one step. Our slowest rules take some milliseconds for a step of a large model."""

_MOST_ITEMS = 64
"""Number of steps kept for replay; then the parent requests the rules' state again."""

_MOST_HOSTS_LOST = 3
"""Number of machines lost in a row, without an answer in between, after which the rules run on this machine."""

_MOST_LOST_IDLE = 3
"""Number of processes lost in a row while no rule was running, after which their rules are disabled."""


class ProcessExecutor:
    """Evaluates some rules in another process.

    Args:
        rules: The rules; each class must be importable by name, as those from entry points and `module:Class` are.
        rule_timeout_secs: See `RULE_TIMEOUT_SECS`.
        line: Starts the process, and restarts it after a loss.

    Raises:
        BadRule: A rule cannot be pickled.
    """

    def __init__(
        self, rules: Sequence[Rule], *, rule_timeout_secs: float = RULE_TIMEOUT_SECS, line: LineFactory = ProcessLine,
    ) -> None:
        self.rules = tuple(rules)
        self._timeout_secs = rule_timeout_secs
        self._packed = [_packed(rule) for rule in rules]
        self._with_histograms = any(need.histogram > Histogram.NONE for rule in rules for need in rule.needs)
        self._states: list[dict[str, Any] | None] = [None] * len(self.rules)
        self._since: list[list[Item]] = []
        self._broken: dict[int, str] = {}
        self._problems: list[RuleResult] = []
        self._open: list[Finding] = []
        self._begin_line = line
        self._line: Line | None = None
        self._is_waiting = False
        self._hosts_lost = 0
        self._lost_idle = 0

    def begin(self, items: Sequence[Item]) -> None:
        """Pass steps to the process, which evaluates them meanwhile."""
        portable = [
            item if isinstance(item, NewAttempt) else item.portable(histograms=self._with_histograms)
            for item in items
        ]
        self._since.append(portable)
        if self._line is not None:
            try:
                self._line.send(("take", portable))
                self._is_waiting = True
            except (RuleLost, HostLost) as lost:
                self._bear(lost)

    def finish(self) -> list[RuleResult]:
        """Return the results of the rules, even if their process was lost."""
        reply: tuple[list[RuleResult], list[Finding]] | None = None
        while reply is None:
            waiting, self._is_waiting = self._is_waiting, False
            try:
                reply = self._line.receive() if waiting and self._line is not None else self._shown_again()
            except (RuleLost, HostLost) as lost:
                self._bear(lost)
        self._hosts_lost = self._lost_idle = 0
        results, self._open = reply
        if sum(map(len, self._since)) >= _MOST_ITEMS:
            _, found = self.state()
            self._problems += [RuleResult(0, self.rules[0].code, (), (text,)) for text in found]
        problems, self._problems = self._problems, []
        return [*results, *problems]

    def open(self) -> list[Finding]:
        """Return the open findings as of the last step passed."""
        return list(self._open)

    def not_evaluated(self) -> list[NotEvaluated]:
        """Return the rules that could not be evaluated so far."""
        found: list[NotEvaluated] = self._ask("not_evaluated")
        return found

    def state(self) -> tuple[list[dict[str, Any]], list[str]]:
        """Return each rule's state as plain JSON data, and problems of saving it."""
        states: list[dict[str, Any]]
        states, problems = self._ask("state")
        self._states, self._since = list(states), []
        return states, problems

    def load(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Load what `state` returned."""
        self.close()
        self._states, self._since = [dict(saved) for saved in states], []
        self._open = self._ask("open")

    def close(self) -> None:
        """Terminate the process; a later call starts another."""
        line, self._line = self._line, None
        if line is not None:
            line.close()

    def _ask(self, what: str) -> Any:
        while True:
            try:
                if self._line is None:
                    self._shown_again()
                assert self._line is not None
                self._line.send((what, None))
                reply = self._line.receive()
            except (RuleLost, HostLost) as lost:
                self._bear(lost)
            else:
                self._hosts_lost = self._lost_idle = 0
                return reply

    def _shown_again(self) -> tuple[list[RuleResult], list[Finding]]:
        """Start a process and replay all steps since the saved state; return the results of the last steps."""
        self.close()
        start: Start = (self._packed, self._states, self._broken)
        whole = len(self._broken) < len(self.rules)
        self._line = self._begin_line(start, self._timeout_secs) if whole else _IdleLine(self.rules, start)
        reply: tuple[list[RuleResult], list[Finding]] = ([], self._open)
        for items in self._since:
            self._line.send(("take", items))
            reply = self._line.receive()
        return reply

    def _bear(self, lost: RuleLost | HostLost) -> None:
        """Close a lost connection, and change what may have caused the loss."""
        self.close()
        if isinstance(lost, RuleLost):
            self._take_out(lost)
            return
        self._hosts_lost += 1
        problem = f"A rule process on another machine was lost. Its rules continue in a new process: {lost}"
        if self._hosts_lost >= _MOST_HOSTS_LOST:
            self._begin_line = ProcessLine
            problem = f"Rules that should run on other machines run on this one: {lost}"
        self._problems.append(RuleResult(0, self.rules[0].code, (), (problem,)))

    def _take_out(self, lost: RuleLost) -> None:
        """Disable the rule that was running; if repeatedly none was running, disable all, since none can be blamed."""
        left = [seat for seat in range(len(self.rules)) if seat not in self._broken]
        if lost.seat not in left:
            self._lost_idle += 1
            if self._lost_idle < _MOST_LOST_IDLE:
                # Something else killed it: lack of memory, for example.
                text = "A rule process ended while idle. Its rules continue in a new process."
                self._problems.append(RuleResult(0, self.rules[0].code, (), (text,)))
                return
        for seat in [lost.seat] if lost.seat in left else left:
            rule = self.rules[seat]
            self._broken[seat] = f": it {lost.what}"
            text = f"The rule {rule.code} {rule.name} is not used any more: it {lost.what}."
            self._problems.append(RuleResult(0, rule.code, (), (text,)))


class _IdleLine:
    """Replaces a process whose rules are all disabled: answers without running rules."""

    def __init__(self, rules: Sequence[Rule], start: Start) -> None:
        _, states, broken = start
        self._executor = LocalExecutor(rules, SystemClock())
        for seat, (judge, saved) in enumerate(zip(self._executor.judges, states, strict=True)):
            if saved is not None:
                judge.load(saved)
            judge.broken = broken[seat]
        self._reply: Any = None

    def send(self, message: tuple[str, Any]) -> None:
        self._reply = answer(self._executor, *message)

    def receive(self) -> Any:
        return self._reply

    def close(self) -> None:
        self._reply = None


def _packed(rule: Rule) -> bytes:
    try:
        return pickle.dumps(rule)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise BadRule(f"The rule {rule.code} {rule.name} cannot run in a process of its own: {error}. "
                      "Keep its class at the top of a module.") from error
