"""Tests whether a program that also returns statistics makes bit-identical steps.

The compiler's rounding depends on how it fuses operations, which depends on the results of a program. So this is
tested: for some steps both programs are called and all their results compared. A program always rounds the same way, so
a difference would show among millions of numbers. Among the few hundred of a small model, three steps may not show it,
so the test does not count there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

LEAST_STEPS, MOST_STEPS = 3, 10
"""Minimum and maximum number of compared steps, each of which runs twice."""

NUMBERS = 10_000_000
"""Number of compared numbers required by then."""


class Proof:
    """The test results of one such program.

    Attributes:
        refuted: The results differed, or there were too few numbers.
    """

    def __init__(self) -> None:
        self.refuted = False
        self._steps = self._numbers = 0

    @property
    def holds(self) -> bool:
        """Whether enough steps were identical, and none differed."""
        return not self.refuted and self._steps >= LEAST_STEPS and self._numbers >= NUMBERS

    def compare(self, ours: Sequence[Any], theirs: Sequence[Any]) -> None:
        """Compare the results of the two programs for one step."""
        self._steps += 1
        self._numbers += sum(array.size for array in ours)
        are_alike = len(ours) == len(theirs) and all(map(_are_alike, ours, theirs))
        self.refuted = not are_alike or (self._steps >= MOST_STEPS and not self.holds)


def copies(leaves: Iterable[Any], donated: frozenset[int]) -> list[Any]:
    """Return arrays with copies of the donated ones, so that the others are kept.

    Args:
        leaves: Arrays.
        donated: Indices of the donated ones.
    """
    return [jnp.copy(leaf) if number in donated else leaf for number, leaf in enumerate(leaves)]


def _are_alike(one: Any, other: Any) -> bool:
    return _form(one) == _form(other) and np.array_equal(_bytes(one), _bytes(other))


def _form(array: Any) -> tuple[Any, ...]:
    # A different sharding would recompile the user's function for the next step.
    return tuple(getattr(array, name, None) for name in ("shape", "dtype", "weak_type", "committed", "sharding"))


def _bytes(array: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:
    plain = jax.random.key_data(array) if jnp.issubdtype(array.dtype, jax.dtypes.prng_key) else array
    return np.ascontiguousarray(plain).reshape(-1).view(np.uint8)
