"""Rules about the time of steps and its breakdown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any, ClassVar

from barograph.measures.robust import level, robust_z
from barograph.model.cause import Cause, Suspicion
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Key, Kind
from barograph.model.selection import Schedule, Selection
from barograph.model.step import Mode
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.windows import samples_of
from barograph.rules.words import number, percent
from barograph.runs.reading.view import StepView

_TIME = frozenset({Kind.TIME})
_IN_TRAINING = Schedule(modes=frozenset({Mode.TRAIN}))
STEP, DATA, FORWARD, BACKWARD, OPTIMIZER, CAPTURE, OTHER, STEPS, LONGEST = (
    Key(Kind.TIME, path)
    for path in ("step", "data", "forward", "backward", "optimizer", "capture", "other", "steps", "longest")
)
_MOST_FACTS = 200
_NO_LOADER = Unjudged("no data loader with worker processes ran for long enough")
_LOADERS = Key(Kind.MACHINE, "loader_processes")


def time_need(*paths: str) -> Selection:
    """Return the need for these parts of a step's time."""
    return Selection(kinds=_TIME, include=paths, schedule=_IN_TRAINING)


def milliseconds(secs: float) -> str:
    """Return a time with its unit.

    Example:
        >>> milliseconds(0.0123), milliseconds(2.5)
        ('12.3 ms', '2.5 s')
    """
    return f"{number(secs)} s" if secs >= 1 else f"{number(1000 * secs)} ms"


def _last_recorded(memory: Memory, view: StepView, keys: tuple[Key, ...]) -> list[list[float]] | None:
    """Add the times of a view to the last records and return these; None if the view lacks one.

    Args:
        memory: Stores the records and the total time of the steps.
        view: The view.
        keys: Times to read; the step and the number of steps first.
    """
    values = [view.scalar(key) for key in keys]
    if any(value is None for value in values):
        return None
    all_facts: list[list[float]] = memory.setdefault("told", [])
    all_facts.append([value for value in values if value is not None])
    del all_facts[:-_MOST_FACTS]
    memory["secs"] = memory.get("secs", 0.0) + all_facts[-1][0] * all_facts[-1][1]
    return all_facts


def _too_early(memory: Memory, least_secs: float) -> Unjudged:
    return Unjudged(f"needs {number(least_secs)} s of steps; this run has {number(memory['secs'])} s")


@dataclass(frozen=True, kw_only=True)
class Dataloader(Rule):
    """M107: The data loader has far too few worker processes, or far too many.

    What it sees: the number of worker processes of the DataLoaders, relative to the cores that the training may use.
      Too many: more than `max_threshold` percent of the cores. Too few: fewer than `min_threshold` percent while
      training waits for data for `least_waiting` of its time. Without waiting, even none is enough.
    Why it matters: with too few, the rest of the machine waits; too many compete for cores and caches, and each costs
      memory.
    What to do: set `num_workers` of the DataLoader to about the number of cores per training process.
    When it is wrong: worker processes that mostly wait for a network may exceed the cores. Only PyTorch data loaders
      are counted.
    Source: Amazon SageMaker Debugger's Dataloader.
    """

    code: ClassVar[str] = "M107"
    name: ClassVar[str] = "dataloader"
    severity: ClassVar[Severity] = Severity.NOTE

    min_threshold: float = parameter(70.0, "Processes below which there are too few, in percent of the cores.",
                                     at_least=0.0)
    max_threshold: float = parameter(200.0, "Processes above which there are too many, in percent of the cores.",
                                     above=0.0)
    least_waiting: float = parameter(0.3, "Share of time spent waiting for data.", above=0.0, below=1.0)
    least_secs: float = parameter(120.0, "Least time of steps and of samples, in seconds.", at_least=0.0)
    patience: int = parameter(5, "Judged samples in a row that must show the fault before a finding opens.", at_least=1)
    recovery: int = parameter(60, "Judged samples in a row without the fault before a finding closes.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (Selection(kinds=frozenset({Kind.MACHINE}), include=("loader_processes",)), time_need("data"))

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        if _last_recorded(memory, view, (STEP, STEPS, DATA)) is not None:
            yield _NO_LOADER
            return
        symptom: Symptom | None = None
        judged = False
        for worker, figures in samples_of(view):
            loaders, cores = figures.get("loader_processes"), figures.get("cores")
            if loaders is None or not cores:
                continue
            since = memory.setdefault("since", {})
            if loaders == 0:
                since.pop(worker, None)
            elif view.step.time_unix - since.setdefault(worker, view.step.time_unix) >= self.least_secs:
                judged = True
                symptom = self._symptom(view, worker, loaders, cores, memory) or symptom
        if not judged:
            yield _NO_LOADER
        elif symptom is not None:
            yield symptom

    def _symptom(
        self, view: StepView, worker: str, loaders: float, cores: float, memory: Memory
    ) -> Symptom | None:
        share = 100 * loaders / cores
        waiting = _waiting(memory["told"]) if memory.get("secs", 0.0) >= self.least_secs else 0.0
        if share > self.max_threshold:
            limit, weight, what = self.max_threshold, 0.3, "too many for the cores"
        elif share < self.min_threshold and waiting >= self.least_waiting:
            limit, weight = self.min_threshold, 0.8
            what = f"and training waits for data {percent(waiting)} of the time"
        else:
            return None
        text = f"{loaders:g} worker processes on {cores:g} cores"
        return Symptom(
            message=f"The data loader of {worker} has {text}, {what}.",
            remedy=f"Change num_workers of the DataLoader from {loaders:g} to about {cores:g}.",
            evidence=(Evidence(_LOADERS, view.step.number, "percent_of_cores", share, limit, text),),
            subject=worker,
            causes=(Suspicion(Cause.SLOW_DATA_LOADING, weight, f"the data loader has {text}"),),
        )


def _waiting(all_facts: list[list[float]]) -> float:
    """Return the share of time spent waiting for data."""
    secs = sum(step * steps for step, steps, _ in all_facts)
    return sum(data * steps for _, steps, data in all_facts) / secs if secs > 0 else 0.0


@dataclass(frozen=True, kw_only=True)
class StepOutlier(Rule):
    """M109: Some steps take far longer than the others.

    What it sees: the longest step and the mean step of each interval (at most two intervals per second). A step is an
      outlier if it is `stddev` robust standard deviations above normal and five times as long. The rule fires if there
      are `n_outliers` in the last 200 intervals and they take `least_share` of the time: other load on a machine often
      delays short steps by some milliseconds, which is harmless.
    Why it matters: every worker waits for the slowest step of any.
    What to do: check for a regular pattern: checkpoints, an evaluation that Barograph did not record, logging, a new
      epoch that starts the loader's processes (`persistent_workers=True` keeps them), filling a shuffle buffer.
    When it is wrong: such work is often intended. Evaluations that Barograph records do not count.
    Source: Amazon SageMaker Debugger's StepOutlier, which uses mean and standard deviation, which outliers inflate.
      This rule uses the median and the median absolute deviation.
    """

    code: ClassVar[str] = "M109"
    name: ClassVar[str] = "step-outlier"
    severity: ClassVar[Severity] = Severity.NOTE

    stddev: float = parameter(3.0, "Robust standard deviations above a normal step.", above=0.0)
    n_outliers: int = parameter(10, "Outliers in the last 200 intervals.", at_least=1)
    least_share: float = parameter(0.2, "Share of the time that they add.", at_least=0.0,
                                   below=1.0)
    least_secs: float = parameter(120.0, "Least time of steps, in seconds.", at_least=0.0)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (time_need("step", "steps", "longest"),)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        all_facts = _last_recorded(memory, view, (STEP, STEPS, LONGEST))
        if all_facts is None:
            yield Unjudged("no step times were recorded")
            return
        if memory["secs"] < self.least_secs or len(all_facts) < 2 * self.n_outliers:
            yield _too_early(memory, self.least_secs)
            return
        secs = sum(step * steps for step, steps, _ in all_facts)
        # A single step is its own mean; otherwise the mean excludes the longest step.
        usual = [step if steps < 2 else (step * steps - longest) / (steps - 1) for step, steps, longest in all_facts]
        center = level(usual).center
        outliers = [longest for _, _, longest in all_facts
                    if longest > _MANY * center and robust_z(longest, usual, floor=0.01 * center) > self.stddev]
        share = sum(longest - center for longest in outliers) / secs
        if len(outliers) < self.n_outliers or share < self.least_share:
            return
        worst = max(outliers)
        text = f"{len(outliers)} of the last {len(all_facts)} intervals; normally {milliseconds(center)}"
        yield Symptom(
            message=f"Some steps take up to {milliseconds(worst)} instead of "
                    f"{milliseconds(center)}; this adds {percent(share)} of the time.",
            remedy="Check for a regular pattern: checkpoints, evaluations, the first batch of an epoch "
                   "(persistent_workers=True keeps the loader's processes).",
            evidence=(Evidence(LONGEST, view.step.number, "longest", worst, _MANY * center, text),),
            causes=(Suspicion(Cause.SLOW_DATA_LOADING, 0.3, "steps that take far longer than others often wait for "
                                                            "data"),),
        )


_MANY = 5.0


@dataclass(frozen=True, kw_only=True)
class Straggler(Rule):
    """M110: One worker is slower than the others.

    What it sees: the smoothed step time of each worker without the backward pass, in which fast workers wait for slow
      ones. The rule fires if one worker takes more than `ratio` times the median of the others, and the difference is
      at least `least_share` of the step.
    Why it matters: workers that train together all wait for the slowest, at every step.
    What to do: check that worker's machine (temperature, other programs, disk) and its share of the data: longer
      samples, a slower source.
    When it is wrong: if forward passes wait for each other too (broadcast buffers, pipelines, gathered shards of
      parameters), the compared time includes the waiting, and the fast worker may look slow.
    Tested on: two workers over gloo, one of which sleeps 30 ms in each step of 6 ms: found after 25 seconds.
    Source: Barograph's own; the effect is described in Dean & Barroso, "The Tail at Scale", 2013.
    """

    code: ClassVar[str] = "M110"
    name: ClassVar[str] = "straggler"
    severity: ClassVar[Severity] = Severity.DOUBTFUL

    ratio: float = parameter(1.5, "Multiple of the others' median time.", above=1.0)
    least_share: float = parameter(0.2, "Least difference, as a share of the step.", above=0.0, below=1.0)
    least_recorded: int = parameter(30, "Intervals needed from each worker.", at_least=1)
    patience: int = parameter(20, "Judged intervals in a row that must show the fault before a finding opens.",
                              at_least=1)
    recovery: int = parameter(20, "Judged intervals in a row without the fault before a finding closes.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (time_need("step", "backward"),)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        steps, backward = view.worker_scalars(STEP), view.worker_scalars(BACKWARD)
        for worker in steps.keys() & backward.keys():
            # Capture may run within the backward pass; then its time is subtracted twice.
            own = max(0.0, steps[worker] - backward[worker] - view.worker_scalars(CAPTURE).get(worker, 0.0))
            mine = memory.setdefault(worker, {"count": 0, "own": own, "step": steps[worker]})
            mine["count"] += 1
            mine["own"] += _SMOOTHING * (own - mine["own"])
            mine["step"] += _SMOOTHING * (steps[worker] - mine["step"])
        known = {name: mine for name, mine in memory.items() if mine["count"] >= self.least_recorded}
        if len(memory) < 2:
            yield Unjudged("needs several workers; this run recorded times of one")
            return
        if len(known) < len(memory):
            least = min(mine["count"] for mine in memory.values())
            yield Unjudged(f"needs {self.least_recorded} intervals of each worker; one has {least}")
            return
        slowest = max(known, key=lambda name: float(known[name]["own"]))
        others = median(float(mine["own"]) for name, mine in known.items() if name != slowest)
        own, step = float(known[slowest]["own"]), float(known[slowest]["step"])
        if own <= self.ratio * others or own - others < self.least_share * step:
            return
        text = f"{milliseconds(own)} per step outside the backward pass; the others take {milliseconds(others)}"
        yield Symptom(
            message=f"Worker {slowest} is slower than the others: {text}.",
            remedy=f"Check the machine of {slowest} (temperature, other programs, disk), and the loading time of its "
                   "share of the data.",
            evidence=(Evidence(STEP, view.step.number, "own_secs", own, self.ratio * others, text),),
            subject=slowest,
            causes=(Suspicion(Cause.SLOW_WORKER, 0.8, f"{slowest} takes {text}"),),
        )


_SMOOTHING = 0.1


@dataclass(frozen=True, kw_only=True)
class OverallFrameworkMetrics(Rule):
    """M114: Training spends much of its time waiting for data.

    What it sees: the breakdown of the step time: data, forward, backward, optimizer, Barograph, other. The rule fires
      if, over the last 200 intervals and at least `least_secs` of steps, training waited for data for more than
      `threshold` of the time and at least `least_wait_secs` per step: in very short steps, even the best loader takes a
      large share.
    Why it matters: training could run that much faster on the same machine.
    What to do: load data in more processes (`num_workers`, `persistent_workers=True`), preprocess it once instead of in
      every epoch, keep it in memory if it fits.
    When it is wrong: only PyTorch data loaders are timed. On a GPU, the forward and backward times cover only the
      launch of the work, so waiting for data may overlap with running work.
    Source: Amazon SageMaker Debugger's OverallFrameworkMetrics, a report without a threshold. `barograph show` prints
      all of its figures.
    """

    code: ClassVar[str] = "M114"
    name: ClassVar[str] = "overall-framework-metrics"
    severity: ClassVar[Severity] = Severity.NOTE

    threshold: float = parameter(0.3, "Share of time spent waiting for data.", above=0.0, below=1.0)
    least_wait_secs: float = parameter(0.01, "Least waiting time per step, in seconds.", at_least=0.0)
    least_secs: float = parameter(300.0, "Least time of steps, in seconds.", at_least=0.0)
    recovery: int = parameter(20, "Judged intervals in a row without the fault before a finding closes.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (time_need("step", "steps", "data"),)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        all_facts = _last_recorded(memory, view, (STEP, STEPS, DATA))
        if all_facts is None:
            yield Unjudged("no step times were recorded")
            return
        if memory["secs"] < self.least_secs:
            yield _too_early(memory, self.least_secs)
            return
        count = sum(steps for _, steps, _ in all_facts)
        secs = sum(step * steps for step, steps, _ in all_facts)
        waited = sum(data * steps for _, steps, data in all_facts)
        if not secs or waited / secs <= self.threshold or waited / count < self.least_wait_secs:
            return
        share = waited / secs
        text = f"{milliseconds(waited / count)} of {milliseconds(secs / count)} per step"
        yield Symptom(
            message=f"Training waits for data {percent(share)} of the time: {text}.",
            remedy="Load data in more processes: DataLoader(…, num_workers=4, persistent_workers=True), and more as "
                   "long as it helps and cores are free.",
            evidence=(Evidence(DATA, view.step.number, "share", share, self.threshold, text),
                      *_split(view.scalars(Kind.TIME), view.step.number)),
            causes=(Suspicion(Cause.SLOW_DATA_LOADING, 0.9, f"training waits for data {percent(share)} of the time"),),
        )


def _split(times: Mapping[Key, float], step: int) -> list[Evidence]:
    """Return the breakdown of the last step times, largest part first."""
    whole = times.get(STEP, 0.0)
    parts = {key: value for key, value in times.items() if key in (FORWARD, BACKWARD, OPTIMIZER, CAPTURE, OTHER)}
    ordered: list[Any] = sorted(parts.items(), key=lambda item: -item[1])
    return [Evidence(key, step, "secs", value, math.nan,
                     f"{key.path} {milliseconds(value)}, {percent(value / whole) if whole else '?'} of a step")
            for key, value in ordered]
