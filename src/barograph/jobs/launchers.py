"""The commands that start a script on one instance: alone, or in several processes with its framework's launcher."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from barograph.errors import JobRefused
from barograph.jobs.frameworks import Framework, framework_of
from barograph.processes.command import Command

_PYTHON = re.compile(r"(?:python|pypy)(?:\d+(?:\.\d+)*)?(?:\.exe)?")
_LAUNCHERS = frozenset({"torchrun", "accelerate", "deepspeed", "horovodrun", "mpirun", "mpiexec", "srun", "composer"})
_LAUNCHER_MODULES = ("torch.distributed.", "accelerate.commands", "deepspeed.launcher")
_LOOPBACK = re.compile(r"127\.\d+\.\d+\.\d+|localhost|::1")
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS",
                    "VECLIB_MAXIMUM_THREADS", "RAYON_NUM_THREADS")
_ENDED_BY_US = (-signal.SIGTERM, -getattr(signal, "SIGKILL", signal.SIGTERM), 128 + signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class World:
    """All processes of one attempt of a job, seen from one instance.

    Attributes:
        hosts: Addresses of the instances, in order.
        index: This instance among them, from 0.
        processes: Processes on each instance.
        port: First of the ports for the rendezvous: one on the first instance, for TensorFlow one per process.
        attempt: Text that no other attempt has, so that a late process of an earlier one joins nothing.
    """

    hosts: tuple[str, ...] = ("127.0.0.1",)
    index: int = 0
    processes: int = 1
    port: int = 29400
    attempt: str = "0"

    @property
    def size(self) -> int:
        """Number of all processes."""
        return len(self.hosts) * self.processes


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """The commands of an instance.

    Attributes:
        commands: Start all of them. The instance succeeds if all succeed.
        framework: The framework whose launcher is used.
    """

    commands: tuple[Command, ...]
    framework: Framework = Framework.NONE


def launch_plan(
    words: Sequence[str], world: World, *, directory: Path, environment: Mapping[str, str], python: str = "",
    cpus: float | None = None, framework: Framework | None = None,
) -> LaunchPlan:
    """Return the commands that start a script on one instance.

    A job of one process is started as it is. Otherwise the script is started in copies with RANK, WORLD_SIZE,
    LOCAL_RANK, LOCAL_WORLD_SIZE, NODE_RANK, MASTER_ADDR and MASTER_PORT in their environment, for PyTorch with all
    variables that torchrun sets, for TensorFlow with TF_CONFIG, for JAX with JAX_COORDINATOR_ADDRESS,
    JAX_NUM_PROCESSES and JAX_PROCESS_ID.

    Args:
        words: The script, or a program, with its arguments.
        world: The processes of the attempt.
        directory: Working directory.
        environment: Environment of the script.
        python: The Python to run a script with, also found first by a shell script or another program. "": this one,
            and what the environment names.
        cpus: CPUs of the instance. Its processes share them: sets the numbers of threads that are not set yet.
        framework: The framework. None: found in the script's imports.

    Raises:
        JobRefused: The words have a launcher of their own, although the job has several processes.
    """
    variables = {**_threads(cpus, world.processes), **environment, **_activated(python, environment)}
    python = python or sys.executable
    script = _script_words(words)
    started = (python, "-u", *script) if script else _program_words(words, directory)
    if world.size == 1:
        return LaunchPlan((Command(started, os.fspath(directory), variables),))
    _check_no_launcher(words, script, world)
    if framework is None:
        framework = framework_of(Path(directory, script[0]), environment=environment) \
            if script and script[0] != "-m" else Framework.NONE
    variables = {**_interfaces(world), **variables}
    return LaunchPlan(tuple(
        Command(started, os.fspath(directory), {**variables, **_of_process(world, local), **_of_framework(
            framework, world, world.index * world.processes + local)})
        for local in range(world.processes)), framework)


def thread_variables(cpus: float, processes: int = 1) -> dict[str, str]:
    """Return the variables that make numerical libraries start as many threads as a process has CPUs.

    Example:
        >>> thread_variables(4, processes=2)["OMP_NUM_THREADS"]
        '2'
    """
    return dict.fromkeys(THREAD_VARIABLES, str(max(1, int(cpus // processes))))


def exit_code_of(codes: Sequence[int]) -> int:
    """Return the exit code of an instance from those of its commands: 0 only if all are 0.

    The failure that came from the script is preferred to the end of those that were stopped because of it.

    Example:
        >>> exit_code_of([0, -15, 3]), exit_code_of([0, -9]), exit_code_of([0, 0])
        (3, -9, 0)
    """
    failed = [code for code in codes if code]
    return next((code for code in failed if code not in _ENDED_BY_US), failed[0] if failed else 0)


def free_ports(count: int = 1, host: str = "") -> int:
    """Return the first of `count` consecutive ports that are free on this machine.

    Raises:
        JobRefused: There are none.
    """
    for _ in range(100):
        with socket.socket() as first:
            first.bind((host, 0))
            port: int = first.getsockname()[1]
        if port + count <= 2**16 and all(_is_free(host, port + offset) for offset in range(count)):
            return port
    raise JobRefused(f"This machine has no {count:,} consecutive free ports for the rendezvous of the processes.")


def _is_free(host: str, port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((host, port))
        except OSError:
            return False
    return True


def is_python(program: str) -> bool:
    """Return whether a program is a Python, by its name."""
    return _PYTHON.fullmatch(os.path.basename(program)) is not None


def _script_words(words: Sequence[str]) -> tuple[str, ...]:
    """Return what a Python is to run, as in `python WORDS`; empty if the program is something else."""
    if words[0].endswith(".py"):
        return tuple(words)
    if is_python(words[0]):
        rest = list(words[1:])
        while rest and rest[0] == "-u":
            del rest[0]
        # With other options, or with a program in an argument, the words are left alone.
        if rest and (rest[0].endswith(".py") or rest[0] == "-m") and os.path.basename(words[0]) == words[0]:
            return tuple(rest)
    return ()


def is_shell_script(word: str) -> bool:
    """Return whether a word names a shell script, which is started by its shell, executable or not."""
    return word.endswith((".sh", ".bash"))


def _program_words(words: Sequence[str], directory: Path) -> tuple[str, ...]:
    """Return what starts a program: a shell script with the shell of its first line, executable or not."""
    if not is_shell_script(words[0]):
        return tuple(words)
    try:
        with Path(directory, words[0]).open("rb") as file:
            first = file.readline().decode("utf-8", "replace")
    except OSError:
        return tuple(words)  # one that PATH finds
    return (*(first[2:].split() if first.startswith("#!") else ["sh"]), *words)


def _check_no_launcher(words: Sequence[str], script: Sequence[str], world: World) -> None:
    program = os.path.basename(words[0])
    module = script[1] if script[:1] == ("-m",) and len(script) > 1 else ""
    if program in _LAUNCHERS or module.startswith(_LAUNCHER_MODULES):
        raise JobRefused(f"{module or program} starts processes itself, and this job starts {world.size:,}: submit the "
                         "script without it.")


def _activated(python: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that make a Python the first one that programs find, as `activate` does."""
    folder = os.path.dirname(python)
    if not folder:
        return {}
    variables = {"PATH": os.pathsep.join((folder, environment.get("PATH", os.defpath)))}
    home = Path(folder).parent
    return {**variables, "VIRTUAL_ENV": os.fspath(home)} if (home / "pyvenv.cfg").is_file() else variables


def _threads(cpus: float | None, processes: int) -> dict[str, str]:
    return {} if cpus is None else thread_variables(cpus, processes)


def _interfaces(world: World) -> dict[str, str]:
    """Return variables that keep processes of one machine on its loopback interface, which is always up."""
    if not all(_LOOPBACK.fullmatch(host) for host in world.hosts):
        return {}
    interface = "lo0" if sys.platform == "darwin" else "lo"
    return dict.fromkeys(("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "TP_SOCKET_IFNAME"), interface)


def _of_process(world: World, local: int) -> dict[str, str]:
    return {"RANK": str(world.index * world.processes + local), "WORLD_SIZE": str(world.size), "LOCAL_RANK": str(local),
            "LOCAL_WORLD_SIZE": str(world.processes), "NODE_RANK": str(world.index), "MASTER_ADDR": world.hosts[0],
            "MASTER_PORT": str(world.port)}


def _of_framework(framework: Framework, world: World, rank: int) -> dict[str, str]:
    if framework is Framework.TORCH:
        return _of_torchrun(world, rank)
    if framework is Framework.TENSORFLOW:
        addresses = [f"{host}:{world.port + index * world.processes + local}"
                     for index, host in enumerate(world.hosts) for local in range(world.processes)]
        return {"TF_CONFIG": json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": rank}})}
    if framework is Framework.JAX:
        return {"JAX_COORDINATOR_ADDRESS": f"{world.hosts[0]}:{world.port}", "JAX_NUM_PROCESSES": str(world.size),
                "JAX_PROCESS_ID": str(rank)}
    return {}


def _of_torchrun(world: World, rank: int) -> dict[str, str]:
    """Return what torchrun adds to the environment of a worker. See docs/why/torchrun-is-not-started.md."""
    return {
        "GROUP_RANK": str(world.index), "GROUP_WORLD_SIZE": str(len(world.hosts)), "ROLE_NAME": "default",
        "ROLE_RANK": str(rank), "ROLE_WORLD_SIZE": str(world.size), "TORCHELASTIC_RUN_ID": world.attempt,
        # The job restarts all workers. The process of rank 0 serves the store of the rendezvous.
        "TORCHELASTIC_RESTART_COUNT": "0", "TORCHELASTIC_MAX_RESTARTS": "0", "TORCHELASTIC_USE_AGENT_STORE": "False",
        "TORCH_NCCL_ASYNC_ERROR_HANDLING": os.environ.get("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"),
    }
