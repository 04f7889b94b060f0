"""Tests whether a program that also returns statistics makes bit-identical steps.

A compiler rounds by how it has put operations together, and that hangs on what a program returns. So it is tried: for
some steps both programs are called, and all that they return is compared. One and the same program rounds alike each
time, so if it rounded otherwise anywhere, that would show among millions of numbers. Among the few hundred of a small
model it need not show in three steps, so there it is not believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

LEAST_STEPS, MOST_STEPS = 3, 10
"""That are compared: each of them is made twice."""

NUMBERS = 10_000_000
"""That must have been compared by then."""


class Proof:
    """The test results of one such program.

    Attributes:
        refuted: It has rounded otherwise, or there were too few numbers to say.
    """

    def __init__(self) -> None:
        self.refuted = False
        self._steps = self._numbers = 0

    @property
    def holds(self) -> bool:
        """Whether it has made enough steps alike, and none otherwise."""
        return not self.refuted and self._steps >= LEAST_STEPS and self._numbers >= NUMBERS

    def compare(self, ours: Sequence[Any], theirs: Sequence[Any]) -> None:
        """Compare what the two programs have returned of one step."""
        self._steps += 1
        self._numbers += sum(array.size for array in ours)
        are_alike = len(ours) == len(theirs) and all(map(_are_alike, ours, theirs))
        self.refuted = not are_alike or (self._steps >= MOST_STEPS and not self.holds)


def copies(leaves: Iterable[Any], donated: frozenset[int]) -> list[Any]:
    """Return arrays with copies of those whose memory is given away, so that the others are still there.

    Args:
        leaves: Arrays.
        donated: Their numbers.
    """
    return [jnp.copy(leaf) if number in donated else leaf for number, leaf in enumerate(leaves)]


def _are_alike(one: Any, other: Any) -> bool:
    return _form(one) == _form(other) and np.array_equal(_bytes(one), _bytes(other))


def _form(array: Any) -> tuple[Any, ...]:
    # With another of these the user's own function would be compiled anew for the next step.
    return tuple(getattr(array, name, None) for name in ("shape", "dtype", "weak_type", "committed", "sharding"))


def _bytes(array: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:
    plain = jax.random.key_data(array) if jnp.issubdtype(array.dtype, jax.dtypes.prng_key) else array
    return np.ascontiguousarray(plain).reshape(-1).view(np.uint8)
