"""How the environment of a run was, as a file that pip reads and people, too."""

from __future__ import annotations

import shlex

from barograph.model.origin import Origin, Package


def environment_listing(origin: Origin, place: str) -> str:
    """Return the text of the file.

    Args:
        origin: What made the run.
        place: Of the run.
    """
    lines = [
        f"# How the environment of {place} was. To build it: pip install --no-deps -r FILE",
        f"# Python {origin.python_version or 'not known'} ({origin.interpreter or 'not known'})",
        f"# {origin.hardware.system}, {origin.hardware.processor}, {origin.hardware.cores} cores"
        + "".join(f", {gpu}" for gpu in origin.hardware.gpus),
        f"# in {origin.directory}:",
        f"#   {shlex.join(origin.command)}",
        *(f"#   {name}={shlex.quote(value)}" for name, value in origin.environment.items()),
        *(_line(name, package) for name, package in origin.packages.items()),
    ]
    return "\n".join(lines) + "\n"


def _line(name: str, package: Package) -> str:
    how, _, url = package.source.partition(" ")
    if how == "git":
        return f"{name} @ git+{url}"
    return f"{name}=={package.version}" + (f"  # {package.source}" if how else "")
