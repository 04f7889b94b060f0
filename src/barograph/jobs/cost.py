"""Cost of a job, and what it would have cost on demand."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from barograph.model.plain import plain
from barograph.watch.figures import duration

_HOUR_SECS = 3600.0


@dataclass(frozen=True, slots=True)
class Interval:
    """Time for which one instance is paid.

    Attributes:
        start_unix, end_unix: In seconds since 1970; an end that is NaN has not come yet.
        spot: The instance could be taken away at any time.
    """

    start_unix: float
    end_unix: float
    spot: bool = False


@dataclass(frozen=True, slots=True)
class Bill:
    """The cost of a job, in the currency of its prices. Figures that need an unknown price are NaN.

    Attributes:
        instance_hours: Hours of all instances together.
        spot_hours: Those of spot instances.
        cost: What the job cost.
        on_demand_cost: What it would have cost on demand: the same hours, without those of repeated steps.
        savings_percent: How much less it cost than on demand; negative if it cost more.
        training_secs: Seconds of all instances together, as `TrainingTimeInSeconds` of SageMaker.
        billable_secs: Seconds on demand that cost as much, as `BillableTimeInSeconds` of SageMaker.
        interruptions: Attempts that ended because an instance was taken away or lost.
        repeated_steps: Steps that were made again after interruptions.
    """

    instance_hours: float
    spot_hours: float
    cost: float
    on_demand_cost: float
    savings_percent: float
    training_secs: float
    billable_secs: float
    interruptions: int = 0
    repeated_steps: int = 0

    @property
    def sagemaker_savings_percent(self) -> float:
        """(1 − billable / training time) × 100, as SageMaker computes it: repeated steps count as needed."""
        return _savings(self.billable_secs, self.training_secs)

    @property
    def line(self) -> str:
        """One line for people.

        Example:
            >>> bill([Interval(0, 7200, spot=True)], price=1.0, spot_price=0.3).line
            'cost 0.60 for 2 h 0 min of instances; 2.00 on demand (70% saved)'
        """
        what = f"{duration(self.instance_hours * _HOUR_SECS)} of instances"
        if not math.isnan(self.cost):
            what = f"cost {_amount(self.cost)} for {what}"
        if self.spot_hours and not math.isnan(self.on_demand_cost):
            more_or_less = "saved" if self.savings_percent >= 0 else "more than on demand"
            saved = "" if math.isnan(self.savings_percent) else (
                f" ({abs(self.savings_percent):.0f}% {more_or_less})")
            what += f"; {_amount(self.on_demand_cost)} on demand{saved}"
        return what

    def to_json(self) -> dict[str, Any]:
        """Return strict JSON data; figures that are unknown are null."""
        data: dict[str, Any] = plain(self)
        return {**data, "sagemaker_savings_percent": plain(self.sagemaker_savings_percent)}


def bill(intervals: Iterable[Interval], *, price: float = math.nan, spot_price: float = math.nan, steps: int = 0,
         repeated_steps: int = 0, interruptions: int = 0, now_unix: float = math.nan) -> Bill:
    """Return the bill of a job.

    Args:
        intervals: One for each instance that was started.
        price, spot_price: Of an instance for an hour; NaN: unknown.
        steps: Steps of the training, each counted once; 0: unknown, so `on_demand_cost` contains repeated steps.
        repeated_steps: Steps that were made again.
        interruptions: See `Bill`.
        now_unix: End of intervals that have not ended; NaN: they count nothing.
    """
    hours = {False: 0.0, True: 0.0}
    for interval in intervals:
        end = now_unix if math.isnan(interval.end_unix) else interval.end_unix
        # A clock that was set back must not give money back.
        hours[interval.spot] += 0.0 if math.isnan(end) else max(0.0, end - interval.start_unix) / _HOUR_SECS
    both = hours[False] + hours[True]
    cost = _priced(hours[False], price) + _priced(hours[True], spot_price)
    needed = steps / (steps + repeated_steps) if steps else 1.0
    on_demand = _priced(both * needed, price)
    billable = hours[False] + (hours[True] * spot_price / price if hours[True] else 0.0)
    return Bill(both, hours[True], cost, on_demand, _savings(cost, on_demand), both * _HOUR_SECS,
                billable * _HOUR_SECS, interruptions, repeated_steps)


def _amount(cost: float) -> str:
    return f"{cost:.2f}" if cost >= 0.1 or not cost else f"{cost:.2g}"


def _priced(hours: float, price: float) -> float:
    return hours * price if hours else 0.0


def _savings(paid: float, full: float) -> float:
    return (1 - paid / full) * 100 if full else math.nan
