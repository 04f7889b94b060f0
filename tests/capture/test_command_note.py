"""What a process tells of itself that ends without a training step."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from barograph.capture.command_note import has_loop, imported_frameworks, last_error


@pytest.mark.parametrize(("code", "loops"), [
    ("for item in range(3): pass", True), ("def f():\n    while True: pass", True), ("print(1)", False),
    ("x = [a for a in range(3)]", False), ("not python (", True),
])
def test_a_loop_is_looked_for_in_the_script(tmp_path: Path, code: str, loops: bool) -> None:
    script = tmp_path / "train.py"
    script.write_text(code)

    assert has_loop(str(script)) == loops


def test_a_script_that_cannot_be_read_may_have_a_loop() -> None:
    assert has_loop(None)


def test_frameworks_are_named_as_their_projects_do(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torch", "tensorflow", "keras", "jax", "xgboost", "lightgbm", "sklearn", "mxnet"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert imported_frameworks() == []
    monkeypatch.setitem(sys.modules, "sklearn", pytest)
    monkeypatch.setitem(sys.modules, "torch", pytest)

    assert imported_frameworks() == ["PyTorch", "scikit-learn"]


@pytest.mark.parametrize(("error", "told"), [
    (ModuleNotFoundError("No module named 'timm'"), "ModuleNotFoundError: No module named 'timm'"),
    (ValueError("two\n  lines"), "ValueError: two lines"),
    (AssertionError(), "AssertionError"),
    (ValueError("x" * 200_000), f"ValueError: {'x' * 99_988}"),
    (KeyboardInterrupt(), ""), (SystemExit(1), ""), (None, ""),
])
def test_the_error_that_ends_the_process_is_one_line(
    error: BaseException | None, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "last_value", error, raising=False)

    assert last_error() == told
