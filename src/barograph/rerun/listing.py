"""How the environment of a run was, as a file that pip reads and people, too."""

from __future__ import annotations

import shlex

from barograph.model.one_line import shown
from barograph.model.origin import Origin, Package
from barograph.rerun.environment import is_package


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
    # A line break in what a run says of itself must not begin a line that pip obeys.
    return "\n".join(map(shown, lines)) + "\n"


def _line(name: str, package: Package) -> str:
    if not is_package(name, package):
        return f"# not the name and version of a package: {name} {package.version} {package.source}"
    how, _, url = package.source.partition(" ")
    if how == "git":
        return f"{name} @ git+{url}"
    return f"{name}=={package.version}" + (f"  # {package.source}" if how else "")
