"""`run.steps`: a loop that counts its own steps, from which a training can resume."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from barograph.capture.integration import ScriptIntegration
    from barograph.capture.torch.feeding import Feeding


class Steps:
    """Counts from 0, or from the first step of a resumed training.

    Args:
        count: Number of steps.
        integration: Starts the loop.

    Attributes:
        feeding: Notified of each step; None: not traced.
    """

    def __init__(self, count: int, integration: ScriptIntegration) -> None:
        self.count = count
        self.integration = integration
        self.feeding: Feeding | None = None

    def follow(self, feeding: Feeding) -> None:
        """Notify `feeding` of each step."""
        self.feeding = feeding

    def __iter__(self) -> Iterator[int]:
        begun: Iterator[int] = self.integration.steps_begin(self)
        return begun

    def __len__(self) -> int:
        return self.count


class StepsIterator:
    """One pass over the steps.

    Args:
        steps: The steps.

    Attributes:
        made: Number of steps so far.
    """

    def __init__(self, steps: Steps) -> None:
        self.made = 0
        self._steps = steps

    def __iter__(self) -> StepsIterator:
        return self

    def __next__(self) -> int:
        feeding = self._steps.feeding
        if feeding is not None:
            feeding.loader_asked(self)
        if self.made >= self._steps.count:
            if feeding is not None:
                feeding.loader_ended(self)
            raise StopIteration
        number, self.made = self.made, self.made + 1
        if feeding is not None:
            feeding.batch_came(self, number)
        return number
