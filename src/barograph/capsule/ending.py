"""The end of a replay: writes its result, and ends the script."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

from barograph.capsule.order import Grade, ReplayOrder, ReplayResult
from barograph.errors import BarographError, ReplayFailed

FAILURES = (BarographError, AttributeError, IndexError, KeyError, TypeError, ValueError, RuntimeError)
"""Exceptions that restoring a capsule can raise: ours, or a framework's if the content is invalid."""


class ReplayEnded(SystemExit):
    """The step was replayed; ends the script."""


def failed(error: Exception) -> ReplayResult:
    """Return the result of a replay that failed."""
    text = str(error) if isinstance(error, BarographError) else (
        f"The capsule's state could not be restored: {type(error).__name__}: {error}")
    return ReplayResult(Grade.NOT_REPRODUCED, "The step could not be run again.", failure=text)


def end(order: ReplayOrder, result: ReplayResult) -> NoReturn:
    """Write the result of a replay, and end the script.

    Raises:
        ReplayEnded: Always.
    """
    Path(order.result).write_text(result.to_text(), encoding="utf-8")
    raise ReplayEnded(0)


@contextmanager
def ending_where_it_fails(order: ReplayOrder) -> Iterator[None]:
    """End the script with a message if its step fails within a `with` block.

    Raises:
        ReplayEnded: On failure, and at the end of the replay.
    """
    try:
        yield
    except BarographError as error:
        end(order, failed(error))
    except Exception as error:  # noqa: BLE001 - the script's step may raise anything; it is reported
        end(order, failed(ReplayFailed(
            f"The script's step fails with the capsule's inputs: {type(error).__name__}: {error}")))
