"""The other backends of Keras: the same tests, each in a process of its own, since a process has one."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("keras", reason="keras is not installed")

HERE = Path(__file__).parent
TESTS = tuple(HERE / f"test_keras{which}.py" for which in ("", "_modes", "_at_once", "_on_jax", "_ways"))


@pytest.mark.parametrize(("backend", "which"), [("torch", ""), ("jax", "not TestKeras")])
def test_the_same_holds_on_another_backend(backend: str, which: str) -> None:
    # The suite of every integration runs on two of them: JAX, which compiles each operation, takes minutes over it.
    if importlib.util.find_spec(backend) is None:
        pytest.skip(f"{backend} is not installed")
    if os.environ.get("KERAS_BACKEND") == backend:
        pytest.skip(f"this process tests {backend} already")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-k", which, *map(str, TESTS)],
        cwd=HERE.parents[1], env={**os.environ, "KERAS_BACKEND": backend}, capture_output=True, text=True, timeout=3600)
    assert done.returncode == 0, done.stdout[-6000:]
    assert " passed" in done.stdout
