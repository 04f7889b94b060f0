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
        index: Its rank; None without ranks.
        world_size: Number of workers.
    """

    index: int | None = None
    world_size: int = 1


@dataclass(slots=True)
class ThisWorker:
    """This process, as a worker of the run.

    Attributes:
        attempt: Number of the attempt.
        find_rank: Returns the rank, which may be unknown before training starts.
        write_capsule: Writes a capsule into the run and returns its location; fills in worker and run.
    """

    attempt: int = 0
    find_rank: Callable[[], Rank] = Rank
    write_capsule: CapsuleWriter | None = None

    @property
    def rank(self) -> tuple[int | None, int]:
        """Rank and number of processes; None without ranks."""
        rank = self.find_rank()
        return rank.index, rank.world_size
