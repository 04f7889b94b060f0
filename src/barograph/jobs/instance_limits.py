"""The limits of the script of an instance, and the end of everything that it started."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

from barograph.jobs.engines.engine import CPUS_VARIABLE, NETWORK_VARIABLE
from barograph.jobs.isolation import clean_up, confined, memory_reason, was_out_of_memory
from barograph.jobs.layout import InstanceLayout, Place
from barograph.jobs.spec import JobSpec
from barograph.machine.marked import kill_marked
from barograph.processes.command import Command


class InstanceLimits:
    """Limits the script of an instance.

    Args:
        layout: Directories of the instance.
        spec: The job.
        place: The instance among those of the job.
        end_strays: Ends processes of the script that nothing marks.
    """

    def __init__(
        self, layout: InstanceLayout, spec: JobSpec, place: Place, *, end_strays: Callable[[], object]
    ) -> None:
        self._layout, self._spec, self._place, self._end_strays = layout, spec, place, end_strays
        self._directory = layout.base / "limits"

    def confined(self, command: Command) -> Command:
        """Return a command of the script with the limits of the instance; raises as `isolation.confined`."""
        cpus, network = os.environ.get(CPUS_VARIABLE, ""), int(os.environ.get(NETWORK_VARIABLE, 0)) or None
        return confined(
            command, directory=self._directory, network_of=network, cpus=self._spec.cpus,
            cpu_set=tuple(map(int, cpus.split(","))) if cpus else None, memory_bytes=self._spec.memory_bytes or None,
            no_network=self._spec.no_network,
            hosts=dict(zip(self._place.hosts, self._place.addresses, strict=True))).command

    def memory_reason(self) -> str:
        """Return why the script was killed, if it used too much memory; "" otherwise."""
        return memory_reason(self._spec.memory_bytes) if was_out_of_memory(self._directory) else ""

    def end_leftovers(self) -> None:
        """End what the script left running. It has closed its recording, which also has processes."""
        kill_marked("SM_MODEL_DIR", str(self._layout.model))
        with contextlib.suppress(OSError):  # the engine tries it again
            clean_up(self._directory)
        self._end_strays()
