"""The limits of an instance: its CPUs, its memory and its network."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from barograph.errors import JobRefused
from barograph.jobs.launchers import thread_variables
from barograph.machine.host import memory_bytes as memory_of_machine
from barograph.machine.memory_group import MemoryGroup, memory_group
from barograph.processes.command import Command
from barograph.processes.local_process import DEVNULL, PIPE, LocalProcess
from barograph.processes.run_to_end import NotCompleted, run_to_end
from barograph.watch.figures import size

_RECORD, _MARK = "confinement.json", "out-of-memory"
_PROBED = ("network",)
"""Result of `confine --probe`."""
_PROBE_SECS = 30.0
_PATIENCE_SECS = 10.0
_CONFINE = os.path.abspath(Path(__file__).with_name("confine.py"))
_SOURCES = Path(_CONFINE).parents[2]
_WATCH = ("import sys; sys.path.insert(0, sys.argv[1]); from barograph.jobs.memory_watch import main; "
          "main(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])")


@dataclass(frozen=True, slots=True)
class Available:
    """The limits that this machine can enforce.

    Attributes:
        cpus: CPUs that this process may use; empty if a process cannot be tied to CPUs here.
        memory_bytes: Memory of this machine or container.
        has_memory_groups: The kernel limits memory, exactly. Otherwise it is measured, and the instance is ended.
        network_problem: Why an instance cannot be cut off from the network; "": it can.
    """

    cpus: tuple[int, ...]
    memory_bytes: int
    has_memory_groups: bool
    network_problem: str


@dataclass(frozen=True, slots=True)
class Confinement:
    """A command with limits.

    Attributes:
        command: Starts it.
        directory: Where it is noted what has to be cleaned up.
    """

    command: Command
    directory: Path

    def was_out_of_memory(self) -> bool:
        """Return whether a process was killed because the limit of memory was reached."""
        return was_out_of_memory(self.directory)

    def clean_up(self) -> None:
        """See `clean_up`."""
        clean_up(self.directory)


@functools.cache
def limits_here(*, probes: bool = True) -> Available:
    """Return what this machine can enforce.

    Args:
        probes: Test whether networks can be isolated, which takes 50 ms the first time. Otherwise assume that they can.
    """
    cpus = tuple(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else ()
    problems = _probed() if probes else dict.fromkeys(_PROBED, "")
    return Available(cpus, memory_of_machine(), memory_group("barograph-probe") is not None,
                     problems["network"])


def confined(
    command: Command, *, directory: Path, cpus: float | None = None, cpu_set: tuple[int, ...] | None = None,
    memory_bytes: int | None = None, no_network: bool = False, network_of: int | None = None,
    hosts: Mapping[str, str] | None = None, available: Available | None = None,
) -> Confinement:
    """Return a command with limits. Commands with one directory share the limit of memory.

    Where this machine has control groups, they are in one, with all that they start, also without a limit.

    Start the command in a session of its own. Nothing outlives it but a control group, which `clean_up` removes.

    Args:
        command: The command.
        directory: Directory of the instance, on this machine. Created if it is missing.
        cpus: Number of CPUs. Sets the numbers of threads of numerical libraries, unless the command sets them.
        cpu_set: The CPUs to run on. Only who knows what else runs here can choose them.
        memory_bytes: Memory of all processes together.
        no_network: Only the loopback interface is there.
        network_of: A process of `held_network`, whose loopback interface is shared. None: a new one.
        hosts: Names of the instances and their addresses. The command finds them in /etc/hosts where this machine
            allows it; a single instance does not enter a user namespace for its own name.
        available: What can be enforced. None: as `limits_here`.

    Raises:
        JobRefused: A limit cannot be enforced here; the message says why.
    """
    available = available or limits_here(probes=no_network)
    problem = limits_problem(available, cpus=cpus, cpu_set=cpu_set, memory_bytes=memory_bytes, no_network=no_network)
    if problem:
        raise JobRefused(problem)
    directory = Path(os.path.abspath(directory))
    _make(directory)
    settings: dict[str, object] = {}
    if cpu_set:
        settings["cpu_set"] = sorted(cpu_set)
    if memory_bytes is not None or available.has_memory_groups:
        settings |= _group_settings(directory, memory_bytes)
    if no_network:
        settings["network"] = "new" if network_of is None else network_of
    if hosts and sys.platform == "linux" and os.path.isfile("/etc/hosts"):
        settings["hosts"] = [_hosts_file(directory, hosts), len(hosts) > 1]
    if cpus is not None:
        command = replace(command, environment={
            **thread_variables(cpus), **(os.environ if command.environment is None else command.environment)})
    if settings:
        command = replace(command, arguments=(*_wrapper(), json.dumps(settings), *command.arguments))
    return Confinement(command, directory)


def limits_problem(
    available: Available, *, cpus: float | None = None, cpu_set: tuple[int, ...] | None = None,
    memory_bytes: int | None = None, no_network: bool = False,
) -> str:
    """Return why limits cannot be enforced here, in one sentence or two; "" if they can. See `confined`."""
    here = len(available.cpus) or os.cpu_count() or 1
    if cpus is not None and cpus > here:
        return f"The job asks for {cpus:g} CPUs, and this machine has {here:,}. Lower --cpus."
    if cpu_set is not None and (missing := sorted(set(cpu_set) - set(available.cpus))):
        return f"The instance cannot run on CPU {missing[0]}, which this process may not use."
    if memory_bytes is not None and memory_bytes > available.memory_bytes:
        return (f"The job asks for {memory_bytes / 2**30:.3g} GiB of memory, and this machine has "
                f"{available.memory_bytes / 2**30:.3g} GiB. Lower --memory.")
    if no_network and available.network_problem:
        return f"--no-network cannot be enforced here: {available.network_problem}. Run the job without it."
    return ""


def held_network(environment: Mapping[str, str]) -> int:
    """Start a process that keeps a network namespace for several commands; return its number for `network_of`.

    It stays until it is killed, also when this process ends. Processes that joined keep the namespace while they run.

    Args:
        environment: Its environment, by which it can be found.

    Raises:
        JobRefused: There is no such namespace here.
        OSError: It cannot be started.
    """
    holder = LocalProcess(Command((*_wrapper(), "--hold"), environment=environment), stdin=DEVNULL, stdout=PIPE)
    assert holder.stdout is not None
    with holder.stdout:
        is_ready = holder.stdout.readline()
    holder.let_go()
    if not is_ready:
        raise JobRefused(f"--no-network cannot be enforced here: {limits_here().network_problem}.")
    return holder.pid


def has_own_network(pid: int) -> bool:
    """Return whether a process is there and in another network namespace than this one."""
    try:
        return os.readlink(f"/proc/{pid}/ns/net") != os.readlink("/proc/self/ns/net")
    except OSError:
        return False


def was_out_of_memory(directory: Path) -> bool:
    """Return whether a process of this directory's commands was killed because the limit of memory was reached."""
    return (directory / _MARK).exists() or any(group.was_out_of_memory() for group in _noted(directory))


def memory_reason(limit_bytes: int) -> str:
    """Return why a script was killed that used too much memory, and what to do; 0: it had no limit."""
    if not limit_bytes:
        return ("The script was killed because the memory of the machine was full. Make the batches smaller, or give "
                "each job its share with --memory.")
    return (f"The script used more than its {size(limit_bytes)} of memory and was killed. Raise --memory, or make the "
            "batches smaller.")


def clean_up(directory: Path) -> None:
    """Kill what is left in the control group of an instance and remove it. Nothing happens if there is none.

    Also for an instance whose starter was killed. Afterwards `was_out_of_memory` still knows.

    Raises:
        OSError: A process cannot be killed within ten seconds.
    """
    directory = Path(os.path.abspath(directory))
    if was_out_of_memory(directory):
        (directory / _MARK).touch()
    for group in _noted(directory):
        if not group.remove(patience_secs=_PATIENCE_SECS):
            raise OSError(f"The processes of the instance cannot be ended ({group.path}).")
    (directory / _RECORD).unlink(missing_ok=True)


def _group_settings(directory: Path, limit_bytes: int | None) -> dict[str, object]:
    mark = directory / _MARK
    mark.unlink(missing_ok=True)
    group = memory_group(f"barograph-{hashlib.sha256(os.fsencode(directory)).hexdigest()[:24]}")
    if group is not None:
        # First the note: whoever is killed between the two lines leaves nothing that nobody knows of.
        (directory / _RECORD).write_text(json.dumps([os.fspath(group.path)]), encoding="utf-8")
        with contextlib.suppress(OSError):
            group.create(limit_bytes)
            return {"procs": os.fspath(group.procs)}
        clean_up(directory)
        mark.unlink(missing_ok=True)
    return {} if limit_bytes is None else {"watcher": [
        sys.executable, "-I", "-c", _WATCH, os.fspath(_SOURCES), "{pid}", str(limit_bytes), os.fspath(mark)]}


def _hosts_file(directory: Path, hosts: Mapping[str, str]) -> str:
    """Write the machine's /etc/hosts with more names, and return its path."""
    path = directory / "hosts"
    lines = [Path("/etc/hosts").read_bytes().rstrip(b"\n"),
             *(f"{address}\t{name}".encode() for name, address in hosts.items()), b""]
    # The new names come last: an address that has a name already keeps it in reverse.
    path.write_bytes(b"\n".join(lines))
    return os.fspath(path)


def _noted(directory: Path) -> list[MemoryGroup]:
    try:
        return [MemoryGroup(Path(path)) for path in json.loads((directory / _RECORD).read_text("utf-8"))]
    except (OSError, ValueError):
        return []


def _make(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise JobRefused(f"The directory of the instance cannot be created: {error.strerror} ({path}).") from error


def _wrapper() -> tuple[str, ...]:
    return sys.executable, "-I", "-S", _CONFINE


def _probed() -> dict[str, str]:
    """Return why the limits of `confine` cannot be had, by name."""
    try:
        done = run_to_end(Command((*_wrapper(), "--probe")), timeout_secs=_PROBE_SECS)
        said = json.loads(done.out)
        return {name: str(said[name]) for name in _PROBED}
    except (OSError, NotCompleted, ValueError, KeyError):
        why = "it needs Linux" if not sys.platform.startswith("linux") else "the kernel does not allow it"
        return dict.fromkeys(_PROBED, why)
