"""Which samples of a held step alone make it fail: asked of it by making it again with parts of its batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from barograph.capsule.failing import Failing
from barograph.capsule.guilty import Guilty, filled, guilty_among
from barograph.capsule.order import ReplayOrder, ReplayResult
from barograph.errors import ReplayFailed

MadeAgain = Callable[..., ReplayResult]
"""Makes a step again as an order says."""


def failing_batch(result: ReplayResult, fails: Failing) -> int | None:
    """Return which batch of the step makes it fail; None where it does not fail so, or no batch is known.

    That whose loss is not finite; else that of the greatest loss.
    """
    return heaviest_batch(result) if fails(result) else None


def heaviest_batch(result: ReplayResult) -> int | None:
    """Return which batch of a step has a loss that is not finite, or the greatest; None where no batch is known."""
    if not any(result.batches):
        return None
    losses = [now for _, now in result.losses]
    greatest = max(range(len(losses)), key=lambda number: losses[number], default=0)
    bad = next((number for number, now in enumerate(losses) if not math.isfinite(now)), greatest)
    return bad * len(result.batches) // max(1, len(result.losses))


def came_from_another(result: ReplayResult, workers: int) -> bool:
    """Return whether what is not finite came to this worker with the gradients of another.

    Args:
        result: Of a replay.
        workers: That trained together.
    """
    own = all(math.isfinite(now) for _, now in result.losses)
    return workers > 1 and own and not result.finite and result.bad_operation is None


def guilty_of(
    made_again: MadeAgain, order: ReplayOrder, result: ReplayResult, batch: int, fails_by: Failing
) -> Guilty:
    """Return the samples of a batch that alone make a step fail, by making it again with parts of the batch.

    Args:
        made_again: Makes it.
        order: As it was made first.
        result: What came of that.
        batch: Which of its batches.
        fails_by: Whether a part of it fails.
    """
    failures: list[str] = []

    def fails(rows: tuple[int, ...]) -> bool:
        again = made(rows)
        return again is not None and fails_by(again)

    samples = result.batches[batch]
    made = made_of_rows(made_again, order, batch, samples, failures)
    suspects = result.bad_operation.rows if result.bad_operation else ()
    found = guilty_among(samples, fails, suspects=suspects)
    return replace(found, failure=failures[-1]) if len(failures) == found.tries else found


def made_of_rows(
    made_again: MadeAgain, order: ReplayOrder, batch: int, samples: int, failures: list[str]
) -> Callable[[tuple[int, ...]], ReplayResult | None]:
    """Return what makes a step again with some rows of a batch alone; None: the script cannot, which is another matter.

    Args:
        made_again: Makes it.
        order: As it was made first.
        batch: Which of its batches.
        samples: In that.
        failures: Why it could not be made is put in here.
    """
    def made(rows: tuple[int, ...]) -> ReplayResult | None:
        try:
            again = made_again(replace(order, batch=batch, rows=filled(rows, samples)), quiet=True)
        except ReplayFailed as error:
            failures.append(str(error))
            return None
        failure = again.failure or (again.own.failure if again.own is not None else "")
        if failure:
            failures.append(failure)
        return None if failure else again

    return made


def said_of(
    guilty: Guilty, batch: int, sizes: Sequence[int], *, finite: bool = False, others: bool = False
) -> str:
    """Return in a sentence which samples are guilty.

    Args:
        guilty: What was found.
        batch: Which of the step's.
        sizes: Of all its batches.
        finite: The step was finite, and failed otherwise.
        others: Other workers made it together with this one, each with a batch of its own.
    """
    passes = "passes" if finite else "is finite"
    of = f" of batch {batch}" if len(sizes) > 1 else ""
    if guilty.failure:
        return f"not known: the step could be made with no part of the batch{of}. {guilty.failure}"
    if guilty.any_fails and others:
        return (f"no sample{of} of this worker's: with any of them the step fails, so that the fault came with another "
                "worker, or is in no sample. Replay the capsule of another, which stands beside this one")
    if guilty.any_fails:
        return f"no sample{of}: any of them fails by itself, so that the fault is not in the samples"
    if not guilty.rows:
        return f"no sample{of} alone: they fail together"
    which = f"sample {', '.join(map(str, guilty.rows))}{of}, of {sizes[batch]}: alone it fails" if len(
        guilty.rows) == 1 else f"samples {', '.join(map(str, guilty.rows))}{of}, of {sizes[batch]}: each fails alone"
    rest = {True: f", and without it the step {passes}" if len(guilty.rows) == 1 else
            f", and without them the step {passes}", False: "; so do others", None: ""}[guilty.without_them]
    return which + rest
