"""An environment with the real smdebug, made once below `.cache`: with the torch of the Python that runs the tests."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

from benchmarks.environments import REQUIREMENTS, SMDEBUG_PYTHON, TORCH
from own_environment import Unavailable, python_with

WANTED = [entry for entry in REQUIREMENTS["smdebug"] if entry != TORCH]


def python_with_smdebug() -> Path:
    """Return an interpreter that has smdebug.

    Raises:
        Unavailable: It cannot be made here.
    """
    torch = importlib.util.find_spec("torch")
    if torch is None or torch.origin is None:
        raise Unavailable("torch is not installed here")
    if sys.version_info[:2] > SMDEBUG_PYTHON:
        raise Unavailable(f"smdebug installs on Python {'.'.join(map(str, SMDEBUG_PYTHON))} at most")
    site_with_torch = Path(torch.origin).parent.parent

    def finish(python: Path) -> None:
        found = subprocess.run(
            [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            capture_output=True, text=True, check=True)
        # Behind its own libraries: NumPy is smdebug's, torch that of the tests.
        (Path(found.stdout.strip()) / "zz_torch.pth").write_text(f"{site_with_torch}\n")

    return python_with("smdebug", WANTED, finish)
