"""Wraps a PyTorch function for the rest of the process."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any


def wrap(holder: Any, name: str, around: Callable[[Callable[..., Any], Any, Any], Any]) -> None:
    """Replace a function by `around`, which is called with the original and its arguments.

    Args:
        holder: Module or class; nothing happens if it lacks the function.
        name: Name of the function.
        around: Returns the result for the caller.
    """
    original = getattr(holder, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return around(original, args, kwargs)

    setattr(holder, name, wrapped)
