"""What files of a replay are called where nobody says."""

from __future__ import annotations

NAMED_BY_STEP = "-"
"""Typed for a file, or put in where none was typed: it is called by its step."""


def file_name(typed: str | None, step: int, suffix: str) -> str | None:
    """Return what a file is called: as it was typed, else by the step; None: none is wanted.

    Example:
        >>> file_name("-", 412, ".py")
        'step-412.py'
        >>> file_name("bug.py", 412, ".py")
        'bug.py'
    """
    return f"step-{step}{suffix}" if typed == NAMED_BY_STEP else typed
