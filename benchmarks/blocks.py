"""Blocks of steps in one process, bare and recorded by turns, which workers of several frameworks measure."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

Block = Callable[[float], int]
"""Makes steps for at least so many seconds, and returns how many."""


def block_of(step: Callable[[], object]) -> Block:
    """Return what makes one step after the other."""

    def block(secs: float) -> int:
        begin, steps = time.perf_counter(), 0
        while not steps or time.perf_counter() - begin < secs:
            step()
            steps += 1
        return steps

    return block


def by_turns(
    bare: Block, recorded: Block, *, secs: float, block_secs: float, warm_up_secs: float, warm_up_steps: int = 1
) -> list[dict[str, Any]]:
    """Return what blocks of steps took, in turns; before the clock starts both kinds have run.

    Args:
        bare: Makes steps that nobody watches.
        recorded: Makes steps that are watched.
        secs: Of all blocks together.
        block_secs: Of one block.
        warm_up_secs, warm_up_steps: Recorded steps before the clock starts take at least so long, and are as many.
    """
    bare(0.0)
    warm = recorded(warm_up_secs)
    while warm < warm_up_steps:
        warm += recorded(0.0)
    turns = []
    begin = time.perf_counter()
    while time.perf_counter() - begin < secs:
        turns.append({"bare": _timed(bare, block_secs), "recorded": _timed(recorded, block_secs)})
    return turns


def _timed(block: Block, secs: float) -> dict[str, float]:
    """Return how many steps a block made, and what they took: of the clock, of this thread and of the process."""
    process, thread, begin = time.process_time(), time.thread_time(), time.perf_counter()
    steps = block(secs)
    return {"steps": steps, "wall": time.perf_counter() - begin, "thread": time.thread_time() - thread,
            "process": time.process_time() - process}
