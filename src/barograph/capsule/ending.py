"""How a replay ends: its result is written, and the script, which has no more to do, is left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from barograph.capsule.order import Grade, ReplayOrder, ReplayResult
from barograph.errors import BarographError, ReplayFailed

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


@contextmanager
def ending_where_it_fails(order: ReplayOrder) -> Iterator[None]:
    """End the script with a sentence where its step cannot be made within a `with` block.

    Raises:
        ReplayEnded: There; and where the replay has come to its end.
    """
    try:
        yield
    except BarographError as error:
        end(order, failed(error))
    except Exception as error:  # noqa: BLE001 - whatever the script's own step raises is what there is to tell
        end(order, failed(ReplayFailed(
            f"The script's step fails with what the capsule holds: {type(error).__name__}: {error}")))
