"""Predicts how long a job takes and what it costs, from traces of prices and interruptions."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from barograph.capture.cadence import best_interval_secs
from barograph.errors import SettingsError
from barograph.jobs.simulation.trace import Trace, mtbf_secs
from barograph.jobs.simulation.virtual import Training, VirtualJob, interval_of
from barograph.jobs.spec import JobSpec
from barograph.model.plain import plain
from barograph.watch.figures import count, duration, share

_HOUR_SECS = 3600.0
_FIRST = 10
"""If none of so many simulations gets any further, the others are not worth their time."""
_FITS = 1.5
"""An interval that differs less from the best one loses hardly more time."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The middle and the ends of many values; NaN if there are none.

    Attributes:
        low, median, high: The 5th, 50th and 95th percentile.
    """

    low: float
    median: float
    high: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """Result of the simulations of a job.

    Attributes:
        simulations: Number of simulations.
        finished_share: Share that finished.
        duration_secs: Time from submission to end, of those that finished.
        cost: Cost of those that finished; NaN if prices are unknown.
        on_demand_cost: Cost on demand, without interruptions; NaN if the price is unknown.
        lost_percent: Time with instances beyond that of an uninterrupted training without checkpoints, in percent of
            it: mean of those that finished.
        interruptions: Mean number of interruptions of those that finished.
        repeated_steps: Steps that were made again, of those that finished.
        interval_secs: Training between two checkpoints before the first interruption; infinite if there are none.
        mtbf_secs: Mean time between interruptions in the traces; infinite if there are none.
        best_interval_secs: Interval that fits `mtbf_secs`, by Young and Daly.
        why_unfinished: Why most of the jobs ended that did not finish; "" if none ended otherwise.
    """

    simulations: int
    finished_share: float
    duration_secs: Spread
    cost: Spread
    on_demand_cost: float
    lost_percent: float
    interruptions: float
    repeated_steps: Spread
    interval_secs: float
    mtbf_secs: float
    best_interval_secs: float
    why_unfinished: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return strict JSON data; figures that are unknown are null."""
        data: dict[str, Any] = plain(self)
        return data

    @property
    def lines(self) -> list[str]:
        """The forecast for people."""
        said = [f"{share(self.finished_share)} of {count(self.simulations, 'simulation')} finished"]
        if self.why_unfinished:
            said.append(f"most of the others: {self.why_unfinished}")
        starts_again = ("Without checkpoints, the training starts again after each interruption. Add --spot or "
                        "--checkpoint-every auto (in a job file: spot = true).")
        if not self.finished_share:
            return [*said, starts_again] if math.isinf(self.interval_secs) and math.isfinite(self.mtbf_secs) else said
        took, cost = self.duration_secs, self.cost
        said.append(f"duration: {duration(took.median)} (90% between {duration(took.low)} and {duration(took.high)})")
        if not math.isnan(cost.median):
            demand = "" if math.isnan(self.on_demand_cost) else f"; {self.on_demand_cost:.2f} on demand"
            said.append(f"cost: {cost.median:.2f} (90% between {cost.low:.2f} and {cost.high:.2f}){demand}")
        every = f"a checkpoint every {duration(self.interval_secs)}" if math.isfinite(self.interval_secs) else (
            "no checkpoints")
        said.append(f"{self.interruptions:.1f} interruptions, {self.repeated_steps.median:,.0f} repeated steps, "
                    f"{self.lost_percent:.1f}% of time lost; {every}")
        if self.interruptions and math.isinf(self.interval_secs):
            said.append(starts_again)
        elif math.isfinite(self.mtbf_secs) and not 1 / _FITS < self.interval_secs / self.best_interval_secs < _FITS:
            said.append(f"an interruption every {duration(self.mtbf_secs)}: a checkpoint every "
                        f"{duration(self.best_interval_secs)} loses less (checkpoints.mtbf_hours = "
                        f"{self.mtbf_secs / _HOUR_SECS:.2g})")
        return said


def simulate(spec: JobSpec, traces: Iterable[Trace], training: Training) -> Forecast:
    """Return a forecast for a job: one simulation for each trace, by the decisions of the real controller.

    An instance hour costs what the trace says, else `spot_price` for a spot job and `price` for any other.

    Args:
        spec: The job.
        traces: At least one.
        training: What the simulation must know about the training.

    Raises:
        SettingsError: A time of the training is out of range, or there are no traces.
        UnknownName: The settings of checkpoints are wrong.
    """
    _check(training)
    interval_secs = interval_of(spec, training)
    traces = list(traces)
    if not traces:
        raise SettingsError("A simulation needs at least one trace.")
    jobs: list[VirtualJob] = []
    finished: list[VirtualJob] = []
    for trace in traces:
        jobs.append(VirtualJob(spec, trace, training))
        if jobs[-1].run():
            finished.append(jobs[-1])
        if len(jobs) == _FIRST and all(job.gets_no_further for job in jobs):
            break
    plain_secs = training.start_secs + training.work_secs
    price = spec.spot_price if spec.spot else spec.price
    between = mtbf_secs(traces)
    costs = [_cost(job, price) for job in finished]
    return Forecast(
        len(jobs), len(finished) / len(jobs), _spread([job.duration_secs for job in finished]), _spread(costs),
        spec.price * spec.instances * plain_secs / _HOUR_SECS,
        _mean([100 * (job.state.trained_secs / plain_secs - 1) for job in finished]),
        _mean([job.state.interruptions for job in finished]),
        _spread([job.state.repeated_steps for job in finished]), interval_secs, between,
        max(training.step_secs, best_interval_secs(training.checkpoint_secs, between)), _why_unfinished(jobs))


def _why_unfinished(jobs: Iterable[VirtualJob]) -> str:
    reasons = Counter(job.state.reason for job in jobs if job.state.phase.is_over and job.state.reason)
    return reasons.most_common(1)[0][0] if reasons else ""


def _cost(job: VirtualJob, price: float) -> float:
    by_trace = job.cost
    if not math.isnan(by_trace):
        return by_trace
    return sum(end - begin for begin, end in job.state.intervals) / _HOUR_SECS * price


def _check(training: Training) -> None:
    for name, least_is_zero in (("work_secs", False), ("step_secs", False), ("start_secs", True),
                                ("checkpoint_secs", True), ("notice_secs", True)):
        value = getattr(training, name)
        if not 0 <= value < math.inf or not (value or least_is_zero):
            raise SettingsError(f"{name} is {value!r}; it must be {'at least' if least_is_zero else 'above'} 0 and "
                                "finite.")


def _spread(values: Sequence[float]) -> Spread:
    ordered = sorted(values)
    return Spread(*(_percentile(ordered, part) for part in (0.05, 0.5, 0.95)))


def _percentile(ordered: Sequence[float], part: float) -> float:
    """Return a percentile, between the two nearest values in proportion."""
    if not ordered:
        return math.nan
    place = part * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else math.nan
