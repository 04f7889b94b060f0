"""An environment with MXNet and what Barograph needs, made once below `.cache`: MXNet wants NumPy below 1.24."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

from own_environment import Unavailable, python_with

__all__ = ["Unavailable", "python_with_mxnet"]

NEWEST_PYTHON = (3, 11)
"""For later ones there is no NumPy below 1.24."""

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def python_with_mxnet() -> Path:
    """Return an interpreter that has what `barograph[mxnet]` asks for, and pytest.

    Raises:
        Unavailable: It cannot be made here.
    """
    if sys.version_info[:2] > NEWEST_PYTHON:
        raise Unavailable(f"MXNet needs NumPy below 1.24, which Python {'.'.join(map(str, NEWEST_PYTHON))} has at most")
    wanted = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["mxnet"]]
    python = python_with("mxnet", [*wanted, "pytest>=8"])
    _write_metadata(python)
    return python


def _write_metadata(python: Path) -> None:
    """Have the interpreter find our rules and integrations: they are listed in the metadata of an installed package.

    Written each time, because the environment may be older than the list.
    """
    found = subprocess.run(
        [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        capture_output=True, text=True, check=True)
    metadata = Path(found.stdout.strip()) / "barograph-0.dist-info"
    metadata.mkdir(exist_ok=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: barograph\nVersion: 0\n")
    found_by = PROJECT["entry-points"].items()
    (metadata / "entry_points.txt").write_text("\n".join(
        "\n".join((f"[{group}]", *(f"{name} = {place}" for name, place in entries.items())))
        for group, entries in found_by))
