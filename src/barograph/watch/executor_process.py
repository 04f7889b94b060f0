"""The process that rules of a `ProcessExecutor` run in: answers messages until its parent is gone.

    python -m barograph.watch.executor_process FILE

FILE is shared with the parent, who reads in it which rule is at work. What a rule prints goes to standard
error, and is told once as a problem with it; what it reads from standard input is at its end at once: the pipes behind
both are the parent's.
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
from barograph.watch.executor import LocalExecutor, Said
from barograph.watch.framing import Frames, Messages

AT_WORK = struct.Struct("<qq")
"""Position of the rule that is at work, and how many times any began."""

AT_WORK_BYTES = AT_WORK.size

IDLE = -1
"""No rule is at work."""


def main(path: str) -> None:
    """Serve the parent at the other end of standard input and output, as it was begun."""
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
        # Loading somebody's module runs its code: whose it was is known if that ends badly.
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
            reply = [*reply[0], *printed.told(executor)], reply[1]
        try:
            frames.send(messages.packed(reply))
        except BrokenPipeError:
            return


class _Printed(io.TextIOBase):
    """Standard output of the rules: hands on what they print, and remembers who did.

    Attributes:
        seat: Of the rule that is at work.
    """

    def __init__(self) -> None:
        self.seat = IDLE
        self._first: dict[int, str] = {}
        self._told: set[int] = set()

    def writable(self) -> bool:
        """Return that it can be written to."""
        return True

    def write(self, text: str) -> int:
        """Hand on what is printed, to standard error."""
        if text.strip() and self.seat != IDLE:
            self._first.setdefault(self.seat, text.strip())
        return sys.stderr.write(text)

    def told(self, executor: LocalExecutor) -> list[Said]:
        """Return one problem for each rule that printed and was not told of yet."""
        new = [seat for seat in self._first if seat not in self._told]
        self._told.update(new)
        rules = executor.rules
        return [Said(0, rules[seat].code, (), (
            f'The rule {rules[seat].code} {rules[seat].name} prints ("{self._first[seat][:_MOST_LETTERS]}"), which '
            "nobody sees. A rule reports by yielding Symptom or Unjudged.",)) for seat in new]


_MOST_LETTERS = 60


def answer(executor: LocalExecutor, what: str, items: Any) -> Any:
    """Return what an executor says to one message."""
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
    # From our own parent, over a pipe that is ours alone.
    rule: Rule = pickle.loads(data)
    return rule


def _private_frames() -> Frames:
    """Take the pipes for ourselves, and leave the rules a terminal to print on and nothing to read."""
    source, sink = os.dup(0), os.dup(1)
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return Frames(os.fdopen(source, "rb", buffering=0), os.fdopen(sink, "wb", buffering=0))


if __name__ == "__main__":
    main(sys.argv[1])
