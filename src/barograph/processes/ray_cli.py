"""Commands of Ray's command line."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping

from barograph.processes.command import Command


def is_ray_installed() -> bool:
    """Return whether Ray is installed; does not load it."""
    return importlib.util.find_spec("ray") is not None


def ray_command(*arguments: str, directory: str | None = None, environment: Mapping[str, str] | None = None) -> Command:
    """Return a command of Ray's command line, run with this Python.

    Example:
        >>> ray_command("up", "--yes", "cluster.yaml").arguments[2:]
        ('ray.scripts.scripts', 'up', '--yes', 'cluster.yaml')
    """
    return Command((sys.executable, "-m", "ray.scripts.scripts", *arguments), directory, environment)
