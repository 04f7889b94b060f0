"""Lets one worker of several run without the others: what they would be sent goes nowhere, and nothing comes back.

What it computes by itself is what it was: its loss, and the gradients before those of the others are added.
"""

from __future__ import annotations

from typing import Any

from torch import distributed


def stand_alone(rank: int, world_size: int) -> None:
    """Have the script's process group be one in which nobody answers."""

    def init(*_: Any, **__: Any) -> None:
        # Loaded here: no other replay needs it.
        from torch.testing._internal.distributed.fake_pg import FakeStore

        original(backend="fake", rank=rank, world_size=world_size, store=FakeStore())

    original = distributed.init_process_group
    distributed.init_process_group = init
