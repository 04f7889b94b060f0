"""Numbers that a rule keeps for each tensor from step to step, as plain lists beside the tensors' paths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from barograph.rules.columns import Numbers
from barograph.rules.standstill import aligned


def recall(memory: dict[str, Any], paths: Sequence[str], **defaults: float) -> dict[str, Numbers]:
    """Return what was kept for each of `paths`, a column for each name; its default where nothing was.

    Example:
        >>> memory = {}
        >>> keep(memory, ["a", "b"], length=np.array([1.0, 2.0]))
        >>> recall(memory, ["b", "c"], length=0.0)["length"].tolist()
        [2.0, 0.0]
    """
    known = memory.get("paths", [])
    if not known:
        return {name: np.full(len(paths), default) for name, default in defaults.items()}
    at = aligned(known, list(paths))
    return {
        # A path that is not known stands at -1: behind the last.
        name: np.array([*memory[name], default])[at] for name, default in defaults.items()
    }


def keep(memory: dict[str, Any], paths: Sequence[str], **columns: Numbers) -> None:
    """Keep a number of each column for each of `paths`; what is kept for other paths stays."""
    known: list[str] = memory.get("paths", [])
    mine = list(paths)
    if known in ([], mine):
        memory.update(paths=known or mine, **{name: column.tolist() for name, column in columns.items()})
        return
    for name, column in columns.items():
        merged = {**dict(zip(known, memory[name], strict=True)), **dict(zip(mine, column.tolist(), strict=True))}
        memory[name] = list(merged.values())
    memory["paths"] = list(dict.fromkeys([*known, *mine]))
