"""What `barograph resume` tells the script's process, and what that tells back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ResumeOrder:
    """From where a training is to go on.

    Attributes:
        checkpoint: Name of its metadata file in the run.
        result: File that the result is written to.
        inexact: It goes on also where not everything is as it was.
        workers: How many have saved it, each its part.
        child: It was saved by a process that the script had started by itself, one that trained alone.
    """

    checkpoint: str
    result: str
    inexact: bool = False
    workers: int = 1
    child: bool = False


@dataclass(frozen=True, slots=True)
class ResumeResult:
    """What came of it.

    Attributes:
        steps: Optimizer steps that had been made.
        failure: Why it does not go on; "" where it does.
        notes: What is not as it was, a sentence each.
        proof: Whether the first step after it is that of the run before; "" where that is not known (yet).
    """

    steps: int
    failure: str = ""
    notes: tuple[str, ...] = ()
    proof: str = ""

    def to_text(self) -> str:
        """Return it as JSON."""
        return json.dumps(asdict(self))


def result_of_worker(result: str, rank: int) -> str:
    """Return the file that one of several workers writes its result to; the first writes to that of the order.

    Example:
        >>> result_of_worker("result.json", 2), result_of_worker("", 2)
        ('result.json.r2', '')
    """
    return f"{result}.r{rank}" if result and rank else result


def result_from_text(text: str) -> ResumeResult:
    """Return what `ResumeResult.to_text` wrote."""
    data: Mapping[str, Any] = json.loads(text)
    return ResumeResult(**{**data, "notes": tuple(data["notes"])})
