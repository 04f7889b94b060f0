"""An environment with the real Hydra, made once below `.cache`: its parser of grammars is older than that of others."""

from __future__ import annotations

import subprocess
import sysconfig
from pathlib import Path

from own_environment import Unavailable, python_with

__all__ = ["Unavailable", "python_with_hydra"]


def python_with_hydra() -> Path:
    """Return an interpreter that has Hydra, and behind it all that this one has.

    Raises:
        Unavailable: It cannot be made here.
    """
    def finish(python: Path) -> None:
        found = subprocess.run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
                               capture_output=True, text=True, check=True)
        (Path(found.stdout.strip()) / "zz_tests.pth").write_text(f"{sysconfig.get_path('purelib')}\n")

    return python_with("hydra", ["hydra-core>=1.3"], finish)
