"""A shell of IPython in this process, and what it shows."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barograph.tracking import Run


class Shown:
    """A display that keeps what it is told to show."""

    def __init__(self) -> None:
        self.pages: list[str] = []

    def show(self, html: str) -> None:
        self.pages.append(html)


@pytest.fixture
def shown() -> Shown:
    return Shown()


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A shell with our magics, in a folder of this test's own."""
    interactive = pytest.importorskip("IPython.core.interactiveshell", reason="IPython is not installed here")
    from traitlets.config import Config

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    # The shell takes its place, which those who start processes look at.
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    config = Config()
    config.HistoryManager.enabled = False
    made = interactive.InteractiveShell(config=config)
    made.run_line_magic("load_ext", "barograph")
    yield made
    atexit.unregister(made.atexit_operations)
    made.atexit_operations()


@pytest.fixture
def small_run(tmp_path: Path) -> str:
    """The place of a run with a few numbers."""
    with Run("small", experiment="digits", root=tmp_path / "barograph-runs") as run:
        run.log_parameters({"lr": 0.1, "<b>": "<script>alert(1)</script>"})
        for step in range(20):
            run.log_metrics({"acc": step / 20, "err": 1 - step / 20}, step)
    return run.url
