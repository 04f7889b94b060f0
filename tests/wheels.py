"""Wheels that uv installs from a folder, without a network."""

from __future__ import annotations

import zipfile
from pathlib import Path


def make_wheel(folder: Path, name: str, version: str, needs: str = "") -> None:
    """Write a wheel with a module of its name that has `version`.

    Args:
        folder: Where to write it.
        name: Name of the package.
        version: Its version.
        needs: Another package that it needs, as in "alpha<2".
    """
    notes = f"{name}-{version}.dist-info"
    asked = f"Requires-Dist: {needs}\n" if needs else ""
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{name}.py", f"version = {version!r}\n")
        wheel.writestr(f"{notes}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{asked}")
        wheel.writestr(f"{notes}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{notes}/RECORD", "")
