"""Blocks of steps in one process, bare and recorded by turns, which workers of several frameworks measure."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

Block = Callable[[int], object]
"""Makes so many steps, and returns when the last is done."""

_LEAST_TURNS = 2
"""Of one alone nothing could be said of how turns differ."""


def block_of(step: Callable[[], object]) -> Block:
    """Return what makes one step after the other."""

    def block(steps: int) -> None:
        for _ in range(steps):
            step()

    return block


def by_turns(
    bare: Block, recorded: Block, *, secs: float, block_secs: float, warm_up_secs: float, warm_up_steps: int = 1
) -> list[dict[str, Any]]:
    """Return what blocks of steps took, in turns; before the clock starts both kinds have run.

    All blocks have as many steps, for a framework hands out steps faster than they are made, and a block that ended by
    the clock would hold several times as many of the kind that nobody waits for.

    Args:
        bare: Makes steps that nobody watches.
        recorded: Makes steps that are watched.
        secs: Of all blocks together, which are two turns at least.
        block_secs: Of one bare block, about.
        warm_up_secs, warm_up_steps: Recorded steps before the clock starts take at least so long, and are as many.
    """
    bare(1)
    steps = _steps_of(bare, block_secs)
    begin, warm = time.perf_counter(), 0
    while warm < warm_up_steps or time.perf_counter() - begin < warm_up_secs:
        recorded(steps)
        warm += steps
    turns = []
    begin = time.perf_counter()
    while len(turns) < _LEAST_TURNS or time.perf_counter() - begin < secs:
        turns.append({"bare": _timed(bare, steps), "recorded": _timed(recorded, steps)})
    return turns


def _steps_of(block: Block, secs: float) -> int:
    """Return how many steps take so many seconds, about; what a block costs besides its steps is among them."""
    steps = 1
    while (wall := _timed(block, steps)["wall"]) < 0.8 * secs:
        steps = max(steps + 1, round(steps * secs / wall))
    return steps


def _timed(block: Block, steps: int) -> dict[str, float]:
    """Return what so many steps took: of the clock, of this thread and of the process."""
    process, thread, begin = time.process_time(), time.thread_time(), time.perf_counter()
    block(steps)
    return {"steps": steps, "wall": time.perf_counter() - begin, "thread": time.thread_time() - thread,
            "process": time.process_time() - process}
