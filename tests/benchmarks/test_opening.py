"""Opening a run is measured from the import on, and again without it."""

from __future__ import annotations

from pathlib import Path

import pytest

from barograph.tracking import list_runs
from benchmarks import opening, opening_worker


def test_the_first_run_of_a_process_and_others_are_measured_and_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)  # whence the worker goes into its repository
    found = opening_worker.measure({"way": "Run", "times": 3, "directory": str(tmp_path)})
    assert len(found["again_secs"]) == 3
    assert all(0.0 < secs < 60.0 for secs in (found["first_secs"], *found["again_secs"]))
    assert {run.name for run in list_runs(root=tmp_path / "runs")} == {"run-0", "run-1", "run-2", "run-3"}
    opening.print_opening({"measured": {"Run": [found, found]}, "failures": {"mlflow": "no network"}})
    said = capsys.readouterr().out
    assert "Run" in said
    assert "mlflow failed: no network" in said
