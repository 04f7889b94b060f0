"""Numbers that a rule keeps for each tensor between steps, packed with the tensors' paths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from barograph.rules.packing import merged, packed, unpacked
from barograph.rules.standstill import aligned
from barograph.rules.step_groups import Numbers


def recall(memory: dict[str, Any], paths: Sequence[str], **defaults: float) -> dict[str, Numbers]:
    """Return the kept numbers for each of `paths`, a column for each name; the default for unknown paths.

    Example:
        >>> memory = {}
        >>> keep(memory, ["a", "b"], length=np.array([1.0, 2.0]))
        >>> recall(memory, ["b", "c"], length=0.0)["length"].tolist()
        [2.0, 0.0]
    """
    known = memory.get("paths", [])
    if not known:
        return {name: np.full(len(paths), float(default)) for name, default in defaults.items()}
    if known == list(paths):
        return {name: unpacked(memory[name], float) for name in defaults}
    at = aligned(known, list(paths))
    # Unknown paths have index -1: np.where discards the row that it reads.
    return {name: np.where(at >= 0, unpacked(memory[name], float)[at], default) for name, default in defaults.items()}


def keep(memory: dict[str, Any], paths: Sequence[str], **columns: Numbers) -> None:
    """Keep a number in each column for each of `paths`; numbers for other paths are kept."""
    known: list[str] = memory.get("paths", [])
    mine = list(paths)
    if known not in ([], mine):
        whole = {name: merged(known, mine, unpacked(memory[name], float), column) for name, column in columns.items()}
        mine = next(iter(whole.values()))[0]
        columns = {name: column for name, (_, column) in whole.items()}
    memory.update(paths=mine, **{name: packed(column) for name, column in columns.items()})
