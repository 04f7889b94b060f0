"""Rules about memory leaks: on a GPU, and in the training processes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

from barograph.model.cause import Cause, Suspicion
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Kind
from barograph.model.selection import Selection
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.rules.windows import GPU_NEED, IN_USE_BYTES, gpus_in, machine_key, samples_of
from barograph.rules.words import lapse, number
from barograph.runs.reading.view import StepView

_KEPT = 12
"""Windows to keep. At this many, pairs merge into one: a slow leak shows in longer windows."""
_COMPARED = 6
_MINUTE = 60.0


class Growth(NamedTuple):
    """Growth of a figure over the last windows.

    Attributes:
        before, now: Means of the first and the last window.
        secs: Time between the middles of these windows.
    """

    before: float
    now: float
    secs: float

    def secs_until(self, full: float) -> float:
        """Return the seconds until it reaches `full` at this rate."""
        return (full - self.now) * self.secs / (self.now - self.before)


def growth(memory: Memory, value: float, time_unix: float, *, window: int) -> Growth | Unjudged | None:
    """Add a value; return the growth over the last windows, or None if any of them did not grow.

    Args:
        memory: Stores the windows.
        value: The figure.
        time_unix: Time of the value.
        window: Values per window.

    Returns:
        `Unjudged` until a window ends and enough windows exist.
    """
    memory["sum"] = memory.get("sum", 0.0) + value
    memory["time"] = memory.get("time", 0.0) + time_unix
    memory["count"] = memory.get("count", 0) + 1
    if memory["count"] < window * memory.setdefault("stride", 1):
        return Unjudged("needs more samples of the memory in use")
    windows: list[list[float]] = memory.setdefault("windows", [])
    windows.append([memory["sum"] / memory["count"], memory["time"] / memory["count"]])
    memory.update(sum=0.0, time=0.0, count=0)
    last = windows[-_COMPARED:]
    if len(windows) >= _KEPT:
        windows[:] = [[(a + b) / 2 for a, b in zip(*windows[at : at + 2], strict=True)] for at in range(0, _KEPT, 2)]
        memory["stride"] *= 2
    if len(last) < _COMPARED:
        return Unjudged(f"needs {_COMPARED} windows of memory samples; this run has {len(last)}")
    if any(after[0] <= before[0] for before, after in pairwise(last)):
        return None
    return Growth(last[0][0], last[-1][0], last[-1][1] - last[0][1])


@dataclass(frozen=True, kw_only=True)
class _MemoryGrowth(Rule):
    """Memory that grows in each of six consecutive windows and will soon be full."""

    increase: float = parameter(5.0, "Least growth over six windows, in percent of all memory.", above=0.0)
    window: int = parameter(120, "Samples in the first windows: at two per second, a minute.", at_least=1)
    skip: int = parameter(240, "Samples to skip after the first step.", at_least=0)
    horizon_minutes: float = parameter(120.0, "Time within which the memory must be full at this rate.", above=0.0)
    recovery: int = parameter(1, "Judged windows in a row without the fault before a finding closes.", at_least=1)

    @abstractmethod
    def followed(self, figures: dict[str, float]) -> Iterator[tuple[str, float, float]]:
        """Yield the name, the memory in use and the total of each figure."""

    @abstractmethod
    def symptom(self, name: str, grown: Growth, full: float, minutes: float, step: int, worker: str) -> Symptom:
        """Return the finding."""

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        unjudged: Unjudged | None = Unjudged("no sample of the memory in use was recorded")
        for worker, figures in samples_of(view):
            for name, used, full in self.followed(figures):
                mine: dict[str, Any] = memory.setdefault(f"{worker} {name}", {"skipped": 0})
                if mine["skipped"] < self.skip:
                    mine["skipped"] += 1
                    unjudged = unjudged and Unjudged(f"needs more than {self.skip} samples of the memory in use")
                    continue
                found = growth(mine, used, view.step.time_unix, window=self.window)
                if isinstance(found, Unjudged):
                    unjudged = unjudged and found
                    continue
                mine["sick"] = None
                if found is not None and 100 * (found.now - found.before) > self.increase * full:
                    minutes = found.secs_until(full) / _MINUTE
                    if minutes <= self.horizon_minutes:
                        mine["sick"] = [name, *found, full, minutes, worker]
                unjudged = None
        if unjudged is not None:
            yield unjudged
            return
        for mine in memory.values():
            if mine.get("sick"):
                name, before, now, secs, full, minutes, worker = mine["sick"]
                yield self.symptom(name, Growth(before, now, secs), full, minutes, view.step.number, worker)


@dataclass(frozen=True, kw_only=True)
class GPUMemoryIncrease(_MemoryGrowth):
    """M105: GPU memory in use keeps growing.

    What it sees: the mean memory in use of each GPU, per window. The rule fires if it grew in each of the last six
      windows, by `increase` percent of the GPU's memory in total, and will be full within `horizon_minutes` at that
      rate. Windows grow longer with the run, so slow leaks are found too, but later.
    Why it matters: the training ends with "CUDA out of memory" after hours.
    What to do: look for tensors that keep their graph: a loss summed without `.item()`, outputs appended to a list
      without `.detach().cpu()`, hidden states carried from batch to batch.
    When it is wrong: PyTorch keeps memory that it has allocated, so use grows in jumps and then stays level: batches of
      growing length, a larger evaluation. These do not grow in each of six windows.
    Source: Amazon SageMaker Debugger's GPUMemoryIncrease, which compares two windows of 10 samples and therefore
      reports every jump as a leak.
    """

    code: ClassVar[str] = "M105"
    name: ClassVar[str] = "gpu-memory-increase"
    severity: ClassVar[Severity] = Severity.DOUBTFUL

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (GPU_NEED,)

    def followed(self, figures: dict[str, float]) -> Iterator[tuple[str, float, float]]:
        for gpu in gpus_in(figures):
            if figures.get(f"gpu_memory_bytes[{gpu}]", 0.0) >= IN_USE_BYTES:
                yield gpu, figures[f"gpu_memory[{gpu}]"], 100.0

    def symptom(self, name: str, grown: Growth, full: float, minutes: float, step: int, worker: str) -> Symptom:
        text = f"from {number(grown.before)}% to {number(grown.now)}% in {lapse(grown.secs)}"
        return Symptom(
            message=f"GPU {name} memory in use keeps growing: {text}. It will be full in about "
                    f"{lapse(minutes * _MINUTE)}.",
            remedy="Do not keep tensors with their graph across steps: sum loss.item() instead of loss, append "
                   "output.detach().cpu() instead of output.",
            evidence=(Evidence(machine_key(f"gpu_memory[{name}]"), step, "mean", grown.now,
                               grown.before + self.increase, text),),
            subject=f"{worker} GPU {name}",
            causes=(Suspicion(Cause.MEMORY_LEAK, 0.7, f"GPU {name} memory in use grew {text}"),),
        )


@dataclass(frozen=True, kw_only=True)
class HostMemoryLeak(_MemoryGrowth):
    """M111: The memory of the training process keeps growing.

    What it sees: the resident memory of the training process and its children, per window. The rule fires if it grew in
      each of the last six windows, by `increase` percent of the machine's memory in total, and the machine's memory
      will be full within `horizon_minutes` at that rate. Windows grow longer with the run.
    Why it matters: the system kills the process without a message, or swaps; everything since the last checkpoint is
      lost.
    What to do: look for objects kept across steps: losses and outputs appended to a list, figures and images never
      closed, a growing cache. With DataLoader workers: Python lists in the data set are gradually copied into every
      worker; keep the data in NumPy arrays or tensors.
    When it is wrong: a data set that is read into memory during the first pass grows until the pass ends. Of several
      workers on one machine, the rule checks the one that records the machine.
    Source: PyTorch's issue tracker, "DataLoader num_workers > 0 causes CPU memory from parent process to be replicated
      in all worker processes".
    """

    code: ClassVar[str] = "M111"
    name: ClassVar[str] = "host-memory-leak"
    severity: ClassVar[Severity] = Severity.DOUBTFUL

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (Selection(kinds=frozenset({Kind.MACHINE}), include=("process_memory", "memory*")),)

    def followed(self, figures: dict[str, float]) -> Iterator[tuple[str, float, float]]:
        if "process_memory" in figures and "memory_total" in figures:
            # Memory of other processes is not available to this one.
            others = max(0.0, figures.get("memory", 0.0) - figures["process_memory"])
            yield "process_memory", figures["process_memory"], figures["memory_total"] - others

    def symptom(self, name: str, grown: Growth, full: float, minutes: float, step: int, worker: str) -> Symptom:
        text = f"from {_gibibytes(grown.before)} to {_gibibytes(grown.now)} in {lapse(grown.secs)}"
        return Symptom(
            message=f"Memory of the training process ({worker}) keeps growing: {text}. The machine's memory will be "
                    f"full in about {lapse(minutes * _MINUTE)}.",
            remedy="Sum loss.item() instead of loss, and close figures; with DataLoader workers, keep the data set in "
                   "arrays instead of Python lists.",
            evidence=(Evidence(machine_key(name), step, "mean", grown.now, grown.before + self.increase / 100 * full,
                               text),),
            subject=worker,
            causes=(Suspicion(Cause.MEMORY_LEAK, 0.8, f"the resident memory of {worker} grew {text}"),),
        )


def _gibibytes(size_bytes: float) -> str:
    return f"{number(size_bytes / 2**30)} GiB"
