"""Detects tensors that did not change since the last recorded step, from their moments."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from barograph.rules.columns import Table
from barograph.rules.packing import merged, packed, unpacked


class Runs:
    """Number of steps for which each tensor of a table has been unchanged.

    Attributes:
        longest: The greatest length.
    """

    def __init__(
        self, longest: int, length: NDArray[np.int64] | int, since: NDArray[np.int64] | int, count: int
    ) -> None:
        self.longest = longest
        self._length, self._since, self._count = length, since, count

    @property
    def length(self) -> NDArray[np.int64]:
        """Number of recorded steps, including the current one."""
        return np.broadcast_to(np.asarray(self._length), self._count)

    @property
    def since(self) -> NDArray[np.int64]:
        """The first of these steps."""
        return np.broadcast_to(np.asarray(self._since), self._count)


def runs_of(table: Table, memory: dict[str, Any], *, step: int, rtol: float = 0.0, atol: float = 0.0) -> Runs:
    """Return the steps for which each tensor has been unchanged.

    Args:
        table: The tensors that were recorded in this step.
        memory: What this function remembers, empty at first; a tensor that was not recorded in a step is
            compared with the last one that did.
        step: This one.
        rtol, atol: As in `numpy.allclose`, for each moment; both 0: the same to the last bit.
    """
    exact = not (rtol or atol)
    known: list[str] = memory.get("paths", [])
    paths = list(table.paths)
    if exact and known == paths and _is_known_to_move(table, memory):
        return _all_moved(memory, known, table.group.packed_signatures[table.line], step)
    states = table.signatures if exact else np.ascontiguousarray(table.moments)
    if not known:
        return _all_moved(memory, paths, packed(states), step)
    then = unpacked(memory["states"], states.dtype).reshape(-1, *states.shape[1:])
    at = _IN_PLACE if known == paths else aligned(known, paths)
    # Where a path is not known, -1 stands for the last row, which is no matter.
    last = then if at is _IN_PLACE else then[at]
    same = last == states if exact else np.isclose(states, last, rtol=rtol, atol=atol, equal_nan=True).all(axis=1)
    if at is _IN_PLACE and not same.any():
        # Nearly always.
        return _all_moved(memory, known, packed(states), step)
    before = _recalled(memory, len(known))
    if at is _IN_PLACE:
        return _remember(memory, known, states, _runs(np.where(same, before.length + 1, 1),
                                                      np.where(same, before.since, step)))
    same &= at >= 0
    runs = _runs(np.where(same, before.length[at] + 1, 1), np.where(same, before.since[at], step))
    whole, all_states = merged(known, paths, then, states)
    _remember(memory, whole, all_states, _runs(merged(known, paths, before.length, runs.length)[1],
                                               merged(known, paths, before.since, runs.since)[1]))
    return runs


def _is_known_to_move(table: Table, memory: dict[str, Any]) -> bool:
    """Return whether the last step precedes this one in the group, and no tensor is the same, as in most steps."""
    group, line = table.group, table.line
    return line > 0 and not group.has_repeats[line] and bool(memory["states"] == group.packed_signatures[line - 1])


def _runs(length: NDArray[np.int64], since: NDArray[np.int64]) -> Runs:
    return Runs(int(length.max(initial=0)), length, since, len(length))


def _all_moved(memory: dict[str, Any], paths: list[str], states: str, step: int) -> Runs:
    # One number says since when.
    memory.update(paths=paths, states=states, runs="", since=step)
    return Runs(min(1, len(paths)), 1, step, len(paths))


def _remember(memory: dict[str, Any], paths: list[str], states: NDArray[Any], runs: Runs) -> Runs:
    if len(paths) and runs.longest == 1 and (runs.since == runs.since[0]).all():
        memory.update(paths=paths, states=packed(states), runs="", since=int(runs.since[0]))
    else:
        memory.update(paths=paths, states=packed(states), runs=packed(runs.length), since=packed(runs.since))
    return runs


def _recalled(memory: dict[str, Any], count: int) -> Runs:
    if not memory["runs"]:
        return Runs(min(1, count), 1, memory["since"], count)
    return _runs(unpacked(memory["runs"], np.int64), unpacked(memory["since"], np.int64))


_IN_PLACE = np.zeros(0, np.intp)
"""Stands for: the same paths in the same order."""


def aligned(known: list[str], paths: list[str]) -> NDArray[np.intp]:
    """Return where each of `paths` stands in `known`; -1 where it does not.

    Example:
        >>> aligned(["a", "b"], ["b", "c"]).tolist()
        [1, -1]
    """
    at = {path: index for index, path in enumerate(known)}
    return np.array([at.get(path, -1) for path in paths], np.intp)

