"""Traces of prices and interruptions: what happens to the instances of a job, over time."""

from __future__ import annotations

import math
import random
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from barograph.errors import SettingsError

_MOST_TIMES = 2_000_000
"""Interruptions of all random traces together."""
DAY_SECS = 86_400.0
HOUR_SECS = 3600.0


@dataclass(frozen=True, slots=True)
class Trace:
    """Capacity and price of one kind of instance over time. It repeats after its period.

    Attributes:
        period_secs: Length, above 0.
        interruptions: Times at which instances are taken away and others are available at once, ascending, below the
            period.
        outages: Begin and end of times without capacity, ascending and disjoint. Instances are taken away at the begin.
        prices: Time from which an instance hour costs so much, ascending from 0; empty: not part of the trace.
        offset_secs: Time of the trace at which a job is submitted.
    """

    period_secs: float
    interruptions: tuple[float, ...] = ()
    outages: tuple[tuple[float, float], ...] = ()
    prices: tuple[tuple[float, float], ...] = ()
    offset_secs: float = 0.0
    _taken: tuple[float, ...] = field(init=False, repr=False, compare=False)
    _paid: tuple[float, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        taken = sorted({*self.interruptions, *(begin for begin, _ in self.outages)})
        object.__setattr__(self, "_taken", tuple(taken))
        sums = [0.0]
        for (begin, price), (end, _) in pairwise((*self.prices, (self.period_secs, 0.0))):
            sums.append(sums[-1] + price * (end - begin) / HOUR_SECS)
        object.__setattr__(self, "_paid", tuple(sums))

    def next_taken(self, after_secs: float) -> float:
        """Return when an instance that runs is taken away next, in seconds since the submission; inf: never.

        Args:
            after_secs: Strictly later than this.
        """
        if not self._taken:
            return math.inf
        round_, place = self._place(after_secs)
        index = bisect_right(self._taken, place)
        if index == len(self._taken):
            round_, index = round_ + 1, 0
        # Never earlier than asked for, however the sums are rounded: the simulation goes on by these times.
        return max(round_ * self.period_secs + self._taken[index] - self.offset_secs,
                   math.nextafter(after_secs, math.inf))

    def next_free(self, at_secs: float) -> float:
        """Return when there is capacity first, at a time or later, in seconds since the submission; inf: never."""
        round_, place = self._place(at_secs)
        for begin, end in self.outages[max(0, bisect_right(self.outages, (place, math.inf)) - 1):]:
            if not begin <= place < end:
                return at_secs
            if end < self.period_secs:
                return max(round_ * self.period_secs + end - self.offset_secs, math.nextafter(at_secs, math.inf))
            # It lasts until the trace begins again, and perhaps goes on there.
            first_end = self.outages[0][1] if self.outages[0][0] <= 0 else 0.0
            if first_end >= self.period_secs:
                return math.inf
            return (round_ + 1) * self.period_secs + first_end - self.offset_secs
        return at_secs

    def paid(self, begin_secs: float, end_secs: float) -> float:
        """Return what an instance costs from one time to another; NaN if the trace has no prices."""
        return self._paid_until(end_secs) - self._paid_until(begin_secs) if self.prices else math.nan

    def _paid_until(self, at_secs: float) -> float:
        round_, place = self._place(at_secs)
        index = bisect_right(self.prices, (place, math.inf)) - 1
        since, price = self.prices[index]
        return round_ * self._paid[-1] + self._paid[index] + price * (place - since) / HOUR_SECS

    def _place(self, secs: float) -> tuple[int, float]:
        round_, place = divmod(secs + self.offset_secs, self.period_secs)
        return int(round_), place


def random_traces(count: int, *, mtbf_secs: float, seed: int = 0, outage_secs: float = 0.0,
                  period_secs: float = 30 * DAY_SECS) -> list[Trace]:
    """Return traces with independent interruptions: times between them are exponentially distributed.

    Args:
        count: Number of traces.
        mtbf_secs: Mean time between interruptions of the job, above 0. Of n instances, each with its own
            interruptions, it is an n-th of that of one instance.
        seed: Equal seeds give equal traces.
        outage_secs: Mean time without capacity after each, exponentially distributed too; 0: others are available at
            once.
        period_secs: Length of each; shorter if the interruptions of all would not fit into memory.

    Raises:
        SettingsError: The mean time between interruptions is not above 0.
    """
    if not 0 < mtbf_secs < math.inf:
        raise SettingsError(f"The mean time between interruptions is {mtbf_secs:g} s; it must be above 0 and finite.")
    period_secs = min(period_secs, (mtbf_secs + outage_secs) * max(1, _MOST_TIMES // max(1, count)))
    made = []
    for index in range(count):
        drawn = random.Random(f"{seed} {index}")
        times = list(_exponential(drawn, mtbf_secs, outage_secs, period_secs))
        if outage_secs:
            made.append(Trace(period_secs, outages=tuple(times)))
        else:
            made.append(Trace(period_secs, interruptions=tuple(begin for begin, _ in times)))
    return made


def _exponential(drawn: random.Random, mtbf_secs: float, outage_secs: float,
                 period_secs: float) -> Iterator[tuple[float, float]]:
    at = drawn.expovariate(1 / mtbf_secs)
    while at < period_secs:
        end = min(at + (drawn.expovariate(1 / outage_secs) if outage_secs else 0.0), period_secs)
        yield at, end
        at = end + drawn.expovariate(1 / mtbf_secs)


def shifted(trace: Trace, count: int, *, seed: int = 0) -> list[Trace]:
    """Return a trace as jobs see it that are submitted at random times."""
    drawn = random.Random(seed)
    return [replace(trace, offset_secs=drawn.uniform(0, trace.period_secs)) for _ in range(count)]


def trace_of_prices(prices: Sequence[tuple[float, float]], *, most: float = math.inf) -> Trace:
    """Return the trace of a price history.

    Args:
        prices: Time in seconds and price of an instance hour from then on, ascending. The last entry only ends the
            history, unless it is the only one.
        most: Price at which instances are taken away, as a bid; infinite: they are not.

    Example:
        >>> trace_of_prices([(0, 0.1), (60, 0.5), (90, 0.1), (120, 0.1)], most=0.3).outages
        ((60.0, 90.0),)
    """
    begin = prices[0][0]
    period = prices[-1][0] - begin or DAY_SECS
    steps = tuple((float(at - begin), float(price)) for at, price in prices if at - begin < period)
    ends = (*(at for at, _ in steps[1:]), period)
    outages = _joined((at, end) for (at, price), end in zip(steps, ends, strict=True) if price > most)
    return Trace(period, outages=outages, prices=steps)


def mtbf_secs(traces: Iterable[Trace]) -> float:
    """Return the mean time with capacity between the interruptions of traces; infinite if there are none."""
    available, taken = 0.0, 0
    for trace in traces:
        available += trace.period_secs - sum(end - begin for begin, end in trace.outages)
        inner = [at for at in trace.interruptions if not _is_within(at, trace.outages)]
        taken += len(inner) + len(trace.outages)
    return available / taken if taken else math.inf


def _joined(spans: Iterable[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    joined: list[tuple[float, float]] = []
    for begin, end in spans:
        if joined and joined[-1][1] == begin:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((begin, end))
    return tuple(joined)


def _is_within(at: float, spans: Sequence[tuple[float, float]]) -> bool:
    index = bisect_left(spans, (at, math.inf)) - 1
    return index >= 0 and spans[index][0] <= at < spans[index][1]
