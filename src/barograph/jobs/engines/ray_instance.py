"""An instance on its node of a Ray cluster: an agent, managed by an actor."""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from barograph.jobs.data.mounts import stale_mounts, unmount
from barograph.jobs.engines.engine import ASKED, INSTANCE_VARIABLE
from barograph.jobs.home import JobsHome
from barograph.jobs.isolation import clean_up
from barograph.machine.marked import kill_marked
from barograph.processes.command import own_module
from barograph.processes.ray_cluster import leave
from barograph.processes.ray_drain import RAY_NODE_VARIABLE, this_node
from barograph.processes.ray_process import ProcessHost

_OF_RAY = ("OMP_NUM_THREADS", "PYTHONBREAKPOINT", "SPT_NOENV")
"""What Ray sets for what it runs itself; all that begins with RAY_ likewise, but for the authentication."""
_SAID_BYTES = 4096
_UNATTENDED_SECS = 900.0
"""How long an instance keeps its resources after its agent has ended, if no controller releases them."""


class InstanceHost(ProcessHost):
    """An actor that starts the agent of an instance on its node. Its methods run in several threads.

    Args:
        unattended_secs: It ends itself so long after its agent, if no controller does.
        leave: Ends it, and its placement group if it is the last one whose name begins with the prefix that it takes.
    """

    def __init__(self, *, unattended_secs: float = _UNATTENDED_SECS, leave: Callable[[str], None] = leave) -> None:
        super().__init__()
        self._unattended_secs, self._leave = unattended_secs, leave
        self._starting = threading.Lock()
        self._cleaned = threading.Event()
        self._said = b""
        self._work: Path | None = None

    def run(
        self, group: str, attempt: int, index: int, url: str, job: str, address: str, given: Mapping[str, str],
        kept_secs: float = 0.0,
    ) -> dict[str, Any] | None:
        """Start the agent, unless it was started; return as `end`.

        Args:
            group: Name of the job in the cluster.
            attempt: Attempt of the job.
            index: Index of the instance.
            url: URL of the job's store.
            job: Name of the job.
            address: Address of this node for the other instances.
            given: Environment variables of the job.
            kept_secs: How long the instance stays after its agent has ended, for another job.

        Raises:
            OSError: The agent cannot be started.
        """
        with self._starting:
            if self._process is None:
                self._unattended_secs = max(self._unattended_secs, kept_secs)
                work = self._work = directory(group) / f"{attempt}-{index}"
                work.mkdir(parents=True, exist_ok=True)
                environment = {**node_environment(os.environ), **given, "BAROGRAPH_ADDRESS": address,
                               **this_node().to_environment(), INSTANCE_VARIABLE: f"{group}/{attempt}-{index}/"}
                self.start(own_module("barograph.jobs.agent", url, job, str(attempt), str(index), str(work),
                                      str(JobsHome().cache), environment=environment))
                threading.Thread(target=self._release_unattended, args=(group, f"{attempt}-{index}"),
                                 daemon=True).start()
        return self.end_within(0.0)

    def terminate(self) -> None:
        """Ask the agent to save and to end. To it, this is no notice of an interruption."""
        if self._work is not None:
            with contextlib.suppress(OSError):
                (self._work / ASKED).touch()
        super().terminate()

    def end_within(self, wait_secs: float) -> dict[str, Any] | None:
        """Return how the agent ended, None if it has not after some seconds.

        Returns:
            `exit_code`, and what it printed last: `said`.
        """
        output, code = self.news(wait_secs)
        self._said = (self._said + output.out + output.err)[-_SAID_BYTES:]
        if code is None:
            return None
        lines = self._said.decode("utf-8", "replace").strip().splitlines()
        return {"exit_code": code, "said": lines[-1] if lines else ""}

    def clean(self, group: str, instance: str) -> str:
        """See `clean_node`; returns the ID of this node."""
        self._cleaned.set()
        clean_node(group, instance)
        return this_node().node_id

    def _release_unattended(self, group: str, instance: str) -> None:
        """Release the instance after its agent has ended, if no controller does: its machine may be switched off."""
        self._started.wait()
        if not self._cleaned.wait(self._unattended_secs):
            clean_node(group, instance)
            self._leave(f"{group}/")


def clean_node(group: str, instance: str) -> None:
    """End what instances of a job started on this node, and remove their directories.

    Args:
        group: Name of the job in the cluster.
        instance: The instance, as in "0-1"; "": all.
    """
    kill_marked(INSTANCE_VARIABLE, f"{group}/{instance}/" if instance else f"{group}/")
    place = directory(group) / instance
    for limits in (place / "limits",) if instance else place.glob("*/limits"):
        clean_up(limits)
    for mount in stale_mounts(place):
        unmount(mount)
    shutil.rmtree(place, ignore_errors=True)
    with contextlib.suppress(OSError):  # other instances are there
        directory(group).rmdir()


def directory(group: str) -> Path:
    """Return the directory of a job on this node."""
    return JobsHome().path / "ray" / group


def node_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a node's programs from that of an actor there.

    Example:
        >>> node_environment({"HOME": "/root", "RAY_JOB_ID": "1", "RAY_AUTH_MODE": "token", "OMP_NUM_THREADS": "1"})
        {'HOME': '/root', 'RAY_AUTH_MODE': 'token'}
    """
    return {name: value for name, value in environment.items()
            if name not in (*_OF_RAY, RAY_NODE_VARIABLE) and (not name.startswith("RAY_") or
                                                              name.startswith("RAY_AUTH"))}
