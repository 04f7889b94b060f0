"""Drains of Ray nodes: Ray announces through them that a node will be preempted or removed."""

from __future__ import annotations

from collections.abc import Callable

from barograph.errors import MissingExtra
from barograph.jobs.interruptions.notice import Notice
from barograph.processes.process import HostLost
from barograph.processes.ray_drain import Drain


class RayDrainSource:
    """Asks the Ray cluster whether this node is being drained.

    Args:
        drain: Returns the drain of this node, None if there is none, as `processes.ray_drain.drain_of` does.
    """

    name = "ray"
    interval_secs = 1.0

    def __init__(self, drain: Callable[[], Drain | None]) -> None:
        self._drain = drain

    def poll(self) -> Notice | None:
        """Return the current notice, None if there is none. Never raises."""
        try:
            drain = self._drain()
        except (HostLost, MissingExtra):
            return None  # the head may be restarting
        return None if drain is None else Notice(self.name, "Ray drains this node", drain.deadline_unix)
