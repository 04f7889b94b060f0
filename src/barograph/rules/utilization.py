"""Rules about machine utilization. All but the last need a GPU: an idle CPU costs little."""

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
"""Share of a window from which the finding is costly."""
_IDLE_PERCENT = 10.0
_BINS = 10


@dataclass(frozen=True, kw_only=True)
class BatchSize(WindowedRule):
    """M101: The batch could be larger: CPU, GPU and GPU memory are underused.

    What it sees: per window, the 95th percentile of the utilization of the CPU, of each GPU in use, and of its memory.
      The rule fires if all are below their thresholds.
    Why it matters: a GPU takes about as long for a small batch as for one that fills it, so the rest of its time is
      wasted.
    What to do: double the batch size until GPU memory or utilization is near its limit; scale the learning rate with
      it.
    When it is wrong: a small batch on purpose, for better generalization or because there is little data; a network or
      disk bottleneck. A GPU counts as in use from 200 MiB of its memory.
    Source: Amazon SageMaker Debugger's BatchSize, whose `patience` is `skip` here.
    """

    code: ClassVar[str] = "M101"
    name: ClassVar[str] = "batch-size"
    severity: ClassVar[Severity] = Severity.NOTE

    cpu_threshold_p95: float = parameter(70.0, "95th percentile of CPU utilization, in percent.", above=0.0)
    gpu_threshold_p95: float = parameter(70.0, "95th percentile of GPU utilization, in percent.", above=0.0)
    gpu_memory_threshold_p95: float = parameter(70.0, "95th percentile of GPU memory use, in percent.",
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
            message=f"The machine{machine} is underused: in 95% of the samples the GPUs were at most "
                    f"{number(busy)}% busy and {number(full)}% full, the CPU {number(cpu)}% busy.",
            remedy=f"Make the batch {factor} times larger, which should still fit. Scale the learning rate with it.",
            evidence=(
                Evidence(machine_key(f"gpu[{gpu}]"), step, "p95", busy, self.gpu_threshold_p95, f"{number(busy)}%"),
                Evidence(machine_key(f"gpu_memory[{gpu}]"), step, "p95", full, self.gpu_memory_threshold_p95,
                         f"{number(full)}%"),
            ),
            causes=(Suspicion(Cause.MACHINE_UNDERUSED, 0.5, f"the GPUs are at most {number(busy)}% busy and "
                                                            f"{number(full)}% full"),),
        )


@dataclass(frozen=True, kw_only=True)
class _Bottleneck(WindowedRule):
    """A GPU that is idle while another resource is at its limit."""

    threshold: float = parameter(50.0, "Share of the samples that must show it, in percent.", above=0.0, at_most=100.0)
    gpu_threshold: float = parameter(10.0, "GPU utilization below which it is idle, in percent.", above=0.0)
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
    """M102: The GPU waits for the CPU.

    What it sees: samples in which a GPU in use is less than `gpu_threshold` busy while a CPU core is more than
      `cpu_threshold` busy. The rule fires if they exceed `threshold` percent of a window's samples, in two consecutive
      windows. From 90% of the samples the finding is costly.
    Why it matters: the GPU, the most expensive part, is idle while one core decodes, augments, tokenizes or just runs
      Python.
    What to do: use more DataLoader workers (`num_workers`, `persistent_workers=True`, `pin_memory=True`); preprocess
      data once and store it; move augmentation to the GPU; if Python between kernels is the limit, use larger batches,
      `torch.compile` or CUDA graphs.
    When it is wrong: intended phases without the GPU: an evaluation on the CPU, indexing, export. Another program may
      occupy the core.
    Source: Amazon SageMaker Debugger's CPUBottleneck, whose `patience` is `skip` here.
    """

    code: ClassVar[str] = "M102"
    name: ClassVar[str] = "cpu-bottleneck"
    severity: ClassVar[Severity] = Severity.DOUBTFUL

    cpu_threshold: float = parameter(90.0, "Core utilization above which it is at its limit, in percent.", above=0.0)

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
        text = (f"of the samples: GPU below {number(self.gpu_threshold)}%, "
                f"one core above {number(self.cpu_threshold)}%")
        return Symptom(
            message=f"The GPU waits for the CPU{machine} in {percent(share)} {text}.",
            remedy="Raise num_workers of the DataLoader, or do less work per batch. "
                   "`barograph show` shows whether the time goes into waiting for data.",
            evidence=(Evidence(machine_key(f"gpu[{kept['gpus'][0]}]"), step, "share", share, self.threshold / 100,
                               f"{percent(share)} {text}"),),
            causes=(Suspicion(Cause.SLOW_DATA_LOADING, 0.5, f"the GPU is idle in {percent(share)} of the samples "
                                                            "while a core is at its limit"),
                    Suspicion(Cause.MACHINE_UNDERUSED, 0.2, "the GPU is idle")),
            severity=Severity.COSTLY if share >= _WASTED else None,
        )


@dataclass(frozen=True, kw_only=True)
class IOBottleneck(_Bottleneck):
    """M103: The GPU waits for the disk or the network.

    What it sees: samples in which a GPU in use is less than `gpu_threshold` busy while the CPU spends more than
      `io_threshold` of its time waiting for I/O. The rule fires if they exceed `threshold` percent of a window's
      samples, in two consecutive windows. From 90% of the samples the finding is costly.
    Why it matters: the GPU, the most expensive part, is idle while data is read.
    What to do: copy the data to a local disk, read it sequentially in larger chunks, keep it in memory, or prefetch
      with more workers (`num_workers`, `prefetch_factor`).
    When it is wrong: only Linux reports I/O wait, and only for otherwise idle cores: on a machine with many cores the
      share stays small even if one process always waits. On other systems the rule is not evaluated.
    Source: Amazon SageMaker Debugger's IOBottleneck, whose `patience` is `skip` here.
    """

    code: ClassVar[str] = "M103"
    name: ClassVar[str] = "io-bottleneck"
    severity: ClassVar[Severity] = Severity.DOUBTFUL

    io_threshold: float = parameter(50.0, "Share of time in I/O wait above which I/O is the limit, in percent.",
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
        text = (f"of the samples: GPU below {number(self.gpu_threshold)}%, "
                f"I/O wait above {number(self.io_threshold)}%")
        return Symptom(
            message=f"The GPU waits for the disk or the network{machine} in {percent(share)} {text}.",
            remedy="Copy the data to a local disk or into memory, or raise num_workers and "
                   "prefetch_factor of the DataLoader.",
            evidence=(Evidence(machine_key("cpu_iowait"), step, "share", share, self.threshold / 100,
                               f"{percent(share)} {text}"),),
            causes=(Suspicion(Cause.SLOW_DATA_LOADING, 0.8, f"in {percent(share)} of the samples the GPU is idle "
                                                            "while the CPU waits for I/O"),),
            severity=Severity.COSTLY if share >= _WASTED else None,
        )


@dataclass(frozen=True, kw_only=True)
class LowGPUUtilization(WindowedRule):
    """M104: A GPU is underused, or used unevenly.

    What it sees: per window, the 5th and the 95th percentile of the utilization of each GPU in use. A GPU is underused
      if its 95th percentile is below `threshold_p95` in two consecutive windows; below 10% the finding is costly. It is
      used unevenly if the 5th percentile is below `threshold_p5` and the 95th above `threshold_p95`: this is only a
      note, because gaps between epochs look the same.
    Why it matters: the hour costs the same whether the GPU works or not.
    What to do: check the breakdown of the step time. If training waits for data, load it in more processes; if not, use
      a larger batch or a smaller GPU.
    When it is wrong: a GPU counts as busy while any kernel runs, however little of the GPU it uses, so silence does not
      mean good use. On a shared machine the work of others counts too; list your GPUs in CUDA_VISIBLE_DEVICES. A GPU
      counts as in use from 200 MiB of its memory.
    Source: Amazon SageMaker Debugger's LowGPUUtilization, whose `patience` is `skip` here.
    """

    code: ClassVar[str] = "M104"
    name: ClassVar[str] = "low-gpu-utilization"
    severity: ClassVar[Severity] = Severity.DOUBTFUL

    threshold_p95: float = parameter(70.0, "95th percentile below which a GPU is underused, in percent.", above=0.0)
    threshold_p5: float = parameter(10.0, "5th percentile below which it is idle at times, in percent.", above=0.0)
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
        what = f"at most {most}% busy" if low else f"{least}% busy at times, {most}% at others"
        return Symptom(
            message=f"{_gpus(list(found))}{machine} {'are' if len(found) > 1 else 'is'} "
                    f"{'underused' if low else 'used unevenly'}: GPU {worst} is {what}.",
            remedy="Check the breakdown of the step time (`barograph show`): if training waits for data, raise "
                   "num_workers of the DataLoader; if not, use a larger batch or a smaller GPU.",
            evidence=tuple(Evidence(machine_key(f"gpu[{gpu}]"), step, "p95", spans[gpu][1], self.threshold_p95,
                                    f"5th percentile {number(spans[gpu][0])}%, 95th {number(spans[gpu][1])}%")
                           for gpu in found),
            causes=(Suspicion(Cause.MACHINE_UNDERUSED, 0.5, f"GPU {worst} is {what}"),
                    Suspicion(Cause.SLOW_DATA_LOADING, 0.2, "an idle GPU usually waits for data")),
            severity=Severity.NOTE if not low else Severity.COSTLY if spans[worst][1] < _IDLE_PERCENT else None,
        )


@dataclass(frozen=True, kw_only=True)
class LoadBalancing(WindowedRule):
    """M106: The GPUs do not share the work equally.

    What it sees: per window, the distribution of each GPU's utilization in ten bins. The rule fires if the
      Jensen–Shannon distance between two GPUs exceeds `threshold` and their means differ by at least
      `least_difference`: 94% and 89% are different bins, but the same work.
    Why it matters: all GPUs wait for the slowest, and you pay for the waiting.
    What to do: give each worker the same amount of data; split a model by layers into parts that take the same time.
      One process per GPU (DistributedDataParallel) balances better than DataParallel, whose first GPU does more.
    When it is wrong: a GPU that waits inside a collective operation counts as busy, so the one with the least work may
      look busiest. On a shared machine the work of others counts too.
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
            message=f"The GPUs{machine} do not share the work equally: GPU {busy} is {number(means[busy])}% busy, "
                    f"GPU {idle} {number(means[idle])}% (distance {number(distance)}).",
            remedy="Give each worker the same work: equal batches, one process per GPU, pipeline stages of equal "
                   "duration.",
            evidence=tuple(Evidence(machine_key(f"gpu[{gpu}]"), step, "mean", means[gpu], math.nan,
                                    f"{number(means[gpu])}% busy") for gpu in (idle, busy)),
            causes=(Suspicion(Cause.MACHINE_UNDERUSED, 0.5, f"GPU {idle} does less than GPU {busy}"),
                    Suspicion(Cause.SLOW_WORKER, 0.2, "GPUs that differ wait for each other")),
        )


@dataclass(frozen=True, kw_only=True)
class OverallSystemUsage(WindowedRule):
    """M113: The machine's memory is nearly full.

    What it sees: the machine's memory per window. The rule fires if more than `memory_threshold` of it is in use in
      half of the samples, and then shows the percentiles of all machine figures.
    Why it matters: a machine without free memory swaps, which makes everything a hundred times slower, or kills the
      training without a message.
    What to do: use fewer or smaller DataLoader workers, turn `pin_memory` off, read data from disk instead of lists in
      memory, close other programs.
    When it is wrong: the file cache does not count as used, but shared memory counts for each program. In a container,
      the container's limit counts.
    Source: Amazon SageMaker Debugger's OverallSystemUsage, a report without a threshold. `barograph show` prints all of
      its figures.
    """

    code: ClassVar[str] = "M113"
    name: ClassVar[str] = "overall-system-usage"
    severity: ClassVar[Severity] = Severity.NOTE

    memory_threshold: float = parameter(97.0, "Share of the memory above which it counts as full, in percent.",
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
            message=f"The memory{machine} is nearly full: {number(median)}% in use.",
            remedy="Run fewer DataLoader workers, keep less data in memory, or use a machine with more memory.",
            evidence=tuple(
                Evidence(machine_key(name), step, "p50", quantile(counts, 0.5),
                         self.memory_threshold if name == "memory" else math.nan,
                         "percent; 5th, 50th and 95th percentile: " + ", ".join(
                             number(quantile(counts, share)) for share in (0.05, 0.5, 0.95)))
                for name, counts in kept.items()
            ),
            causes=(Suspicion(Cause.MEMORY_LEAK, 0.2, f"{number(median)}% of the memory is in use"),),
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
    """Return the Jensen–Shannon distance of two percentage histograms, in ten bins.

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
