"""Losses recorded under two names: the total, and its only component."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def echoed(names: Iterable[str]) -> dict[str, str]:
    """Return each metric that may duplicate another, with that other: `loss.mse` of `loss`.

    Example:
        >>> echoed(["loss", "loss.mse", "eval_loss.mse", "lossy.x"])
        {'loss.mse': 'loss'}
    """
    known = set(names)
    return {name: whole for name in known if "loss." in name and (whole := _whole(name)) in known}


def same(first: Sequence[Any], second: Sequence[Any]) -> bool:
    """Return whether two columns agree wherever the first has a value; NaN equals NaN."""
    return all(one is None or one == other or (one != one and other != other)
               for one, other in zip(first, second, strict=True))


def _whole(name: str) -> str:
    before, _, after = name.partition("loss.")
    _, bracket, optimizer = after.partition(" [")
    return f"{before}loss{bracket}{optimizer}"
