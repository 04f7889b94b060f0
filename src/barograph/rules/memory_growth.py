"""Rules about memory that grows without end: of a GPU, and of the processes that train."""

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
from barograph.rules.words import number
from barograph.runs.reading.view import StepView

_KEPT = 12
"""Windows that are kept. When there are as many, two become one: a slow leak shows in longer windows."""
_COMPARED = 6
_MINUTE = 60.0


class Growth(NamedTuple):
    """How something grew over the last windows, in each of them.

    Attributes:
        before, now: Means of the first and the last of these windows.
        secs: Between their middles.
    """

    before: float
    now: float
    secs: float

    def secs_until(self, full: float) -> float:
        """Return when it will have grown to `full`, if it goes on like this."""
        return (full - self.now) * self.secs / (self.now - self.before)


def growth(memory: Memory, value: float, time_unix: float, *, window: int) -> Growth | Unjudged | None:
    """Take a value in; return the growth that the last windows show, None where they show none in each.

    Args:
        memory: Where the windows are kept.
        value: What is followed.
        time_unix: When it was so.
        window: Values in a window.

    Returns:
        `Unjudged` while no window ends, and until there are enough.
    """
    memory["sum"] = memory.get("sum", 0.0) + value
    memory["time"] = memory.get("time", 0.0) + time_unix
    memory["count"] = memory.get("count", 0) + 1
    if memory["count"] < window * memory.setdefault("stride", 1):
        return Unjudged("not enough samples of the memory in use had come")
    windows: list[list[float]] = memory.setdefault("windows", [])
    windows.append([memory["sum"] / memory["count"], memory["time"] / memory["count"]])
    memory.update(sum=0.0, time=0.0, count=0)
    last = windows[-_COMPARED:]
    if len(windows) >= _KEPT:
        windows[:] = [[(a + b) / 2 for a, b in zip(*windows[at : at + 2], strict=True)] for at in range(0, _KEPT, 2)]
        memory["stride"] *= 2
    if len(last) < _COMPARED:
        return Unjudged(f"{len(last)} windows so far; it compares {_COMPARED}")
    if any(after[0] <= before[0] for before, after in pairwise(last)):
        return None
    return Growth(last[0][0], last[-1][0], last[-1][1] - last[0][1])


@dataclass(frozen=True, kw_only=True)
class _MemoryGrowth(Rule):
    """Memory that grows in each of six windows in a row, and will be full before long."""

    increase: float = parameter(5.0, "Least growth over six windows, in percent of the memory.", above=0.0)
    window: int = parameter(120, "Samples in a window, at first: at the usual two a second, a minute.", at_least=1)
    skip: int = parameter(240, "Samples after the first step that are passed over.", at_least=0)
    horizon_minutes: float = parameter(120.0, "So soon the memory must be full, at the rate seen.", above=0.0)
    recovery: int = parameter(1, "Judged windows in a row without the fault before a finding closes.", at_least=1)

    @abstractmethod
    def followed(self, figures: dict[str, float]) -> Iterator[tuple[str, float, float]]:
        """Yield what is followed: the name of the figure, what is in use, and how much there is."""

    @abstractmethod
    def symptom(self, name: str, grown: Growth, full: float, minutes: float, step: int, worker: str) -> Symptom:
        """Return the finding."""

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        unjudged: Unjudged | None = Unjudged("no memory that it follows was told of")
        for worker, figures in samples_of(view):
            for name, used, full in self.followed(figures):
                mine: dict[str, Any] = memory.setdefault(f"{worker} {name}", {"skipped": 0})
                if mine["skipped"] < self.skip:
                    mine["skipped"] += 1
                    unjudged = unjudged and Unjudged(f"the first {self.skip} samples are passed over")
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
    """M105: The memory in use of a GPU grows and grows.

    What it sees: the mean memory in use of each GPU, window by window. It grows in each of the last six windows, by
      `increase` percent of the GPU's memory in all, and at that rate it is full within `horizon_minutes`. The windows
      grow longer with the run, so a slow leak is seen, too, only later.
    Why it matters: the training ends with "CUDA out of memory", hours after it began.
    What to do: look for tensors that are kept with their graph: a loss that is added up without `.item()`, outputs
      that are appended to a list without `.detach().cpu()`, hidden states that are carried over from batch to batch.
    When it is wrong: torch keeps memory that it has once taken, so use grows in jumps and then rests: batches of
      growing length, a larger evaluation. Those do not grow in each of six windows.
    Source: Amazon SageMaker Debugger's GPUMemoryIncrease, which compares two windows of 10 samples, and so takes every
      jump for a leak.
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
        text = f"from {number(grown.before)} to {number(grown.now)} % in {number(grown.secs / _MINUTE)} minutes"
        return Symptom(
            message=f"The memory in use of GPU {name} grows and grows: {text}; it will be full in about "
                    f"{number(minutes)} minutes.",
            remedy="Keep no tensor with its graph from step to step: add up loss.item() and not loss, append "
                   "output.detach().cpu() and not output.",
            evidence=(Evidence(machine_key(f"gpu_memory[{name}]"), step, "mean", grown.now,
                               grown.before + self.increase, text),),
            subject=f"{worker} GPU {name}",
            causes=(Suspicion(Cause.MEMORY_LEAK, 0.7, f"the memory in use of GPU {name} grew {text}"),),
        )


@dataclass(frozen=True, kw_only=True)
class HostMemoryLeak(_MemoryGrowth):
    """M111: The memory of the training process grows and grows.

    What it sees: the resident memory of the training process and its children, window by window. It grows in each of
      the last six windows, by `increase` percent of the machine's memory in all, and at that rate the machine's
      memory is full within `horizon_minutes`. The windows grow longer with the run.
    Why it matters: the system ends the process without a word, or swaps; everything since the last checkpoint is lost.
    What to do: look for what is kept from step to step: losses and outputs that are appended to a list, figures and
      images that are never closed, a growing cache. With DataLoader workers: Python lists of the data set are copied,
      bit by bit, into every worker; keep the data in NumPy arrays or tensors.
    When it is wrong: a data set that is read into memory on the first pass grows until that has ended. Of several
      workers on one machine the one that tells of the machine is judged.
    Source: the DataLoader's growth is described in PyTorch's tracker, "DataLoader num_workers > 0 causes CPU memory
      from parent process to be replicated in all worker processes".
    """

    code: ClassVar[str] = "M111"
    name: ClassVar[str] = "host-memory-leak"
    severity: ClassVar[Severity] = Severity.DOUBTFUL

    @property
    def needs(self) -> tuple[Selection, ...]:
        return (Selection(kinds=frozenset({Kind.MACHINE}), include=("process_memory", "memory*")),)

    def followed(self, figures: dict[str, float]) -> Iterator[tuple[str, float, float]]:
        if "process_memory" in figures and "memory_total" in figures:
            # What others have taken is not there for this process.
            others = max(0.0, figures.get("memory", 0.0) - figures["process_memory"])
            yield "process_memory", figures["process_memory"], figures["memory_total"] - others

    def symptom(self, name: str, grown: Growth, full: float, minutes: float, step: int, worker: str) -> Symptom:
        text = f"from {_gibibytes(grown.before)} to {_gibibytes(grown.now)} in {number(grown.secs / _MINUTE)} minutes"
        return Symptom(
            message=f"The memory of the training process ({worker}) grows and grows: {text}; the machine's will be "
                    f"full in about {number(minutes)} minutes.",
            remedy="Keep nothing from step to step that grows: add up loss.item() and not loss, close figures; with "
                   "DataLoader workers keep the data set in arrays and not in Python lists.",
            evidence=(Evidence(machine_key(name), step, "mean", grown.now, grown.before + self.increase / 100 * full,
                               text),),
            subject=worker,
            causes=(Suspicion(Cause.MEMORY_LEAK, 0.8, f"the resident memory of {worker} grew {text}"),),
        )


def _gibibytes(size_bytes: float) -> str:
    return f"{number(size_bytes / 2**30)} GiB"
