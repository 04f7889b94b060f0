"""Environments of other tools that the tests make once, below `.cache`: their needs would bend those of the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Sequence
from pathlib import Path

from building.installing import installed

from barograph.rerun.uv import uv_program

CACHE = Path(__file__).parent.parent / ".cache"
INSTALL_SECS = 1800.0


class Unavailable(Exception):
    """It cannot be made here; the message says why."""


def python_with(
    name: str, wanted: Sequence[str], finish: Callable[[Path], object] = lambda python: None
) -> Path:
    """Return an interpreter that has some packages.

    Args:
        name: Of the environment.
        wanted: What to install.
        finish: Does with the interpreter what is left to do, where the environment is made.

    Raises:
        Unavailable: It cannot be made here.
    """
    home = CACHE / name
    if not (home / ".ready").exists():
        _make(home, wanted, finish)
    return _python_of(home)


def _make(home: Path, wanted: Sequence[str], finish: Callable[[Path], object]) -> None:
    home.parent.mkdir(exist_ok=True)
    # Beside it, then renamed: tests that run at once see all of it or nothing.
    draft = Path(tempfile.mkdtemp(dir=home.parent, prefix=f"{home.name}-"))
    try:
        # Without a pip of its own, which takes longer to install than all the rest; and not compiled but where it is
        # imported, which is little of it.
        venv.create(draft, symlinks=sys.platform != "win32")
        done = installed([sys.executable, "-m", "pip"], uv_program(), _python_of(draft), wanted,
                         capture_output=True, text=True, timeout=INSTALL_SECS)
        if done.returncode:
            raise Unavailable(f"pip could not install {' '.join(wanted)}: {done.stderr.strip().splitlines()[-1:]}")
        finish(_python_of(draft))
        (draft / ".ready").touch()
        try:
            os.rename(draft, home)
        except OSError:
            if not (home / ".ready").exists():
                raise
    except subprocess.TimeoutExpired:
        raise Unavailable(f"pip did not install {' '.join(wanted)} within {INSTALL_SECS:g} s") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _python_of(home: Path) -> Path:
    return home / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
