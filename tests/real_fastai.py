"""The real fastai beside the PyTorch of the tests: a folder of its own below `.cache`, since its needs are many."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from building.installing import installed

from barograph.rerun.uv import uv_program
from own_environment import CACHE, INSTALL_SECS, Unavailable

__all__ = ["Unavailable", "folder_with_fastai"]

WANTED = ("fastai==2.8.12", "fastcore==2.2.39", "fasttransform==0.0.5", "fastdownload==0.0.8", "fastprogress==1.0.5",
          "plum-dispatch==2.9.0", "beartype==0.23.1")
"""Itself and what a training by it imports: without the rest that it asks for, which reads texts and draws."""


def folder_with_fastai() -> Path:
    """Return a folder to import it from.

    Raises:
        Unavailable: It cannot be made here.
    """
    # So called, since Barograph takes what is anywhere else for the script's own.
    folder = CACHE / "fastai" / "site-packages"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Beside it, then renamed: tests that run at once see all of it or nothing.
        draft = Path(tempfile.mkdtemp(dir=folder.parent))
        try:
            done = installed([sys.executable, "-m", "pip"], uv_program(), sys.executable,
                             ["--no-deps", "--target", str(draft), *WANTED],
                             capture_output=True, text=True, timeout=INSTALL_SECS)
            if done.returncode:
                raise Unavailable(f"pip could not install {' '.join(WANTED)}: {done.stderr.strip().splitlines()[-1:]}")
            try:
                os.rename(draft, folder)
            except OSError:
                if not folder.is_dir():
                    raise
        except subprocess.TimeoutExpired:
            raise Unavailable(f"pip did not install {' '.join(WANTED)} within {INSTALL_SECS:g} s") from None
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    return folder
