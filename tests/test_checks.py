"""Ruff and mypy find nothing; the import rules are in test_floors.py."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("words", [("ruff", "check", "--quiet", "."), ("mypy",)], ids=["ruff", "mypy"])
def test_it_finds_nothing(words: tuple[str, ...]) -> None:
    done = subprocess.run([sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def test_what_fast_leaves_out_and_what_runs_first_exists() -> None:
    spec = importlib.util.spec_from_file_location("conftest_of_all", ROOT / "tests" / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    conftest = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(conftest)
    for name in conftest._TRAINING + conftest._LONGEST:
        path, _, test = name.partition("::")
        assert (ROOT / "tests" / path).exists(), name
        assert not test or f"def {test}(" in (ROOT / "tests" / path).read_text(encoding="utf-8"), name
