"""The verdict on repetitions of the best trials of a study."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from barograph.experiments.verdict import Outcome, interval, varies, verdict
from barograph.tune.spec import Objective


@dataclass(frozen=True, slots=True)
class Repeated:
    """A trial and the results of its repetitions.

    Attributes:
        trial: Number of the trial.
        values: Values of the first objective, one for each repetition that finished.
        mean, low, high: Their mean and its 95% interval; NaN if undefined.
        failed: Reasons of the repetitions that failed.
    """

    trial: int
    values: tuple[float, ...]
    mean: float
    low: float
    high: float
    failed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Confirmation:
    """Whether the best trial is better than the next.

    Attributes:
        repeated: The best trials with their repetitions, the best mean first.
        sentence: The verdict.
    """

    repeated: tuple[Repeated, ...]
    sentence: str


def judged(
    objective: Objective, values: Mapping[int, Sequence[float]], failed: Mapping[int, Sequence[str]] | None = None
) -> Confirmation:
    """Return the verdict over repeated trials.

    Args:
        objective: The objective that the values are of.
        values: Number of a trial to the values of its repetitions, of two trials and more.
        failed: Number of a trial to the reasons why repetitions failed.
    """
    repeated = [Repeated(number, tuple(found), *interval(found), tuple((failed or {}).get(number, ())))
                for number, found in values.items()]
    repeated.sort(key=lambda one: objective.loss(fmean(one.values)) if one.values else math.inf)
    if all(not one.values for one in repeated):
        reasons = [reason.partition("\n")[0] for one in repeated for reason in one.failed]
        return Confirmation(tuple(repeated), "no repetition gave a value" + "".join(
            f". The first one: {reason}" for reason in reasons[:1]))
    first, second = repeated[:2]
    found = verdict(first.values, second.values, greater_is_better=objective.maximize)
    low, high = (found.low, found.high) if objective.maximize else (-found.high, -found.low)
    by = f"by {abs(found.difference):.3g}, 95% interval {low:.3g} to {high:.3g}"
    if found.outcome is Outcome.ACCEPTED:
        text = f"trial {first.trial} is better than trial {second.trial}: {by}"
    else:
        why = _why_not(first, second)
        text = (f"trial {first.trial} is not significantly better than trial {second.trial}"
                f"{f' ({by})' if low < high and not why else ''}. {why or found.reason}")
    return Confirmation(tuple(repeated), text)


def _why_not(first: Repeated, second: Repeated) -> str:
    """Return why repetitions cannot tell two trials apart, if other seeds would not help; "" if they would."""
    if all(len(one.values) > 1 and not varies(one.values) for one in (first, second)):
        return ("All repetitions of each trial gave the same value: the seed changes nothing, or the metric is too "
                "coarse.")
    return " ".join(f"{len(one.failed)} of {len(one.failed) + len(one.values)} repetitions of trial {one.trial} failed."
                    for one in (first, second) if one.failed and len(one.values) < 2)


def confirmation_from_json(data: Mapping[str, Any]) -> Confirmation:
    """Return a confirmation from JSON data of its fields."""
    def number(value: float | None) -> float:
        return math.nan if value is None else float(value)  # JSON has no NaN

    return Confirmation(tuple(
        Repeated(int(one["trial"]), tuple(map(number, one["values"])), number(one["mean"]), number(one["low"]),
                 number(one["high"]), tuple(one["failed"])) for one in data["repeated"]), str(data["sentence"]))
