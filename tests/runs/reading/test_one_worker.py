"""What is shown of one worker is its own, whatever is asked."""

from pathlib import Path

import pytest

from barograph.experiments.run import Run, load_run
from barograph.runs.reading.one_worker import OneWorker
from barograph.store.urls import store_from_url


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> OneWorker:
    """The second of two processes that wrote one run."""
    root: Path = tmp_path_factory.mktemp("runs")
    with Run("r", to=root / "r") as first, load_run(str(root / "r"), root=root) as other:
        for step in range(5):
            first.log_metric("x", 1.0, step)
            other.log_metric("x", 2.0, step)
    return OneWorker(store_from_url(str(root / "r")), "p1")


def test_a_series_is_the_workers_own(second: OneWorker) -> None:
    assert second.series("scalar:x").values.tolist() == [2.0] * 5
    assert second.curve("scalar:x").line().values.tolist() == [2.0] * 5


def test_a_step_is_the_workers_own(second: OneWorker) -> None:
    assert second.at(0).workers == ("p1",)


def test_another_worker_can_still_be_asked_for(second: OneWorker) -> None:
    assert second.series("scalar:x", worker="p0").values.tolist() == [1.0] * 5
