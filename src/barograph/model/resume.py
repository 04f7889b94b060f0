"""Messages between `barograph resume` and the process of the script."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
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
        again: The next attempt may succeed, because it repeats evaluations in full.
    """

    steps: int
    failure: str = ""
    notes: tuple[str, ...] = ()
    proof: str = ""
    again: bool = False

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


def results_of_workers(file: Path) -> list[ResumeResult]:
    """Return the results that workers have written; `file` is that of the first."""
    return [result_from_text(path.read_text(encoding="utf-8")) for path in sorted(file.parent.glob(f"{file.name}*"))]


def failure_among(results: Iterable[ResumeResult]) -> ResumeResult | None:
    """Return why the workers of a training could not resume: the first failure; None if there is none."""
    failures = [result for result in results if result.failure]
    # The others fail because a worker is gone, so the one that can be helped is the cause.
    return next((result for result in failures if result.again), next(iter(failures), None))


def result_from_text(text: str) -> ResumeResult:
    """Return the result from the output of `ResumeResult.to_text`."""
    data: Mapping[str, Any] = json.loads(text)
    return ResumeResult(**{**data, "notes": tuple(data["notes"])})
