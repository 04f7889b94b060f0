"""Process that evaluates the rules of a `ProcessExecutor`: answers messages until its parent exits.

    python -m barograph.watch.executor_process FILE

The parent reads from the shared FILE which rule is running. Output of rules goes to standard error and is reported once
as a problem of the rule; standard input is empty for rules. The original pipes carry the messages of the parent.
"""

from __future__ import annotations

import contextlib
import io
import mmap
import os
import pickle
import struct
import sys
from collections.abc import Callable
from typing import Any

from barograph.model.clock import SystemClock
from barograph.processes.parent import end_with_parent
from barograph.rules.base import Rule
from barograph.watch.executor import LocalExecutor, RuleResult
from barograph.watch.framing import Frames, Messages

AT_WORK = struct.Struct("<qq")
"""Index of the running rule, and the number of rule calls so far."""

AT_WORK_BYTES = AT_WORK.size

IDLE = -1
"""No rule is running."""


def main(path: str) -> None:
    """Serve the parent at the other end of standard input and output."""
    end_with_parent()
    with open(path, "r+b") as shared:
        at_work = mmap.mmap(shared.fileno(), AT_WORK_BYTES)
    frames, messages = _private_frames(), Messages()
    count = 0
    printed = _Printed()

    def announce(seat: int) -> None:
        nonlocal count
        count += 1
        AT_WORK.pack_into(at_work, 0, seat, count)
        printed.seat = seat

    packed, states, broken = messages.unpacked(frames.receive())
    rules = []
    for seat, data in enumerate(packed):
        # Loading a module runs its code: record which rule is responsible for a crash.
        announce(seat)
        rules.append(_rule_from(data))
    executor = LocalExecutor(rules, SystemClock(), announce=announce)
    for seat, (judge, saved) in enumerate(zip(executor.judges, states, strict=True)):
        if saved is not None:
            judge.load(saved)
        judge.broken = broken.get(seat, judge.broken)
    announce(IDLE)
    frames.send(messages.packed("ready"))
    with contextlib.redirect_stdout(printed):
        _serve(executor, frames, messages, printed, announce)


def _serve(
    executor: LocalExecutor, frames: Frames, messages: Messages, printed: _Printed, announce: Callable[[int], None]
) -> None:
    while True:
        try:
            data = frames.receive()
        except EOFError:
            return
        what, items = messages.unpacked(data)
        reply = answer(executor, what, items)
        announce(IDLE)
        if what == "take":
            reply = [*reply[0], *printed.new_output(executor)], reply[1]
        try:
            frames.send(messages.packed(reply))
        except BrokenPipeError:
            return


class _Printed(io.TextIOBase):
    """Standard output of the rules: forwards what they print, and records which rules printed.

    Attributes:
        seat: Index of the running rule.
    """

    def __init__(self) -> None:
        self.seat = IDLE
        self._first: dict[int, str] = {}
        self._reported: set[int] = set()

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, text: str) -> int:
        """Write to standard error."""
        if text.strip() and self.seat != IDLE:
            self._first.setdefault(self.seat, text.strip())
        return sys.stderr.write(text)

    def new_output(self, executor: LocalExecutor) -> list[RuleResult]:
        """Return one problem for each rule that printed and was not reported yet."""
        new = [seat for seat in self._first if seat not in self._reported]
        self._reported.update(new)
        rules = executor.rules
        return [RuleResult(0, rules[seat].code, (), (
            f'The rule {rules[seat].code} {rules[seat].name} prints ("{self._first[seat][:_MOST_LETTERS]}"), which '
            "nobody sees. A rule reports by yielding Symptom or Unjudged.",)) for seat in new]


_MOST_LETTERS = 60


def answer(executor: LocalExecutor, what: str, items: Any) -> Any:
    """Return an executor's reply to one message."""
    if what == "take":
        executor.begin(items)
        return executor.finish(), executor.open()
    if what == "open":
        return executor.open()
    if what == "not_evaluated":
        return executor.not_evaluated()
    if what == "state":
        return executor.state()
    raise ValueError(f"{what!r} is no message")


def _rule_from(data: bytes) -> Rule:
    # The pipe is private to the parent and this process.
    rule: Rule = pickle.loads(data)
    return rule


def _private_frames() -> Frames:
    """Move the pipes to private descriptors; rules get standard error as output and an empty input."""
    source, sink = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return Frames(os.fdopen(source, "rb", buffering=0), os.fdopen(sink, "wb", buffering=0))


if __name__ == "__main__":
    main(sys.argv[1])
