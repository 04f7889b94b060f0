"""Instances on this machine: process groups in directories of their own."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from barograph.errors import JobError, StoreError
from barograph.jobs.data.mounts import mounts, unmount
from barograph.jobs.engines.engine import (
    ASKED,
    CPUS_VARIABLE,
    INSTANCE_VARIABLE,
    NETWORK_VARIABLE,
    Handle,
    Order,
    is_elsewhere,
    is_left_elsewhere,
)
from barograph.jobs.home import JobsHome
from barograph.jobs.isolation import clean_up, has_own_network, held_network, limits_here, limits_problem
from barograph.jobs.spec import JobSpec
from barograph.machine.gpus import names_of_gpus
from barograph.machine.host import cpus_to_use, memory_bytes
from barograph.machine.marked import kill_marked, kill_unmarked_below, marked_processes, program_of
from barograph.processes.command import own_module
from barograph.processes.local_process import LocalProcess
from barograph.processes.process import ended_reason
from barograph.runs.state.process import Process, is_alive, process_now
from barograph.store.whole_file import write_whole
from barograph.watch.figures import count, size

_AGENT = "barograph.jobs.agent"
_GPUS_VARIABLE = "CUDA_VISIBLE_DEVICES"
_NOT_CHOSEN = -1
"""Place of a CPU or GPU of an instance that another controller did not start."""
_SAID_CHARS = 300


@dataclass(slots=True)
class _Reserved:
    cpus: float
    memory_bytes: int
    gpus: list[int] = field(default_factory=list)
    cpu_set: list[int] = field(default_factory=list)


class LocalEngine:
    """Instances on this machine.

    Args:
        home: Its directory contains those of the instances.
        cores: CPUs to share; None: those of this machine, or of the container's quota.
        memory: Memory to share in bytes; None: that of this machine.
        gpus: Number of GPUs to share; None: those of this machine.
    """

    def __init__(
        self, home: JobsHome, *, cores: float | None = None, memory: int | None = None, gpus: int | None = None
    ) -> None:
        self._home = home
        self._cores = cores or cpus_to_use()
        self._memory_bytes = memory or memory_bytes()
        self._given_gpus = gpus
        self._reserved: dict[str, _Reserved] = {}
        self._processes: dict[int, LocalProcess] = {}

    @functools.cached_property
    def _gpus(self) -> int:
        """Number of GPUs to share; asked for by the first job that wants one."""
        return len(names_of_gpus()) if self._given_gpus is None else self._given_gpus

    def problems(self, spec: JobSpec, url: str = "") -> list[str]:
        """See `Engine.problems`."""
        found = []
        if spec.instances * spec.cpus > self._cores:
            found.append(f"The job needs {spec.instances * spec.cpus:g} CPUs; this machine has {self._cores:g}. Lower "
                         f"{_lower(spec, '--cpus')}.")
        if spec.instances * spec.memory_bytes > self._memory_bytes:
            found.append(f"The job needs {size(spec.instances * spec.memory_bytes)} of memory; this machine has "
                         f"{size(self._memory_bytes)}. Lower {_lower(spec, '--memory')}.")
        if spec.instances * spec.gpus > self._gpus:
            found.append(f"The job needs {count(spec.instances * spec.gpus, 'GPU')}; this machine has "
                         f"{self._gpus or 'none'}. Lower {_lower(spec, '--gpus')}.")
        if spec.no_network and (problem := limits_problem(limits_here(), no_network=True)):
            found.append(problem)
        if spec.cluster:
            found.append("A cluster file needs --engine ray.")
        return found

    def prepare(self) -> None:
        """See `Engine.prepare`."""

    def queue(self, job: str, spec: JobSpec) -> str:
        """See `Engine.queue`."""
        return ""

    def reserve(self, job: str, spec: JobSpec) -> str:
        """See `Engine.reserve`."""
        if job in self._reserved:
            return ""
        used = self._reserved.values()
        for what, wanted, total, taken in (
            ("CPUs", spec.instances * spec.cpus, self._cores, sum(item.cpus for item in used)),
            ("GPUs", spec.instances * spec.gpus, self._gpus, sum(len(item.gpus) for item in used)),
        ):
            if wanted > total - taken:
                return f"Waits for {wanted:g} of {total:g} {what}; {total - taken:g} are free."
        taken_bytes = sum(item.memory_bytes for item in used)
        wanted_bytes = spec.instances * spec.memory_bytes
        if wanted_bytes > self._memory_bytes - taken_bytes:
            return f"Waits for {size(wanted_bytes)} of memory; {size(self._memory_bytes - taken_bytes)} are free."
        self._reserved[job] = _Reserved(spec.instances * spec.cpus, wanted_bytes,
                                        self._free_gpus()[:spec.instances * spec.gpus], self._cpus_for(spec))
        return ""

    def _cpus_for(self, spec: JobSpec) -> list[int]:
        """Return CPUs for a job that no other has; none if it asks for parts of CPUs."""
        free, wanted = self._free_cpus(), spec.instances * int(spec.cpus)
        return free[:wanted] if spec.cpus.is_integer() and len(free) >= wanted else []

    def start(self, order: Order) -> Handle:
        """See `Engine.start`."""
        mark = f"{self._home.unique(order.job)}/{order.attempt}-{order.index}/"
        work = self._home.work(order.job) / f"{order.attempt}-{order.index}"
        if work.exists() and (found := self._running(mark, order)) is not None:
            return {**found, "work": str(work)}  # a killed controller started it and did not come to note it
        environment = {**order.environment, INSTANCE_VARIABLE: mark}
        reserved = self._reserved[order.job]
        cpus = self._chosen(order, int(order.spec.cpus), reserved.cpu_set, self._free_cpus) or []
        if cpus:
            environment[CPUS_VARIABLE] = ",".join(map(str, cpus))
        gpus = self._chosen(order, order.spec.gpus, reserved.gpus, self._free_gpus)
        if gpus is None:
            raise JobError("its GPUs are used by other jobs")
        if self._gpus:
            environment[_GPUS_VARIABLE] = ",".join(map(str, gpus))
        work.mkdir(parents=True, exist_ok=True)
        environment.pop(NETWORK_VARIABLE, None)  # that of a job which submits this one
        if order.spec.no_network and order.spec.instances * order.spec.processes > 1:
            environment[NETWORK_VARIABLE] = str(_network(f"{mark.partition('/')[0]}/{order.attempt}-network/"))
        with (work / "agent.log").open("ab") as log:
            process = LocalProcess(own_module(
                _AGENT, order.url, order.job, str(order.attempt), str(order.index), str(work),
                str(self._home.cache), environment=environment), stdout=log, stderr=log)
        self._processes[process.pid] = process
        return {**asdict(process_now(process.pid)), "mark": mark, "work": str(work), "gpus": gpus, "cpus": cpus}

    def _running(self, mark: str, order: Order) -> Handle | None:
        """Return the agent of an instance, with its CPUs and GPUs; None if none runs."""
        for pid in marked_processes(INSTANCE_VARIABLE, mark):
            found = program_of(pid)
            if found is None or _AGENT not in found.arguments:
                continue
            cpus = _numbers(found.environment.get(CPUS_VARIABLE))
            gpus = _numbers(found.environment.get(_GPUS_VARIABLE)) if self._gpus else []
            reserved = self._reserved[order.job]
            for kept, numbers in ((reserved.cpu_set, cpus), (reserved.gpus, gpus)):
                kept[order.index * len(numbers):(order.index + 1) * len(numbers)] = numbers
            return {**asdict(process_now(pid)), "mark": mark, "cpus": cpus, "gpus": gpus}
        return None

    def _chosen(self, order: Order, each: int, kept: list[int], free: Callable[[], list[int]]) -> list[int] | None:
        """Return the CPUs or GPUs of an instance, which another controller may not have chosen; None: too few are free.
        """
        place = slice(order.index * each, (order.index + 1) * each)
        if _NOT_CHOSEN in kept[place]:
            if len(found := free()) < each:
                return None
            kept[place] = found[:each]
        return kept[place]

    def _free_cpus(self) -> list[int]:
        busy = {cpu for item in self._reserved.values() for cpu in item.cpu_set}
        return [cpu for cpu in limits_here(probes=False).cpus if cpu not in busy]

    def _free_gpus(self) -> list[int]:
        busy = {gpu for item in self._reserved.values() for gpu in item.gpus}
        return [gpu for gpu in range(self._gpus) if gpu not in busy]

    def adopt(self, job: str, spec: JobSpec, handles: Mapping[int, Handle]) -> None:
        """See `Engine.adopt`."""
        gpus: list[int] = []
        cpus: list[int] = []
        for index in range(spec.instances):
            handle = handles.get(index)
            gpus += handle["gpus"] if handle else [_NOT_CHOSEN] * spec.gpus
            cpus += handle["cpus"] if handle else [_NOT_CHOSEN] * int(spec.cpus)
        is_tied = spec.cpus.is_integer() and len(cpus) == spec.instances * int(spec.cpus)
        self._reserved[job] = _Reserved(spec.instances * spec.cpus, spec.instances * spec.memory_bytes, gpus,
                                        cpus if is_tied else [])

    def is_gone(self, handle: Handle) -> str:
        """See `Engine.is_gone`."""
        process = self._processes.get(handle["pid"])
        if process is not None:
            code = process.poll()
            return "" if code is None else f"Its agent {ended_reason(code)}{_last_line(handle)}"
        return "" if is_alive(_process(handle)) else "Its agent is gone."

    def ask_to_end(self, handle: Handle) -> None:
        """See `Engine.ask_to_end`."""
        if self.is_gone(handle) and not is_elsewhere(handle):
            return
        with contextlib.suppress(OSError):
            (Path(handle["work"]) / ASKED).touch()
        if not is_elsewhere(handle):
            with contextlib.suppress(OSError):
                os.kill(handle["pid"], signal.SIGTERM)

    def kill(self, handle: Handle) -> None:
        """See `Engine.kill`. An instance on another machine ends itself once it sees that it was given up."""
        if is_elsewhere(handle):
            with contextlib.suppress(StoreError):  # whole: the agent must not read an empty file
                write_whole(Path(handle["work"]) / ASKED, handle["host"].encode())
            return
        if not self.is_gone(handle):
            kill_unmarked_below(handle["pid"], INSTANCE_VARIABLE)
        kill_marked(INSTANCE_VARIABLE, handle["mark"])
        clean_up(Path(handle["work"]) / "limits")
        _unmount(Path(handle["work"]))
        process = self._processes.pop(handle["pid"], None)
        if process is not None:
            process.kill()
            process.wait()
        shutil.rmtree(handle["work"], ignore_errors=True)

    def release(self, job: str, *, is_over: bool = True) -> None:
        """See `Engine.release`."""
        if self._reserved.pop(job, None) is not None or self._home.work(job).exists():
            self.keep(job)

    def keep(self, job: str) -> None:
        """See `Engine.keep`."""
        work = self._home.work(job)
        if work.exists():
            kill_marked(INSTANCE_VARIABLE, f"{self._home.unique(job)}/")
            _unmount(work)
            for place in work.iterdir():
                if not is_left_elsewhere(place):
                    clean_up(place / "limits")
                    shutil.rmtree(place, ignore_errors=True)
            with contextlib.suppress(OSError):  # an instance on another machine has yet to see that it must end
                work.rmdir()

    def take_over(self, kept: str, job: str) -> None:
        """See `Engine.take_over`."""
        self._reserved[job] = self._reserved.pop(kept)

    def close(self) -> None:
        """See `Engine.close`."""


def _last_line(handle: Handle) -> str:
    """Return what an agent printed last, as the end of a sentence."""
    with contextlib.suppress(OSError):
        lines = (Path(handle["work"]) / "agent.log").read_text("utf-8", "replace").strip().splitlines()
        if lines:
            return f": {lines[-1][:_SAID_CHARS].rstrip('.')}."
    return "."


def _network(mark: str) -> int:
    """Return the process that keeps the network of an attempt, also one that a killed controller started."""
    for pid in marked_processes(INSTANCE_VARIABLE, mark):
        if has_own_network(pid):
            return pid
    return held_network({**os.environ, INSTANCE_VARIABLE: mark})


def _numbers(text: str | None) -> list[int]:
    return [int(word) for word in text.split(",")] if text else []


def _unmount(directory: Path) -> None:
    for mount in mounts(directory):
        unmount(mount)


def _process(handle: Handle) -> Process:
    return Process(handle["pid"], handle["host"], handle["boot_id"], handle["started_ticks"])


def _lower(spec: JobSpec, option: str) -> str:
    return f"{option} or --instances" if spec.instances > 1 else option
