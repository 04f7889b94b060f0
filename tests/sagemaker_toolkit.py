"""Environments with Amazon's sagemaker-training and with GluonTS, and public scripts for SageMaker: below `.cache`."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from own_environment import CACHE, INSTALL_SECS, Unavailable, python_with

_ENTER = "import ctypes, sys; sys.exit(ctypes.CDLL(None).unshare(0x20000) != 0)"
NAMES_RESOLVE = sys.platform == "linux" and subprocess.run([sys.executable, "-I", "-S", "-c", _ENTER]).returncode == 0
"""Whether this process may enter a mount namespace, so that the names of the instances of a job resolve in them."""


def python_with_toolkit() -> Path:
    """Return an interpreter with sagemaker-training, whose program `train` starts scripts in Amazon's containers.

    Raises:
        Unavailable: It cannot be installed here.
    """
    return python_with("sagemaker-training", ["sagemaker-training==5.1.4"])


def python_with_gluonts() -> Path:
    """Return an interpreter with GluonTS, which brings a script for SageMaker.

    Raises:
        Unavailable: It cannot be installed here.
    """
    return python_with("gluonts", ["gluonts==0.10.8", "ujson==5.10.0"])


def source_of(name: str, version: str, sha256: str) -> Path:
    """Return the folder of a source distribution, unpacked.

    Raises:
        Unavailable: pip cannot download it, or it is another one.
    """
    folder = CACHE / f"{name}-{version}"
    if not folder.is_dir():
        CACHE.mkdir(exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as draft, tarfile.open(
                _downloaded(f"{name}=={version} --hash=sha256:{sha256}\n", Path(draft, "download"))) as archive:
            archive.extractall(Path(draft, "source"), filter="data")
            (inside,) = Path(draft, "source").iterdir()
            try:
                os.rename(inside, folder)
            except OSError:
                if not folder.is_dir():  # another process was faster
                    raise
    return folder


def _downloaded(requirement: str, folder: Path) -> Path:
    folder.mkdir()
    wanted = folder.with_name("wanted.txt")
    wanted.write_text(requirement)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
             "--no-binary", ":all:", "--require-hashes", "--dest", folder, "--requirement", wanted],
            capture_output=True, text=True, check=False, timeout=INSTALL_SECS)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"pip did not download {requirement.split()[0]} within {INSTALL_SECS:g} s") from None
    if done.returncode:
        raise Unavailable(f"pip could not download {requirement.split()[0]}: {done.stderr.strip().splitlines()[-1:]}")
    (path,) = folder.iterdir()
    return path
