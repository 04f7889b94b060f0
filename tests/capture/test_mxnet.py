"""MXNet Gluon: what `mxnet_integration.py` tests, in an environment of its own."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from real_mxnet import Unavailable, python_with_mxnet

ROOT = Path(__file__).parents[2]
DOOR_SECS = 600.0


def test_the_door_of_mxnet_keeps_what_it_promises() -> None:
    try:
        python = python_with_mxnet()
    except Unavailable as error:
        pytest.skip(str(error))
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/mxnet_integration.py"], cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, capture_output=True, text=True, check=False,
        timeout=DOOR_SECS)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
