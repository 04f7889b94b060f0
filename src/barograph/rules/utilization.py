"""Rules about how much of the machine is used. All but the last need a GPU: an idle CPU costs next to nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from barograph.model.cause import Cause, Suspicion
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Kind
from barograph.model.selection import Selection
from barograph.rules.base import parameter
from barograph.rules.windows import (
    GPU_NEED,
    Tally,
    WindowedRule,
    count_percent,
    machine_key,
    quantile,
    tally_gpus,
)
from barograph.rules.words import number, percent

_MACHINE = frozenset({Kind.MACHINE})
_CPU_NEED = Selection(kinds=_MACHINE, include=("cpu_busiest",))
_WASTED = 0.9
"""Share of a window from which on money is plainly wasted."""
_IDLE_PERCENT = 10.0
_BINS = 10


@dataclass(frozen=True, kw_only=True)
class BatchSize(WindowedRule):
    """M101: The batch could be larger: neither the processor nor the GPU nor its memory is used to the full.

    What it sees: over each window the 95th percentile of the use of the processor, of each GPU that is in use, and of
      the memory of each. All of them lie below their thresholds.
    Why it matters: a GPU works on a small batch about as long as on one that fills it, so the rest is paid for in vain.
    What to do: double the batch until the GPU's memory or its use is near its limit; scale the learning rate with it.
    When it is wrong: the batch is small on purpose, because it generalises better or because the data are few; what
      is waited for is the network or the disk. A GPU counts as in use from 200 MiB of its memory on.
    Source: Amazon SageMaker Debugger's BatchSize, whose `patience` is `skip` here.
    """

    code: ClassVar[str] = "M101"
    name: ClassVar[str] = "batch-size"
    severity: ClassVar[Severity] = Severity.NOTE

    cpu_threshold_p95: float = parameter(70.0, "95th percentile of the processor's use, in percent.", above=0.0)
    gpu_threshold_p95: float = parameter(70.0, "95th percentile of a GPU's use, in percent.", above=0.0)
    gpu_memory_threshold_p95: float = parameter(70.0, "95th percentile of the use of its memory, in percent.",
                                                above=0.0)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (GPU_NEED,)

    def tally(self, kept: Tally, figures: dict[str, float]) -> bool:
        if "cpu" not in figures or not tally_gpus(kept, figures, memory=True):
            return False
        kept["cpu"] = count_percent(kept.get("cpu"), figures["cpu"])
        return True

    def symptom(self, kept: Tally, step: int, machine: str) -> Symptom | None:
        cpu = quantile(kept["cpu"], 0.95)
        busy = max(quantile(counts, 0.95) for counts in kept["busy"].values())
        full = max(quantile(counts, 0.95) for counts in kept["full"].values())
        limits = (self.cpu_threshold_p95, self.gpu_threshold_p95, self.gpu_memory_threshold_p95)
        if any(value >= limit for value, limit in zip((cpu, busy, full), limits, strict=True)):
            return None
        gpu = next(iter(kept["busy"]))
        factor = 2 ** max(1, math.floor(math.log2(90 / max(full, 1.0))))
        return Symptom(
            message=f"The machine{machine} could do more at once: in 95 % of the samples the GPUs were at most "
                    f"{number(busy)} % busy and {number(full)} % full, the processor {number(cpu)} % busy.",
            remedy=f"Make the batch larger: {factor} times as large should still fit. Scale the learning rate with it.",
            evidence=(
                Evidence(machine_key(f"gpu[{gpu}]"), step, "p95", busy, self.gpu_threshold_p95, f"{number(busy)} %"),
                Evidence(machine_key(f"gpu_memory[{gpu}]"), step, "p95", full, self.gpu_memory_threshold_p95,
                         f"{number(full)} %"),
            ),
            causes=(Suspicion(Cause.MACHINE_UNDERUSED, 0.5, f"the GPUs are at most {number(busy)} % busy and "
                                                            f"{number(full)} % full"),),
        )


@dataclass(frozen=True, kw_only=True)
class _Bottleneck(WindowedRule):
    """A GPU that stands still while something else is at its limit."""

    threshold: float = parameter(50.0, "Share of the samples that must show it, in percent.", above=0.0, at_most=100.0)
    gpu_threshold: float = parameter(10.0, "Use of a GPU below which it stands still, in percent.", above=0.0)
    patience: int = parameter(2, "Windows in a row that must show the fault before a finding opens.", at_least=1)

    def _count(self, kept: Tally, figures: dict[str, float], *, is_limit: bool) -> bool:
        gpus = tally_gpus({}, figures)
        if not gpus:
            return False
        waits = min(figures[f"gpu[{gpu}]"] for gpu in gpus) < self.gpu_threshold
        kept["gpus"] = gpus
        kept["all"] = kept.get("all", 0) + 1
        kept["both"] = kept.get("both", 0) + (waits and is_limit)
        return True

    def _share(self, kept: Tally) -> float | None:
        share = kept["both"] / kept["all"]
        return share if 100 * share > self.threshold else None


@dataclass(frozen=True, kw_only=True)
class CPUBottleneck(_Bottleneck):
    """M102: The GPU waits for the processor.

    What it sees: samples in which a GPU that is in use is less than `gpu_threshold` busy while a core is more than
      `cpu_threshold` busy. More than `threshold` percent of a window's samples, in two windows in a row, are such.
      Where nine tenths are, money is plainly wasted, and it is called costly.
    Why it matters: the GPU, which costs most, stands still while one core decodes, augments, tokenises or merely runs
      Python.
    What to do: give the DataLoader more workers (`num_workers`, `persistent_workers=True`, `pin_memory=True`);
      prepare data once and store them; move augmentation to the GPU; use larger batches, `torch.compile` or CUDA
      graphs where it is the Python between kernels.
    When it is wrong: phases without the GPU that are meant to be: an evaluation on the processor, indexing, export. A
      core may be busy with something else than the training.
    Source: Amazon SageMaker Debugger's CPUBottleneck, whose `patience` is `skip` here.
    """

    code: ClassVar[str] = "M102"
    name: ClassVar[str] = "cpu-bottleneck"
    severity: ClassVar[Severity] = Severity.DOUBTFUL

    cpu_threshold: float = parameter(90.0, "Use of a core above which it is at its limit, in percent.", above=0.0)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (GPU_NEED, _CPU_NEED)

    def tally(self, kept: Tally, figures: dict[str, float]) -> bool:
        busiest = figures.get("cpu_busiest")
        return busiest is not None and self._count(kept, figures, is_limit=busiest > self.cpu_threshold)

    def symptom(self, kept: Tally, step: int, machine: str) -> Symptom | None:
        share = self._share(kept)
        if share is None:
            return None
        text = (f"of the samples: a GPU below {number(self.gpu_threshold)} %, "
                f"a core above {number(self.cpu_threshold)} %")
        return Symptom(
            message=f"The GPU waits for the processor{machine}: in {percent(share)} {text}.",
            remedy="Let more processes prepare the data (num_workers of the DataLoader), or have less done for each "
                   "batch: `barograph show` says whether the time goes into waiting for data or elsewhere.",
            evidence=(Evidence(machine_key(f"gpu[{kept['gpus'][0]}]"), step, "share", share, self.threshold / 100,
                               f"{percent(share)} {text}"),),
            causes=(Suspicion(Cause.SLOW_DATA_LOADING, 0.5, f"the GPU stands still in {percent(share)} of the samples "
                                                            "while a core is at its limit"),
                    Suspicion(Cause.MACHINE_UNDERUSED, 0.2, "the GPU stands still")),
            severity=Severity.COSTLY if share >= _WASTED else None,
        )


@dataclass(frozen=True, kw_only=True)
class IOBottleneck(_Bottleneck):
    """M103: The GPU waits for the disk or the network.

    What it sees: samples in which a GPU that is in use is less than `gpu_threshold` busy while the processor spends
      more than `io_threshold` of its time waiting for input and output. More than `threshold` percent of a window's
      samples, in two windows in a row, are such. Where nine tenths are, it is called costly.
    Why it matters: the GPU, which costs most, stands still while data are read.
    What to do: copy the data to a local disk, read them in larger pieces and in order, keep them in memory, or read
      ahead with more workers (`num_workers`, `prefetch_factor`).
    When it is wrong: waiting is told by Linux alone, and only of cores that have nothing else to do: on a machine of
      many cores the share stays small though one process waits all the time. Elsewhere the rule is not evaluated.
    Source: Amazon SageMaker Debugger's IOBottleneck, whose `patience` is `skip` here.
    """

    code: ClassVar[str] = "M103"
    name: ClassVar[str] = "io-bottleneck"
    severity: ClassVar[Severity] = Severity.DOUBTFUL

    io_threshold: float = parameter(50.0, "Share of time spent waiting above which it is the limit, in percent.",
                                    above=0.0)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (GPU_NEED, Selection(kinds=_MACHINE, include=("cpu_iowait",)))

    def tally(self, kept: Tally, figures: dict[str, float]) -> bool:
        waiting = figures.get("cpu_iowait")
        return waiting is not None and self._count(kept, figures, is_limit=waiting > self.io_threshold)

    def symptom(self, kept: Tally, step: int, machine: str) -> Symptom | None:
        share = self._share(kept)
        if share is None:
            return None
        text = (f"of the samples: a GPU below {number(self.gpu_threshold)} %, "
                f"I/O wait above {number(self.io_threshold)} %")
        return Symptom(
            message=f"The GPU waits for the disk or the network{machine}: in {percent(share)} {text}.",
            remedy="Copy the data to a local disk or into memory, or read ahead with more workers (num_workers and "
                   "prefetch_factor of the DataLoader).",
            evidence=(Evidence(machine_key("cpu_iowait"), step, "share", share, self.threshold / 100,
                               f"{percent(share)} {text}"),),
            causes=(Suspicion(Cause.SLOW_DATA_LOADING, 0.8, f"in {percent(share)} of the samples the GPU stands still "
                                                            "while the processor waits for input and output"),),
            severity=Severity.COSTLY if share >= _WASTED else None,
        )


@dataclass(frozen=True, kw_only=True)
class LowGPUUtilization(WindowedRule):
    """M104: A GPU is little used, or by fits and starts.

    What it sees: over each window the 5th and the 95th percentile of how busy each GPU in use is. It is little used
      where the 95th lies below `threshold_p95`, in two windows in a row; where it lies below 10 %, the GPU hardly works
      at all, and it is called costly. It works by fits and starts where the 5th lies below `threshold_p5` and the
      95th above `threshold_p95`: worth a note, since the gaps between epochs look so, too.
    Why it matters: the hour costs the same whether the GPU works or not.
    What to do: look at where the time of a step goes; if it is waiting for data, load them with more processes; if
      not, make the batch larger, or take a smaller GPU.
    When it is wrong: a GPU counts as busy as long as anything runs on it, however little of it is used: silence here
      does not mean that it is used well. Of a machine that is shared, the work of others counts as well; name your
      GPUs in CUDA_VISIBLE_DEVICES. A GPU counts as in use from 200 MiB of its memory on.
    Source: Amazon SageMaker Debugger's LowGPUUtilization, whose `patience` is `skip` here.
    """

    code: ClassVar[str] = "M104"
    name: ClassVar[str] = "low-gpu-utilization"
    severity: ClassVar[Severity] = Severity.DOUBTFUL

    threshold_p95: float = parameter(70.0, "95th percentile below which a GPU is little used, in percent.", above=0.0)
    threshold_p5: float = parameter(10.0, "5th percentile below which it stands still at times, in percent.", above=0.0)
    patience: int = parameter(2, "Windows in a row that must show the fault before a finding opens.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (GPU_NEED,)

    def tally(self, kept: Tally, figures: dict[str, float]) -> bool:
        return bool(tally_gpus(kept, figures))

    def symptom(self, kept: Tally, step: int, machine: str) -> Symptom | None:
        spans = {gpu: (quantile(counts, 0.05), quantile(counts, 0.95)) for gpu, counts in kept["busy"].items()}
        low = {gpu: span for gpu, span in spans.items() if span[1] < self.threshold_p95}
        uneven = {gpu: span for gpu, span in spans.items()
                  if span[0] < self.threshold_p5 and span[1] >= self.threshold_p95}
        if not (low or uneven):
            return None
        found = low or uneven
        worst = min(found, key=lambda gpu: found[gpu][1])
        least, most = (number(share) for share in spans[worst])
        what = f"at most {most} % busy" if low else f"{least} % busy at times, {most} % at others"
        return Symptom(
            message=f"{_gpus(list(found))}{machine} {'are' if len(found) > 1 else 'is'} "
                    f"{'little used' if low else 'used by fits and starts'}: GPU {worst} is {what}.",
            remedy="See where the time of a step goes (`barograph show`): if it is waiting for data, raise num_workers "
                   "of the DataLoader; if not, make the batch larger, or take a smaller GPU.",
            evidence=tuple(Evidence(machine_key(f"gpu[{gpu}]"), step, "p95", spans[gpu][1], self.threshold_p95,
                                    f"5th percentile {number(spans[gpu][0])} %, 95th {number(spans[gpu][1])} %")
                           for gpu in found),
            causes=(Suspicion(Cause.MACHINE_UNDERUSED, 0.5, f"GPU {worst} is {what}"),
                    Suspicion(Cause.SLOW_DATA_LOADING, 0.2, "a GPU that stands still mostly waits for data")),
            severity=Severity.NOTE if not low else Severity.COSTLY if spans[worst][1] < _IDLE_PERCENT else None,
        )


@dataclass(frozen=True, kw_only=True)
class LoadBalancing(WindowedRule):
    """M106: The GPUs do not share the work alike.

    What it sees: over each window how often each GPU in use was how busy, in ten bins. The work is not shared where
      the Jensen–Shannon distance between two of them is more than `threshold` and their means lie at least
      `least_difference` apart: 94 % and 89 % are different bins, and no different work.
    Why it matters: what the slowest GPU takes, all take; the others are paid for waiting.
    What to do: give each worker as much data; with models split by layers, cut where both halves take as long. One
      process for each GPU (DistributedDataParallel) shares better than DataParallel, whose first GPU does more.
    When it is wrong: a GPU that waits for others inside a collective operation counts as busy, so the one with the
      least work may look like the busiest. Of a machine that is shared, the work of others counts as well.
    Source: Amazon SageMaker Debugger's LoadBalancing; Lin, "Divergence measures based on the Shannon entropy", 1991.
    """

    code: ClassVar[str] = "M106"
    name: ClassVar[str] = "load-balancing"
    severity: ClassVar[Severity] = Severity.DOUBTFUL

    threshold: float = parameter(0.5, "Jensen–Shannon distance (base 2) of two GPUs.", above=0.0, at_most=1.0)
    least_difference: float = parameter(20.0, "Difference of their means, in percent.", at_least=0.0)
    patience: int = parameter(2, "Windows in a row that must show the fault before a finding opens.", at_least=1)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (GPU_NEED,)

    def tally(self, kept: Tally, figures: dict[str, float]) -> bool:
        return len(tally_gpus(kept, figures)) > 1

    def symptom(self, kept: Tally, step: int, machine: str) -> Symptom | None:
        distance, first, second = max(_distances(kept["busy"]), default=(0.0, "", ""))
        if not first:
            return None
        means = {gpu: _mean(kept["busy"][gpu]) for gpu in (first, second)}
        if distance <= self.threshold or abs(means[first] - means[second]) < self.least_difference:
            return None
        idle, busy = sorted((first, second), key=means.__getitem__)
        return Symptom(
            message=f"The GPUs{machine} do not share the work: GPU {busy} is {number(means[busy])} % busy, GPU {idle} "
                    f"{number(means[idle])} % (distance {number(distance)}).",
            remedy="Give each worker as much to do: batches of one size, one process a GPU, stages of a pipeline that "
                   "take as long as each other.",
            evidence=tuple(Evidence(machine_key(f"gpu[{gpu}]"), step, "mean", means[gpu], math.nan,
                                    f"{number(means[gpu])} % busy") for gpu in (idle, busy)),
            causes=(Suspicion(Cause.MACHINE_UNDERUSED, 0.5, f"GPU {idle} does less than GPU {busy}"),
                    Suspicion(Cause.SLOW_WORKER, 0.2, "GPUs that differ wait for each other")),
        )


@dataclass(frozen=True, kw_only=True)
class OverallSystemUsage(WindowedRule):
    """M113: The machine's memory is as good as full.

    What it sees: over each window the percentiles of every figure of the machine, which it shows when there is
      something to say: in half of the samples more than `memory_threshold` of the memory is in use.
    Why it matters: a machine without memory swaps, which makes everything a hundred times slower, or kills the
      training without a word.
    What to do: fewer or leaner DataLoader workers, `pin_memory` off, data that are read from the disk in place of
      lists in memory, fewer other programs.
    When it is wrong: what the system keeps of files does not count as used, but what programs share counts for each.
      Inside a container its own limit is what counts.
    Source: Amazon SageMaker Debugger's OverallSystemUsage, a report without a threshold; all its figures are in the
      run, and `barograph show` tells them.
    """

    code: ClassVar[str] = "M113"
    name: ClassVar[str] = "overall-system-usage"
    severity: ClassVar[Severity] = Severity.NOTE

    memory_threshold: float = parameter(97.0, "Share of the memory above which it is as good as full, in percent.",
                                        above=0.0, at_most=100.0)

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (Selection(kinds=_MACHINE, include=("memory", "memory_total")),)

    def tally(self, kept: Tally, figures: dict[str, float]) -> bool:
        if not figures.get("memory_total"):
            return False
        kept["memory"] = count_percent(kept.get("memory"), 100 * figures["memory"] / figures["memory_total"])
        for name, value in figures.items():
            if name in ("cpu", "cpu_iowait") or name.startswith(("gpu[", "gpu_memory[")):
                kept[name] = count_percent(kept.get(name), value)
        return True

    def symptom(self, kept: Tally, step: int, machine: str) -> Symptom | None:
        median = quantile(kept["memory"], 0.5)
        if median <= self.memory_threshold:
            return None
        return Symptom(
            message=f"The memory{machine} is as good as full: {number(median)} % in use.",
            remedy="Run fewer DataLoader workers, keep less in memory, or take a machine with more.",
            evidence=tuple(
                Evidence(machine_key(name), step, "p50", quantile(counts, 0.5),
                         self.memory_threshold if name == "memory" else math.nan,
                         "percent; 5th, 50th and 95th percentile: " + ", ".join(
                             number(quantile(counts, share)) for share in (0.05, 0.5, 0.95)))
                for name, counts in kept.items()
            ),
            causes=(Suspicion(Cause.MEMORY_LEAK, 0.2, f"{number(median)} % of the memory is in use"),),
        )


def _gpus(names: list[str]) -> str:
    return f"GPU {names[0]}" if len(names) == 1 else f"GPUs {', '.join(names)}"


def _mean(counts: list[int]) -> float:
    return sum(percent * count for percent, count in enumerate(counts)) / sum(counts)


def _distances(busy: Mapping[str, list[int]]) -> Iterator[tuple[float, str, str]]:
    names = list(busy)
    for index, first in enumerate(names):
        for second in names[index + 1 :]:
            yield jensen_shannon(busy[first], busy[second]), first, second


def jensen_shannon(first: list[int], second: list[int]) -> float:
    """Return the Jensen–Shannon distance of two histograms of percents, taken in ten bins.

    Example:
        >>> one, other = [0] * 101, [0] * 101
        >>> one[95], other[5] = 10, 20
        >>> jensen_shannon(one, one), jensen_shannon(one, other)
        (0.0, 1.0)
    """
    parts = [_in_bins(first), _in_bins(second)]
    middle = [(a + b) / 2 for a, b in zip(*parts, strict=True)]
    divergence = sum(
        p * math.log2(p / m) / 2 for part in parts for p, m in zip(part, middle, strict=True) if p > 0
    )
    return math.sqrt(max(0.0, divergence))


def _in_bins(counts: list[int]) -> list[float]:
    bins = [0.0] * _BINS
    for value, count in enumerate(counts):
        bins[min(_BINS - 1, value * _BINS // 100)] += count / sum(counts)
    return bins
