"""The process that rules of a `ProcessPanel` run in: answers messages until its parent is gone.

    python -m barograph.watch.panel_process FILE

FILE is shared with the parent, who reads in it which rule is at work. What a rule prints goes to standard
error, and what it reads from standard input is at its end at once: the pipes behind both are the parent's.
"""

from __future__ import annotations

import mmap
import os
import pickle
import struct
import sys
from typing import Any

from barograph.model.clock import SystemClock
from barograph.rules.base import Rule
from barograph.watch.framing import Frames, Messages
from barograph.watch.panel import LocalPanel
from barograph.watch.parent import end_with_parent

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

    def announce(seat: int) -> None:
        nonlocal count
        count += 1
        AT_WORK.pack_into(at_work, 0, seat, count)

    packed, states, broken = messages.unpacked(frames.receive())
    rules = []
    for seat, data in enumerate(packed):
        # Loading somebody's module runs its code: whose it was is known if that ends badly.
        announce(seat)
        rules.append(_rule_from(data))
    panel = LocalPanel(rules, SystemClock(), announce=announce)
    for seat, (judge, saved) in enumerate(zip(panel.judges, states, strict=True)):
        if saved is not None:
            judge.load(saved)
        judge.broken = broken.get(seat, judge.broken)
    announce(IDLE)
    frames.send(messages.packed("ready"))
    while True:
        try:
            data = frames.receive()
        except EOFError:
            return
        what, items = messages.unpacked(data)
        reply = answer(panel, what, items)
        announce(IDLE)
        try:
            frames.send(messages.packed(reply))
        except BrokenPipeError:
            return


def answer(panel: LocalPanel, what: str, items: Any) -> Any:
    """Return what a panel says to one message."""
    if what == "take":
        panel.begin(items)
        return panel.finish(), panel.open()
    if what == "open":
        return panel.open()
    if what == "not_evaluated":
        return panel.not_evaluated()
    if what == "state":
        return panel.state()
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
