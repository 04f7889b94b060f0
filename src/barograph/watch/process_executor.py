"""Rules in a process of their own, here or on another machine, which may end at any time without harm to the watching.

The parent keeps what the rules remembered at some step, and the steps handed over since. Where the process
dies, or a rule takes too long, the rule that was at work is taken out and named; a new process is begun, the
others take up what they remembered, are shown the same steps again, and go on. Where a machine is lost no rule is to
blame, and all of them go on so on the next.
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
from barograph.watch.executor import Item, LocalExecutor, NewAttempt, Said
from barograph.watch.executor_process import answer
from barograph.watch.line import Line, LineFactory, RuleLost, Start
from barograph.watch.process_line import ProcessLine

RULE_TIMEOUT_SECS = 60.0
"""Longest time a rule may take for one step. Our slowest take some milliseconds for a step of a large model."""

_MOST_ITEMS = 64
"""Steps that are kept to be shown again; after as many, what the rules remember is asked for anew."""

_MOST_HOSTS_LOST = 3
"""Machines lost one after another, without an answer in between, after which the rules go on on this one."""

_MOST_LOST_IDLE = 3
"""Processes lost one after another while no rule was at work, likewise, after which its rules are used no more."""


class ProcessExecutor:
    """Some rules at work in a process of their own.

    Args:
        rules: Which; each class must be importable by name, as those from entry points and `module:Class` are.
        rule_timeout_secs: See `RULE_TIMEOUT_SECS`.
        line: Begins the process, and again where it was lost.

    Raises:
        BadRule: A rule cannot be handed to another process.
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
        self._problems: list[Said] = []
        self._open: list[Finding] = []
        self._begin_line = line
        self._line: Line | None = None
        self._is_waiting = False
        self._hosts_lost = 0
        self._lost_idle = 0

    def begin(self, items: Sequence[Item]) -> None:
        """Hand over steps; the process judges them meanwhile."""
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

    def finish(self) -> list[Said]:
        """Return what the rules said, whatever became of their process."""
        reply: tuple[list[Said], list[Finding]] | None = None
        while reply is None:
            waiting, self._is_waiting = self._is_waiting, False
            try:
                reply = self._line.receive() if waiting and self._line is not None else self._shown_again()
            except (RuleLost, HostLost) as lost:
                self._bear(lost)
        self._hosts_lost = self._lost_idle = 0
        said, self._open = reply
        if sum(map(len, self._since)) >= _MOST_ITEMS:
            _, found = self.state()
            self._problems += [Said(0, self.rules[0].code, (), (text,)) for text in found]
        problems, self._problems = self._problems, []
        return [*said, *problems]

    def open(self) -> list[Finding]:
        """Return the findings that are open, as of the last step handed over."""
        return list(self._open)

    def not_evaluated(self) -> list[NotEvaluated]:
        """Return the rules that could not judge what they are for, so far."""
        found: list[NotEvaluated] = self._ask("not_evaluated")
        return found

    def state(self) -> tuple[list[dict[str, Any]], list[str]]:
        """Return each rule's state as plain JSON data, and problems that it met with."""
        states: list[dict[str, Any]]
        states, problems = self._ask("state")
        self._states, self._since = list(states), []
        return states, problems

    def load(self, states: Sequence[Mapping[str, Any]]) -> None:
        """Take up what `state` returned."""
        self.close()
        self._states, self._since = [dict(saved) for saved in states], []
        self._open = self._ask("open")

    def close(self) -> None:
        """End the process; where anything is asked afterwards, another is begun."""
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

    def _shown_again(self) -> tuple[list[Said], list[Finding]]:
        """Begin a process, and show it all steps since its rules' states; return what they said of the last."""
        self.close()
        start: Start = (self._packed, self._states, self._broken)
        whole = len(self._broken) < len(self.rules)
        self._line = self._begin_line(start, self._timeout_secs) if whole else _NobodyLine(self.rules, start)
        reply: tuple[list[Said], list[Finding]] = ([], self._open)
        for items in self._since:
            self._line.send(("take", items))
            reply = self._line.receive()
        return reply

    def _bear(self, lost: RuleLost | HostLost) -> None:
        """Let go of a line that was lost, and see to it that the next one has a better chance."""
        self.close()
        if isinstance(lost, RuleLost):
            self._take_out(lost)
            return
        self._hosts_lost += 1
        problem = f"A rule process on another machine was lost. Its rules continue in a new process: {lost}"
        if self._hosts_lost >= _MOST_HOSTS_LOST:
            self._begin_line = ProcessLine
            problem = f"Rules that should run on other machines run on this one: {lost}"
        self._problems.append(Said(0, self.rules[0].code, (), (problem,)))

    def _take_out(self, lost: RuleLost) -> None:
        """Have the rule that was at work used no more; where again and again none was, all: nobody can be named."""
        left = [seat for seat in range(len(self.rules)) if seat not in self._broken]
        if lost.seat not in left:
            self._lost_idle += 1
            if self._lost_idle < _MOST_LOST_IDLE:
                # Somebody else ended it: for want of memory, say.
                text = "A rule process ended while idle. Its rules continue in a new process."
                self._problems.append(Said(0, self.rules[0].code, (), (text,)))
                return
        for seat in [lost.seat] if lost.seat in left else left:
            rule = self.rules[seat]
            self._broken[seat] = f": it {lost.what}"
            text = f"The rule {rule.code} {rule.name} is not used any more: it {lost.what}."
            self._problems.append(Said(0, rule.code, (), (text,)))


class _NobodyLine:
    """In place of a process whose rules were all taken out: it answers for them, and asks them nothing."""

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
