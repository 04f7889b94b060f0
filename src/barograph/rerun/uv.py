"""The uv program, and the Python of an environment that it builds."""

from __future__ import annotations

import os
import shutil
import sysconfig
from pathlib import Path


def uv_program() -> str:
    """Return the path of uv; "" if it is not installed. The one installed beside this Python comes first."""
    beside = Path(sysconfig.get_path("scripts"), "uv.exe" if os.name == "nt" else "uv")
    return str(beside) if os.access(beside, os.X_OK) else shutil.which("uv") or ""


def python_in(environment: Path) -> Path:
    """Return the Python of a virtual environment."""
    return environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
