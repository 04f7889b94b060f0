"""The place of this process among the workers of its run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barograph.runs.state.capsules import CapsuleWriter


@dataclass(frozen=True, slots=True)
class Rank:
    """The rank of this process in a distributed training.

    Attributes:
        index: Its rank; None where there are no ranks.
        world_size: How many workers there are.
    """

    index: int | None = None
    world_size: int = 1


@dataclass(slots=True)
class ThisWorker:
    """This process, as a worker of the run.

    Attributes:
        attempt: Which attempt of the run this is.
        find_rank: Returns the rank, which may not be known before training begins.
        write_capsule: Writes a capsule into the run and returns where; its worker and its run are filled in.
    """

    attempt: int = 0
    find_rank: Callable[[], Rank] = Rank
    write_capsule: CapsuleWriter | None = None

    @property
    def rank(self) -> tuple[int | None, int]:
        """Which of how many processes this is; None where there are no ranks."""
        rank = self.find_rank()
        return rank.index, rank.world_size
