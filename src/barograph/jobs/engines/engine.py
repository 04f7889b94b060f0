"""The interface of engines, which provide instances for jobs."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from barograph.errors import BarographError
from barograph.jobs.spec import JobSpec

ASKED = "asked-to-end"
"""File that an engine creates in the directory of an instance to ask its agent to end: a signal is no notice then.

It has the name of a machine if the instance there was given up from another one: it must store nothing more.
"""
_WEEK_SECS = 7 * 86_400.0
INSTANCE_VARIABLE = "BAROGRAPH_INSTANCE"
"""Environment variable that marks all processes of an instance: `JOB@OWNER/ATTEMPT-INDEX/`.

Of two marks none is the beginning of another one.
"""
CPUS_VARIABLE = "BAROGRAPH_CPUS"
"""Environment variable with the CPUs that the engine chose for an instance, with commas between them."""

NETWORK_VARIABLE = "BAROGRAPH_NETWORK"
"""Environment variable with a process whose network the scripts of all instances of a job share."""

Handle = Mapping[str, Any]
"""How an engine finds an instance again, also after the controller was restarted: JSON data."""


class NotYet(BarographError):
    """An engine has begun to do something and does not wait for it: call it again soon."""


class ClusterOutage(str):
    """A problem of a job that may pass by itself: its cluster is unreachable."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Order:
    """An instance to start.

    Attributes:
        job: Name of the job.
        url: URL of the job's store.
        spec: The job.
        attempt: Attempt of the job, from 0.
        index: Which of its instances, from 0.
        environment: Environment variables for the agent and its script.
    """

    job: str
    url: str
    spec: JobSpec
    attempt: int
    index: int
    environment: Mapping[str, str]


class Engine(Protocol):
    """Starts instances, each with an agent, and ends them.

    An agent writes what happens on its instance to the job's store. An engine only knows whether it is there.
    """

    def problems(self, spec: JobSpec, url: str = "") -> list[str]:
        """Return why this engine can never run a job, or that its cluster is unreachable, one sentence each.

        Args:
            spec: The job.
            url: URL of its store; "": not known yet.
        """
        ...

    def prepare(self) -> None:
        """Begin with what takes time, for a job that is being submitted from this environment. Does not block."""
        ...

    def queue(self, job: str, spec: JobSpec) -> str:
        """Return the name of the queue that a job waits in: it waits for no job of another one."""
        ...

    def reserve(self, job: str, spec: JobSpec) -> str:
        """Reserve all instances of a job, or none; return why it must wait, "" if they are reserved.

        Does not block. Reserving again changes nothing.
        """
        ...

    def start(self, order: Order) -> Handle:
        """Start a reserved instance.

        Raises:
            OSError, JobError: It cannot be started.
            NotYet: Its resources are not there yet, because another controller reserved them.
        """
        ...

    def adopt(self, job: str, spec: JobSpec, handles: Mapping[int, Handle]) -> None:
        """Take over the instances of a job that another controller started."""
        ...

    def is_gone(self, handle: Handle) -> str:
        """Return why an instance is gone, in a sentence; "" while its agent is there."""
        ...

    def ask_to_end(self, handle: Handle) -> None:
        """Ask the agent to save and to end. Does nothing if it is gone."""
        ...

    def kill(self, handle: Handle) -> None:
        """End an instance at once, with all its processes, and remove what it leaves on its machine."""
        ...

    def release(self, job: str, *, is_over: bool = True) -> None:
        """Return what was reserved for a job; ends what is left of its instances.

        Args:
            job: Name of the job.
            is_over: The job has ended; otherwise it will reserve instances again.

        Raises:
            NotYet: Not everything is released yet. It must be called again.
            JobError: Likewise, and something is wrong.
        """
        ...

    def keep(self, job: str) -> None:
        """End what is left of the instances of a job, but keep what was reserved, until `release` or `take_over`."""
        ...

    def take_over(self, kept: str, job: str) -> None:
        """Let a job have what is kept after another one that needed the same; raises as `release`."""
        ...

    def close(self) -> None:
        """Release what is needed to manage instances; the instances are not touched."""
        ...


def is_elsewhere(handle: Handle) -> bool:
    """Return whether an instance runs on another machine that shares the directory of jobs."""
    here = socket.gethostname()
    return bool(handle.get("host", here) != here)


def is_left_elsewhere(place: Path) -> bool:
    """Return whether a directory is that of an instance on another machine that was given up and may not know it.

    A machine that has not come back for a week is gone for good.
    """
    try:
        host, asked_unix = (place / ASKED).read_text("utf-8"), (place / ASKED).stat().st_mtime
    except OSError:
        return False
    return bool(host) and is_elsewhere({"host": host}) and time.time() - asked_unix < _WEEK_SECS
