"""An environment with the real smdebug, made once below `.cache`: with the torch of the Python that runs the tests."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from benchmarks.environments import REQUIREMENTS, SMDEBUG_PYTHON, TORCH

ROOT = Path(__file__).parent.parent
HOME = ROOT / ".cache" / "smdebug"
WANTED = [entry for entry in REQUIREMENTS["smdebug"] if entry != TORCH]
INSTALL_SECS = 300.0


class Unavailable(Exception):
    """It cannot be made here; the message says why."""


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
    python = HOME / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    if not (HOME / ".ready").exists():
        _make(Path(torch.origin).parent.parent)
    return python


def _make(site_with_torch: Path) -> None:
    HOME.parent.mkdir(exist_ok=True)
    # Beside it, then renamed: tests that run at once see all of it or nothing.
    draft = Path(tempfile.mkdtemp(dir=HOME.parent, prefix="smdebug-"))
    try:
        # Without a pip of its own, which takes longer to install than all the rest.
        venv.create(draft, symlinks=sys.platform != "win32")
        scripts = draft / ("Scripts" if sys.platform == "win32" else "bin")
        done = subprocess.run(
            [sys.executable, "-m", "pip", "--python", str(scripts / "python"), "install", "--quiet",
             "--disable-pip-version-check", *WANTED],
            capture_output=True, text=True, check=False, timeout=INSTALL_SECS)
        if done.returncode:
            raise Unavailable(f"pip could not install {' '.join(WANTED)}: {done.stderr.strip().splitlines()[-1:]}")
        found = subprocess.run(
            [str(scripts / "python"), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            capture_output=True, text=True, check=True)
        # Behind its own libraries: NumPy is smdebug's, torch that of the tests.
        (Path(found.stdout.strip()) / "zz_torch.pth").write_text(f"{site_with_torch}\n")
        (draft / ".ready").touch()
        try:
            os.rename(draft, HOME)
        except OSError:
            if not (HOME / ".ready").exists():
                raise
    except subprocess.TimeoutExpired:
        raise Unavailable(f"pip did not install {' '.join(WANTED)} within {INSTALL_SECS:g} s") from None
    finally:
        shutil.rmtree(draft, ignore_errors=True)
