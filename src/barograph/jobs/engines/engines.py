"""The engines by name."""

from __future__ import annotations

from collections.abc import Callable

from barograph.jobs.engines.engine import Engine
from barograph.jobs.engines.local import LocalEngine
from barograph.jobs.home import JobsHome


def engines(home: JobsHome) -> dict[str, Callable[[], Engine]]:
    """Return the engines by name."""
    return {"local": lambda: LocalEngine(home), "ray": lambda: _ray_engine(home)}


def _ray_engine(home: JobsHome) -> Engine:
    from barograph.jobs.engines.ray import RayEngine  # loaded here: most jobs run on this machine

    return RayEngine(home)
