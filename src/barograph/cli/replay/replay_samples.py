"""Finds the samples that make a step fail on their own, by replaying it with parts of its batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from barograph.capsule.failing import Failing
from barograph.capsule.guilty import Guilty, filled, guilty_among
from barograph.capsule.order import ReplayOrder, ReplayResult
from barograph.errors import ReplayFailed

MadeAgain = Callable[..., ReplayResult]
"""Replays a step as ordered."""


def failing_batch(result: ReplayResult, fails: Failing) -> int | None:
    """Return the index of the batch that makes the step fail; None if it does not fail or no batch is known.

    This is the first batch with a non-finite loss, or else the one with the greatest loss.
    """
    return heaviest_batch(result) if fails(result) else None


def heaviest_batch(result: ReplayResult) -> int | None:
    """Return the index of the batch with a non-finite loss, or else the greatest; None if no batch is known."""
    if not any(result.batches):
        return None
    losses = [now for _, now in result.losses]
    greatest = max(range(len(losses)), key=lambda number: losses[number], default=0)
    bad = next((number for number, now in enumerate(losses) if not math.isfinite(now)), greatest)
    return bad * len(result.batches) // max(1, len(result.losses))


def came_from_another(result: ReplayResult, workers: int) -> bool:
    """Return whether the NaN or infinity came with the gradients of another worker.

    Args:
        result: Result of a replay.
        workers: Number of workers of the training.
    """
    own = all(math.isfinite(now) for _, now in result.losses)
    return workers > 1 and own and not result.finite and result.bad_operation is None


def guilty_of(
    made_again: MadeAgain, order: ReplayOrder, result: ReplayResult, batch: int, fails_by: Failing
) -> Guilty:
    """Return the samples that make a step fail on their own, by replaying it with parts of the batch.

    Args:
        made_again: Replays the step.
        order: Order of the first replay.
        result: Result of the first replay.
        batch: Index of the batch.
        fails_by: Decides whether a replay failed.
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
    """Return a function that replays a step with some rows of a batch, and returns None if that is impossible.

    Args:
        made_again: Replays the step.
        order: Order of the first replay.
        batch: Index of the batch.
        samples: Number of samples in the batch.
        failures: Receives the reasons for failed replays.
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


def guilt_sentence(
    guilty: Guilty, batch: int, sizes: Sequence[int], *, finite: bool = False, others: bool = False
) -> str:
    """Return a sentence about the guilty samples.

    Args:
        guilty: Guilty samples.
        batch: Index of the batch.
        sizes: Sizes of the step's batches.
        finite: The step was finite and failed otherwise.
        others: Other workers took part in the step, with their own batches.
    """
    passes = "passes" if finite else "is finite"
    of = f" of batch {batch}" if len(sizes) > 1 else ""
    if guilty.failure:
        return f"unknown: the step cannot be replayed with parts of the batch{of}. {guilty.failure}"
    if guilty.any_fails and others:
        return (f"no sample{of} of this worker: the step fails with any of them, so the fault is not in the samples or "
                "came from another worker. Replay that worker's capsule, in the folder next to this one")
    if guilty.any_fails:
        return f"no sample{of}: every sample fails on its own, so the samples are not the cause"
    if not guilty.rows:
        return f"no single sample{of}: they fail only together"
    which = f"sample {', '.join(map(str, guilty.rows))}{of}, of {sizes[batch]}: it fails alone" if len(
        guilty.rows) == 1 else f"samples {', '.join(map(str, guilty.rows))}{of}, of {sizes[batch]}: each fails alone"
    rest = {True: f", and without it the step {passes}" if len(guilty.rows) == 1 else
            f", and without them the step {passes}", False: "; so do other samples", None: ""}[guilty.without_them]
    return which + rest
