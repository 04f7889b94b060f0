"""Studies of jobs that lose and repeat nothing: many parallel trials, and kills of the tuner."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.tune.survival import PLACES, Outcome, in_parallel, killed, shared


@pytest.mark.parametrize("place", PLACES)
def test_parallel_trials_are_neither_lost_nor_repeated(tmp_path: Path, place: str) -> None:
    if place == "postgresql":
        pytest.importorskip("pgserver")
    if place == "bucket":
        pytest.importorskip("moto")
    assert in_parallel(tmp_path, place, 6) == Outcome(trials=6, finished=6, lost=0, repeated=0)


def test_a_tuner_that_is_killed_again_and_again_neither_loses_nor_repeats_a_trial(tmp_path: Path) -> None:
    found = killed(tmp_path, 4, 10, seed=1)
    assert (found.trials, found.finished, found.lost, found.repeated) == (10, 10, 0, 0)
    assert found.kills >= 1


def test_tuners_that_share_a_study_neither_lose_nor_repeat_a_trial(tmp_path: Path) -> None:
    assert shared(tmp_path, 2, 8) == Outcome(trials=8, finished=8, lost=0, repeated=0)
