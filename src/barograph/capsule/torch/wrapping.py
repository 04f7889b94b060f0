"""Wraps a PyTorch function for the rest of the process."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def wrap(holder: Any, name: str, around: Callable[[Callable[..., Any], Any, Any], Any]) -> None:
    """Have `around` called with the original, and with what it was called with.

    Args:
        holder: A module or a class; where it has nothing of that name, nothing is done.
        name: Of the function.
        around: Returns what the caller gets.
    """
    original = getattr(holder, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return around(original, args, kwargs)

    setattr(holder, name, wrapped)
