"""How a replay ends: its result is written, and the script, which has no more to do, is left."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from barograph.capsule.order import Grade, ReplayOrder, ReplayResult
from barograph.errors import BarographError

FAILURES = (BarographError, AttributeError, IndexError, KeyError, TypeError, ValueError, RuntimeError)
"""What putting a capsule back can raise: of ours, or of a framework where what it holds is no such thing."""


class ReplayEnded(SystemExit):
    """The step was made again; the script has no more to do."""


def failed(error: Exception) -> ReplayResult:
    """Return that a step could not be made again."""
    text = str(error) if isinstance(error, BarographError) else (
        f"What the capsule holds cannot be put back: {type(error).__name__}: {error}")
    return ReplayResult(Grade.NOT_REPRODUCED, "The step could not be made again.", failure=text)


def end(order: ReplayOrder, result: ReplayResult) -> NoReturn:
    """Write what came of a replay, and end the script.

    Raises:
        ReplayEnded: Always.
    """
    Path(order.result).write_text(result.to_text(), encoding="utf-8")
    raise ReplayEnded(0)
