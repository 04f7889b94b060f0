"""The part about jobs under interruptions prints what was measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks import job_checkpoints
from benchmarks.job_checkpoints import QUICK, measure_job_checkpoints, print_job_checkpoints


def test_steps_with_checkpoints_are_divided_by_those_before_and_after(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    def worker(module: str, request: dict[str, object]) -> dict[str, object]:
        asked.append(request["checkpoints"] is not None)
        return {"steps": 100, "secs": 10.2 if asked[-1] else 10.0, "costs_secs": [0.1, 0.3, 0.2] if asked[-1] else []}

    monkeypatch.setattr(job_checkpoints, "run_worker", worker)
    report = measure_job_checkpoints(replace(QUICK, traces=20, rounds=2))
    print_job_checkpoints(report)
    printed = capsys.readouterr().out

    assert asked == [False, True, False, True, False]
    # A checkpoint of 0.2 s every √(2 · 0.2 · 7200) = 54 s.
    assert "×1.020 [1.020–1.020]" in printed
    assert "0.37%" in printed
    assert "54 s" in printed
    assert "automatic, with a notice of two minutes" in printed
