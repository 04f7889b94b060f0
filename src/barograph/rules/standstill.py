"""Which tensors are the same as in the step recorded before, told from their moments."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from barograph.rules.columns import Numbers, Table
from barograph.rules.packing import merged, packed, unpacked

_MIX = np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F,
                 0xE7037ED1A0B428DB, 0x8EBC6AF09C88C6E3, 0x589965CC75374CC3, 0x1D8E4E27C47D124F, 0xEB44ACCAB455D165],
                np.uint64)
"""Odd numbers without pattern, one for each moment."""


def signatures(moments: Numbers) -> NDArray[np.uint64]:
    """Return one number for each row that differs, but for one chance in 2**64, where any moment differs in any bit.

    Args:
        moments: Shape (rows, 10).

    Example:
        >>> one, same, other = signatures(np.array([[1.0] * 10, [1.0] * 10, [1.0] * 9 + [1.0 + 2**-52]]))
        >>> bool(one == same), bool(one == other)
        (True, False)
    """
    # Adding 0.0 turns −0.0 into 0.0: equal numbers must have equal bits.
    bits = np.ascontiguousarray(moments + 0.0).view(np.uint64)
    with np.errstate(over="ignore"):
        mixed = (bits ^ (bits >> np.uint64(29))) * _MIX
        mixed ^= mixed >> np.uint64(32)
        return np.asarray((mixed * _MIX[::-1]).sum(axis=1, dtype=np.uint64))


class Runs(NamedTuple):
    """For how long each tensor of a table has been the same.

    Attributes:
        length: Over how many recorded steps, the present one included.
        since: The first of these steps.
    """

    length: NDArray[np.int64]
    since: NDArray[np.int64]


def runs_of(table: Table, memory: dict[str, Any], *, step: int, rtol: float = 0.0, atol: float = 0.0) -> Runs:
    """Return for how long each tensor has been the same.

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
    states = signatures(table.moments) if exact else table.moments
    if not known:
        return _remember(memory, paths, states, Runs(np.ones(len(paths), np.int64), np.full(len(paths), step)))
    then = unpacked(memory["states"], states.dtype).reshape(-1, *states.shape[1:])
    at = _IN_PLACE if known == paths else aligned(known, paths)
    # Where a path is not known, -1 stands for the last row, which is no matter.
    last = then if at is _IN_PLACE else then[at]
    same = last == states if exact else np.isclose(states, last, rtol=rtol, atol=atol, equal_nan=True).all(axis=1)
    if at is _IN_PLACE and not same.any():
        # Nearly always: everything moved. Then one number says since when.
        return _remember(memory, known, states, Runs(np.ones(len(paths), np.int64), np.full(len(paths), step)))
    before = _recalled(memory, len(known))
    if at is _IN_PLACE:
        return _remember(memory, known, states, Runs(np.where(same, before.length + 1, 1),
                                                     np.where(same, before.since, step)))
    same &= at >= 0
    runs = Runs(np.where(same, before.length[at] + 1, 1), np.where(same, before.since[at], step))
    whole, all_states = merged(known, paths, then, states)
    _remember(memory, whole, all_states, Runs(merged(known, paths, before.length, runs.length)[1],
                                              merged(known, paths, before.since, runs.since)[1]))
    return runs


def _remember(memory: dict[str, Any], paths: list[str], states: NDArray[Any], runs: Runs) -> Runs:
    memory.update(paths=paths, states=packed(states))
    if len(paths) and (runs.length == 1).all() and (runs.since == runs.since[0]).all():
        memory.update(runs="", since=int(runs.since[0]))
    else:
        memory.update(runs=packed(runs.length), since=packed(runs.since))
    return runs


def _recalled(memory: dict[str, Any], count: int) -> Runs:
    if not memory["runs"]:
        return Runs(np.ones(count, np.int64), np.full(count, memory["since"]))
    return Runs(unpacked(memory["runs"], np.int64), unpacked(memory["since"], np.int64))


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

