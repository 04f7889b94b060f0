"""Engines that run watchers (`--engine`)."""

from __future__ import annotations

import sys

from barograph.errors import UnknownName, nearest
from barograph.processes.ray_cluster import connect
from barograph.watch.far_line import FarLine
from barograph.watch.line import LineFactory

PROCESSES = "processes"
"""Processes on this machine."""

RAY = "ray"
"""Processes on the machines of a Ray cluster."""

ENGINES = (PROCESSES, RAY)


def joined(engine: str) -> str:
    """Return the engine, ready for use.

    Raises:
        UnknownName: The engine does not exist; the message suggests the closest.
        MissingExtra: Ray is not installed.
        ClusterUnreachable: The Ray cluster cannot be joined.
    """
    if engine not in ENGINES:
        raise UnknownName(f'--engine is "{engine}". {nearest(engine, ENGINES)}')
    if engine == RAY:
        connect(lambda text: print(f"barograph: {text}", file=sys.stderr))
    return engine


def line_on(engine: str) -> LineFactory | None:
    """Return what starts the processes for the rules of one run; None: the default."""
    return FarLine if engine == RAY else None
