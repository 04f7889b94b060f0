"""The environment of a run as a pip requirements file with comments."""

from __future__ import annotations

import shlex

from barograph.model.one_line import shown
from barograph.model.origin import Origin, Package
from barograph.rerun.environment import is_package


def environment_listing(origin: Origin, place: str) -> str:
    """Return the contents of the file.

    Args:
        origin: Origin of the run.
        place: Place of the run.
    """
    lines = [
        f"# Environment of {place}. To build it: pip install --no-deps -r FILE",
        f"# Python {origin.python_version or 'unknown'} ({origin.interpreter or 'unknown'})",
        f"# {origin.hardware.system}, {origin.hardware.processor}, {origin.hardware.cores} cores"
        + "".join(f", {gpu}" for gpu in origin.hardware.gpus),
        f"# in {origin.directory}:",
        f"#   {shlex.join(origin.command)}",
        *(f"#   {name}={shlex.quote(value)}" for name, value in origin.environment.items()),
        *(_line(name, package) for name, package in origin.packages.items()),
    ]
    # A line break in the run's metadata must not start a line that pip obeys.
    return "\n".join(map(shown, lines)) + "\n"


def _line(name: str, package: Package) -> str:
    if not is_package(name, package):
        return f"# invalid package: {name} {package.version} {package.source}"
    how, _, url = package.source.partition(" ")
    if how == "git":
        return f"{name} @ git+{url}"
    return f"{name}=={package.version}" + (f"  # {package.source}" if how else "")
