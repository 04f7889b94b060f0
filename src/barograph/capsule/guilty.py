"""Finds the samples that make a step fail, by running the step with parts of its batch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

MOST_GUILTY = 8
"""Maximum number of samples to find."""

_SPREAD = 4
"""Number of samples tried alone, to see whether any sample would fail."""

Fails = Callable[[tuple[int, ...]], bool]
"""Runs the step with only these rows of the batch, and returns whether it fails."""


@dataclass(frozen=True, slots=True)
class Guilty:
    """The samples of a batch that make a step fail.

    Attributes:
        rows: Rows that fail on their own; none if any sample would.
        without_them: The step is finite without them; None: not tried, because none or all were found.
        tries: Number of steps run.
        failure: Why nothing is known: the script could not run its step with any part of the batch; "" otherwise.
        any_fails: Samples from all over the batch fail on their own, so none of them is the cause.
    """

    rows: tuple[int, ...]
    without_them: bool | None
    tries: int
    failure: str = ""
    any_fails: bool = False


def filled(rows: Sequence[int], samples: int) -> tuple[int, ...]:
    """Repeat rows until they fill a batch, because a script may depend on its size.

    Example:
        >>> filled((3, 5), 5)
        (3, 5, 3, 5, 3)
    """
    return tuple(rows[number % len(rows)] for number in range(max(samples, len(rows))))


def guilty_among(rows: int, fails: Fails, *, suspects: Sequence[int] = ()) -> Guilty:
    """Return the samples that make a step fail on their own.

    Args:
        rows: Number of rows in the batch.
        fails: See `Fails`. A single sample is repeated, as in (3, 3), because some layers need more than one.
        suspects: Rows to try first: samples for which an operation failed.

    Example:
        >>> guilty_among(16, lambda rows: 11 in rows).rows
        (11,)
    """
    asking = _Asking(fails)
    found = [row for row in list(dict.fromkeys(suspects))[:MOST_GUILTY] if asking.alone(row)]
    rest = tuple(row for row in range(rows) if row not in found)
    if rows >= _SPREAD and rest and asking(rest) and _each_fails(rest, asking):
        # Each fails on its own, whatever it contains, so the cause is not in the samples.
        return Guilty((), None, asking.tries, any_fails=True)
    while rest and len(found) < MOST_GUILTY and asking(rest):
        row = _one_of(rest, asking)
        if row is None:
            # Only together do they fail.
            return Guilty(tuple(sorted(found)), False if found else None, asking.tries)
        found.append(row)
        rest = tuple(item for item in rest if item != row)
    clean = None if not found or not rest else not asking(rest)
    return Guilty(tuple(sorted(found)), clean, asking.tries)


def _each_fails(rows: tuple[int, ...], asking: _Asking) -> bool:
    """Return whether samples from all over a batch fail on their own; stops at the first that does not."""
    return all(asking.alone(rows[at * (len(rows) - 1) // (_SPREAD - 1)]) for at in range(_SPREAD))


def _one_of(rows: tuple[int, ...], asking: _Asking) -> int | None:
    """Return a row that fails alone, among rows that fail together; None if neither half does."""
    while len(rows) > 1:
        half = len(rows) // 2
        rows = next((part for part in (rows[:half], rows[half:]) if asking(part)), ())
    return rows[0] if rows and asking.alone(rows[0]) else None


class _Asking:
    """Caches results, because a step takes seconds."""

    def __init__(self, fails: Fails) -> None:
        self.tries = 0
        self._fails = fails
        self._known: dict[tuple[int, ...], bool] = {}

    def __call__(self, rows: tuple[int, ...]) -> bool:
        rows = rows * 2 if len(rows) == 1 else rows
        if rows not in self._known:
            self.tries += 1
            self._known[rows] = self._fails(rows)
        return self._known[rows]

    def alone(self, row: int) -> bool:
        return self((row,))
