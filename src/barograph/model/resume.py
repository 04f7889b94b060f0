"""Messages between `barograph resume` and the process of the script."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ResumeOrder:
    """Where to resume a training.

    Attributes:
        checkpoint: Name of the metadata file of the checkpoint in the run.
        result: File for the result.
        inexact: Resume even if not everything is as before.
        workers: Number of workers that saved it, each its part.
        child: A process started by the script saved it, one that trained alone.
    """

    checkpoint: str
    result: str
    inexact: bool = False
    workers: int = 1
    child: bool = False


@dataclass(frozen=True, slots=True)
class ResumeResult:
    """Result of resuming.

    Attributes:
        steps: Optimizer steps made before.
        failure: Why it cannot resume; "" if it can.
        notes: What differs from before, one sentence each.
        proof: Whether the first step equals that of the run before; "" if unknown (yet).
    """

    steps: int
    failure: str = ""
    notes: tuple[str, ...] = ()
    proof: str = ""

    def to_text(self) -> str:
        """Return JSON."""
        return json.dumps(asdict(self))


def result_of_worker(result: str, rank: int) -> str:
    """Return the file for the result of one of several workers; the first uses that of the order.

    Example:
        >>> result_of_worker("result.json", 2), result_of_worker("", 2)
        ('result.json.r2', '')
    """
    return f"{result}.r{rank}" if result and rank else result


def result_from_text(text: str) -> ResumeResult:
    """Return the result from the output of `ResumeResult.to_text`."""
    data: Mapping[str, Any] = json.loads(text)
    return ResumeResult(**{**data, "notes": tuple(data["notes"])})
