"""Runs one of several workers without the others, in a process group of one process.

Its local results are the original ones: its loss, and its gradients before those of the others are added.
"""

from __future__ import annotations

from typing import Any

from torch import distributed


def stand_alone() -> None:
    """Make the script create a process group of only its own process."""

    def init(*_: Any, **__: Any) -> None:
        original(backend="gloo", rank=0, world_size=1, store=distributed.HashStore())  # type: ignore[attr-defined]

    original = distributed.init_process_group
    distributed.init_process_group = init
