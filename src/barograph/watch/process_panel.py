"""Rules in a process of their own, which may end at any time without harm to the watching.

The parent keeps what the rules remembered at some step, and the steps handed over since. Where the process
dies, or a rule takes too long, the rule that was at work is taken out and named; a new process is begun, the
others take up what they remembered, are shown the same steps again, and go on.
"""

from __future__ import annotations

import mmap
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from barograph.errors import BadRule
from barograph.model.clock import SystemClock
from barograph.model.finding import Finding, NotEvaluated
from barograph.model.selection import Histogram
from barograph.rules.base import Rule
from barograph.watch.framing import Frames
from barograph.watch.panel import Item, LocalPanel, NewAttempt, Said
from barograph.watch.panel_process import AT_WORK, AT_WORK_BYTES, IDLE, answer

RULE_TIMEOUT_SECS = 60.0
"""Longest time a rule may take for one step. Our slowest take some milliseconds for a step of a large model."""

_MOST_ITEMS = 64
"""Steps that are kept to be shown again; after as many, what the rules remember is asked for anew."""

_LOOK_SECS = 0.2
_END_SECS = 5.0
_DIED = "ended the process that it runs in"


class _Lost(Exception):
    """The process will not answer.

    Attributes:
        what: That the rule at work did.
        seat: Position of that rule; `IDLE` where none was at work.
    """

    def __init__(self, what: str, seat: int) -> None:
        super().__init__(what)
        self.what, self.seat = what, seat


class _Line(Protocol):
    """What a panel speaks to."""

    def send(self, message: tuple[str, Any]) -> None: ...
    def receive(self) -> Any: ...
    def close(self) -> None: ...


class ProcessPanel:
    """Some rules at work in a process of their own.

    Args:
        rules: Which; each class must be importable by name, as those from entry points and `module:Class` are.
        rule_timeout_secs: See `RULE_TIMEOUT_SECS`.

    Raises:
        BadRule: A rule cannot be handed to another process.
    """

    def __init__(self, rules: Sequence[Rule], *, rule_timeout_secs: float = RULE_TIMEOUT_SECS) -> None:
        self.rules = tuple(rules)
        self._timeout_secs = rule_timeout_secs
        self._packed = [_packed(rule) for rule in rules]
        self._with_histograms = any(need.histogram > Histogram.NONE for rule in rules for need in rule.needs)
        self._states: list[dict[str, Any] | None] = [None] * len(self.rules)
        self._since: list[list[Item]] = []
        self._broken: dict[int, str] = {}
        self._problems: list[Said] = []
        self._open: list[Finding] = []
        self._line: _Line | None = None
        self._is_waiting = False

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
            except _Lost as lost:
                self._take_out(lost)

    def finish(self) -> list[Said]:
        """Return what the rules said, whatever became of their process."""
        reply: tuple[list[Said], list[Finding]] | None = None
        while reply is None:
            waiting, self._is_waiting = self._is_waiting, False
            try:
                reply = self._line.receive() if waiting and self._line is not None else self._shown_again()
            except _Lost as lost:
                self._take_out(lost)
        said, self._open = reply
        if sum(map(len, self._since)) >= _MOST_ITEMS:
            self.state()
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
                return self._line.receive()
            except _Lost as lost:
                self._take_out(lost)

    def _shown_again(self) -> tuple[list[Said], list[Finding]]:
        """Begin a process, and show it all steps since its rules' states; return what they said of the last."""
        self.close()
        start = (self._packed, self._states, self._broken)
        whole = len(self._broken) < len(self.rules)
        self._line = _ProcessLine(start, self._timeout_secs) if whole else _NobodyLine(self.rules, start)
        reply: tuple[list[Said], list[Finding]] = ([], self._open)
        for items in self._since:
            self._line.send(("take", items))
            reply = self._line.receive()
        return reply

    def _take_out(self, lost: _Lost) -> None:
        """Have the rule that was at work used no more; where none was, all of them: nobody can be named."""
        self.close()
        left = [seat for seat in range(len(self.rules)) if seat not in self._broken]
        for seat in [lost.seat] if lost.seat in left else left:
            rule = self.rules[seat]
            self._broken[seat] = f": it {lost.what}"
            text = f"The rule {rule.code} {rule.name} is not used any more: it {lost.what}."
            self._problems.append(Said(0, rule.code, (), (text,)))


class _ProcessLine:
    """A process that rules run in, and the line to it."""

    def __init__(self, start: object, timeout_secs: float) -> None:
        self._timeout_secs = timeout_secs
        with tempfile.NamedTemporaryFile(prefix="barograph-", delete=False) as file:
            file.write(AT_WORK.pack(IDLE, 0))
        path = Path(file.name)
        with path.open("r+b") as shared:
            self._shared = mmap.mmap(shared.fileno(), AT_WORK_BYTES)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "barograph.watch.panel_process", str(path)], bufsize=0,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            # Where the watcher finds a rule, its process does; and a Ctrl-C is the watcher's to hear.
            env={**os.environ, "PYTHONPATH": os.pathsep.join(item or os.getcwd() for item in sys.path)},
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._frames = Frames(self._process.stdout, self._process.stdin)  # type: ignore[arg-type]
        try:
            self._frames.send(start)
            self.receive()  # it is ready
        except (_Lost, OSError):
            lost = self._lost(_DIED)
            self.close()
            raise lost from None
        finally:
            path.unlink(missing_ok=True)

    def send(self, message: tuple[str, Any]) -> None:
        try:
            self._frames.send(message)
        except OSError:
            raise self._lost(_DIED) from None

    def _lost(self, what: str) -> _Lost:
        return _Lost(what, AT_WORK.unpack_from(self._shared)[0])

    def receive(self) -> Any:
        seen, since = AT_WORK.unpack_from(self._shared), time.monotonic()
        while not self._frames.has_come(_LOOK_SECS):
            now = AT_WORK.unpack_from(self._shared)
            if now != seen:
                seen, since = now, time.monotonic()
            elif now[0] != IDLE and time.monotonic() - since > self._timeout_secs:
                raise self._lost(f"took longer than {self._timeout_secs:g} s over one step")
        try:
            return self._frames.receive()
        except EOFError:
            raise self._lost(_DIED) from None

    def close(self) -> None:
        self._process.kill()
        self._process.wait(_END_SECS)
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()
        self._shared.close()


class _NobodyLine:
    """In place of a process whose rules were all taken out: it answers for them, and asks them nothing."""

    def __init__(self, rules: Sequence[Rule], start: Any) -> None:
        _, states, broken = start
        self._panel = LocalPanel(rules, SystemClock())
        for seat, (judge, saved) in enumerate(zip(self._panel.judges, states, strict=True)):
            if saved is not None:
                judge.load(saved)
            judge.broken = broken[seat]
        self._reply: Any = None

    def send(self, message: tuple[str, Any]) -> None:
        self._reply = answer(self._panel, *message)

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
