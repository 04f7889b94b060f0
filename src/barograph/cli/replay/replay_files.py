"""Default names of files written by a replay."""

from __future__ import annotations

NAMED_BY_STEP = "-"
"""Value of a file option without a file name: the file is named after the step."""


def file_name(typed: str | None, step: int, suffix: str) -> str | None:
    """Return the name of a file: as typed, or by the step; None if it was not requested.

    Example:
        >>> file_name("-", 412, ".py")
        'step-412.py'
        >>> file_name("bug.py", 412, ".py")
        'bug.py'
    """
    return f"step-{step}{suffix}" if typed == NAMED_BY_STEP else typed
