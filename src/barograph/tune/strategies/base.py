"""The interface of strategies."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from barograph.errors import BadSpace
from barograph.tune.history import History
from barograph.tune.parameter import Value
from barograph.tune.space import Space
from barograph.tune.trial import Origin

_MOST_DRAWS = 10_000


@dataclass(frozen=True, slots=True)
class Proposal:
    """The parameters of a trial to start.

    Attributes:
        parameters: Name to value.
        origin: Where they come from.
    """

    parameters: dict[str, Value]
    origin: Origin


class Strategy(Protocol):
    """Proposes trials. A proposal depends only on the seed, its number and the history, so it is reproducible, also
    after the process was killed.
    """

    def propose(self, history: History, number: int) -> Proposal | None:
        """Return the parameters of trial `number`; None if there is nothing left to try."""
        ...

    @property
    def has_converged(self) -> bool:
        """Whether the last proposal is not expected to improve on the best trial."""
        ...


def generator(seed: int, number: int, purpose: str = "") -> random.Random:
    """Return the random numbers of one proposal."""
    return random.Random(f"{seed}/{number}/{purpose}")


def drawn(space: Space, position: Callable[[], list[float]]) -> dict[str, Value]:
    """Return values at the first drawn position that the constraints allow.

    Raises:
        BadSpace: None of 10,000 is allowed.
    """
    for _ in range(_MOST_DRAWS):
        values = space.values(position())
        if space.allows(values):
            return values
    raise BadSpace(f"None of {_MOST_DRAWS} random combinations meets the constraints "
                   f"{'; '.join(constraint.text for constraint in space.constraints)}. Widen a range or a constraint.")
