"""Contribution of each sample to a step that a finding saved, for failures without a pass/fail test."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from barograph.capsule.order import ReplayOrder, ReplayResult
from barograph.capsule.weighing import BEYOND_NEXT, Figures, Weighed, Weight, weighed
from barograph.cli.replay.replay_samples import MadeAgain, made_of_rows
from barograph.watch.figures import figure

_MOST_SHOWN = 3
_CALLED = {"norm": "gradient norm", "loss": "loss"}


def weights_of(made_again: MadeAgain, order: ReplayOrder, result: ReplayResult, batch: int) -> Weighed:
    """Return the contributions of the samples of a batch, by replaying the step with each of them alone.

    Args:
        made_again: Replays the step.
        order: Order of the first replay.
        result: Result of the first replay.
        batch: Index of the batch.
    """
    failures: list[str] = []
    made = made_of_rows(made_again, order, batch, result.batches[batch], failures)

    def make(rows: tuple[int, ...]) -> Figures | None:
        again = made(rows)
        return None if again is None else figures_of(again)

    found = weighed(result.batches[batch], make, figures_of(result))
    return found if found.alone else replace(found, failure=failures[-1] if failures else "")


def figures_of(result: ReplayResult) -> Figures:
    """Return loss and gradient norm of a replayed step."""
    return Figures(sum(now for _, now in result.losses) if result.losses else None, result.norm)


def contribution_sentences(found: Weighed, batch: int, batches: int) -> Iterable[str]:
    """Yield sentences about the contributions.

    Args:
        found: The contributions.
        batch: Index of the batch.
        batches: Number of batches of the step.
    """
    of = f" of batch {batch}" if batches > 1 else ""
    if found.failure or not found.alone:
        yield f"unknown: the step cannot be replayed with single samples{of}. {found.failure}".rstrip()
        return
    all_of_them = len(found.alone) == found.batch_size
    looked = (f"each of {found.batch_size} samples was replayed alone" if all_of_them else
              f"{len(found.alone)} of {found.batch_size} samples were replayed alone")
    if found.by is None:
        yield f"unknown: {looked}, but too few have a loss and gradient norm to compare"
    elif not found.outliers:
        yield (f"no sample{of} stands out: {looked}; {_spread(found)}. An outlier would be at least {BEYOND_NEXT:g} "
               "times the next sample and a tenth of the step")
    else:
        yield _named(found, of)
    yield from (f"sample {item.row} alone: loss {_figure(item.loss)}, gradient norm {_figure(item.norm)}"
                for item in _shown(found))


def _named(found: Weighed, of: str) -> str:
    assert found.by is not None
    values = {item.row: getattr(item, found.by.of) for item in found.alone}
    called = _CALLED[found.by.of]
    rows = ", ".join(map(str, found.outliers))
    several = len(found.outliers) > 1
    stands = (f"samples {rows}{of}, of {found.batch_size}, stand out" if several else
              f"sample {rows}{of}, of {found.batch_size}, stands out")
    figures = ", ".join(_figure(values[row]) for row in found.outliers)
    without = "" if found.without is None else (
        f"; without {'them' if several else 'it'}, the step has {_figure(getattr(found.without, found.by.of))} "
        f"instead of {_figure(getattr(found.whole, found.by.of))}")
    return f"{stands}: {called} {figures}; {_spread(found)}{without}"


def _spread(found: Weighed) -> str:
    assert found.by is not None
    return f"the median {_CALLED[found.by.of]} is {figure(found.by.median)} (spread {figure(found.by.spread)})"


def _shown(found: Weighed) -> Iterable[Weight]:
    return found.alone[: max(_MOST_SHOWN, len(found.outliers))]


def _figure(value: float | None) -> str:
    return "unknown" if value is None else figure(value)
