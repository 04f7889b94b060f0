"""Alternating blocks of bare and recorded steps in one process, for workers of several frameworks."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

Block = Callable[[int], object]
"""Makes this many steps, and returns when the last is done."""

_LEAST_TURNS = 2
"""One turn alone would not show how turns differ."""


def block_of(step: Callable[[], object]) -> Block:
    """Return a block that makes one step after the other."""

    def block(steps: int) -> None:
        for _ in range(steps):
            step()

    return block


def by_turns(
    bare: Block, recorded: Block, *, secs: float, block_secs: float, warm_up_secs: float, warm_up_steps: int = 1
) -> list[dict[str, Any]]:
    """Return times of alternating blocks of steps; both kinds have run before the clock starts.

    All blocks have the same number of steps, because a framework enqueues steps faster than it executes them: a block
    that ended by the clock would contain several times as many steps of the kind that does not wait.

    Args:
        bare: Makes unrecorded steps.
        recorded: Makes recorded steps.
        secs: Total time of all blocks, which are at least two turns.
        block_secs: Approximate time of a bare block.
        warm_up_secs, warm_up_steps: Minimum time and number of recorded steps before the clock starts.
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
    """Return the number of steps for this time, including the fixed cost of a block."""
    steps = 1
    while (wall := _timed(block, steps)["wall"]) < 0.8 * secs:
        steps = max(steps + 1, round(steps * secs / wall))
    return steps


def _timed(block: Block, steps: int) -> dict[str, float]:
    """Return the times of this many steps: wall clock, this thread, and the process."""
    process, thread, begin = time.process_time(), time.thread_time(), time.perf_counter()
    block(steps)
    return {"steps": steps, "wall": time.perf_counter() - begin, "thread": time.thread_time() - thread,
            "process": time.process_time() - process}
