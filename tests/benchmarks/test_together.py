"""What many processes log into one run is counted, and what is lost would be seen."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

import barograph
from barograph.tracking import Run
from benchmarks import together_worker
from benchmarks.together import Way


@pytest.mark.parametrize(("way", "names"), [(Way(1, 1), 1), (Way(10, 10), 10), (Way(10, 60, by_each=False), 60),
                                            (Way(1, 30), 30)])
def test_numbers_of_all_processes_are_counted(tmp_path: Path, way: Way, names: int) -> None:
    found = together_worker.measure({"directory": str(tmp_path), "processes": 2, "points": 200, **asdict(way)})
    assert found["points"] == found["kept"] == 401
    assert 0.0 < found["logging_secs"] <= found["secs"]
    (run,) = tmp_path.glob("*/run.json")
    assert len(barograph.open(run.parent).keys("scalar")) == names


def test_a_step_that_is_missing_or_told_twice_is_not_counted(tmp_path: Path) -> None:
    with Run("gaps", root=tmp_path) as run:
        for step in (0, 1, 1, 3):
            run.log_metric("metric_0", 0.5, step)
    assert together_worker._kept(run.url) == 3
