"""Where the native loop cannot be built or loaded, everything works without it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

WITHOUT = """
import sys
sys.modules["barograph._native"] = None
import numpy as np
from barograph.measures import native
from barograph.measures.summary import identity_rows
values, rows = np.array([1, 2, 3], np.float32), identity_rows(1)
native.summarize_into(values.ctypes.data, 3, native.dtype_code("float32"), rows, 0)
print(native.available(), rows[0, 7])
"""


def test_without_the_native_loop_its_plain_twin_serves_and_says_so_without_a_warning():
    done = subprocess.run([sys.executable, "-W", "error", "-c", WITHOUT], capture_output=True, text=True, timeout=600)
    assert (done.stdout.split(), done.stderr) == (["False", "6.0"], "")


@pytest.mark.skipif(importlib.util.find_spec("setuptools") is None, reason="setuptools is not installed here")
@pytest.mark.skipif(sys.platform == "win32", reason="names the compiler by an environment variable")
def test_without_a_compiler_the_package_still_builds(tmp_path):
    command = [sys.executable, "setup.py", "-q", "build_ext", "--build-lib", str(tmp_path / "lib"), "--build-temp",
               str(tmp_path / "temp")]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "CC": "/bin/false"}, capture_output=True, text=True,
                          timeout=600)
    assert done.returncode == 0, done.stderr
    assert list(tmp_path.rglob("_native*.so")) == []
