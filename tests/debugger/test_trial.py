"""A run, asked in smdebug's words."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

import barograph
from barograph.debugger import exceptions
from barograph.errors import ImportFailed
from barograph.smdebug import (
    InvalidWorker,
    NoMoreData,
    ShapeUnavailableForStep,
    StepState,
    StepUnavailable,
    TensorUnavailable,
    TensorUnavailableForStep,
    Trial,
    create_trial,
    modes,
)
from smdebug_data import SECOND

WEIGHT = "Net_fc.weight"


def test_a_directory_of_smdebugs_is_opened_as_it_is(trial: Trial) -> None:
    assert trial.tensor_names() == ["CrossEntropyLoss_output_0", WEIGHT, "gradient/Net_fc.weight", "scalar/accuracy"]
    assert (trial.steps(), trial.steps(modes.TRAIN), trial.steps(modes.EVAL), trial.steps(modes.PREDICT)) == (
        [0, 1, 2], [0, 1], [0], [])
    assert trial.workers() == ["worker_0", "worker_1"]
    assert (trial.mode(2), trial.mode_step(2), trial.global_step(modes.EVAL, 0)) == (modes.EVAL, 0, 2)
    assert set(trial.modes()) == {modes.TRAIN, modes.EVAL}


def test_values_are_those_of_a_worker_at_a_step(trial: Trial) -> None:
    tensor = trial.tensor(WEIGHT)
    for worker, shift in ((None, 0), ("worker_0", 0), ("worker_1", 10)):
        value = tensor.value(0, mode=modes.EVAL, worker=worker)
        assert value.tobytes() == (np.arange(6, dtype=np.float32).reshape(2, 3) / 7 + 2 + shift).tobytes()
    assert tensor.workers(1) == ["worker_0", "worker_1"]
    assert list(tensor.values(modes.TRAIN)) == [0, 1]
    assert tensor.shape(1) == (2, 3)


def test_a_value_is_the_askers_to_change(trial: Trial) -> None:
    trial.tensor(WEIGHT).value(0)[:] = 7
    assert trial.tensor(WEIGHT).value(0)[0, 0] == 0


def test_a_reduction_is_what_was_saved_else_what_the_tensor_gives(trial: Trial) -> None:
    tensor = trial.tensor(WEIGHT)
    assert tensor.reduction_value(0, "mean", abs=True) == np.float32(1 / 3)
    assert tensor.reduction_values(0) == {("mean", True): np.float32(1 / 3)}
    assert tensor.reduction_value(0, "max") == np.float32(5) / 7


def test_names_are_found_by_pattern_step_mode_and_collection(trial: Trial) -> None:
    assert trial.tensor_names(regex="^gradient") == ["gradient/Net_fc.weight"]
    assert trial.tensor_names(regex=["^grad", "accuracy"]) == ["gradient/Net_fc.weight", "scalar/accuracy"]
    assert trial.tensor_names(collection="losses") == ["CrossEntropyLoss_output_0"]
    assert trial.tensor_names(step=0, mode=modes.EVAL) == trial.tensor_names()
    assert trial.tensor_names(mode=modes.PREDICT) == []
    with pytest.raises(ValueError, match="not both"):
        trial.tensor_names(regex="a", collection="losses")


def test_a_range_of_steps_is_all_there_is(saved: Path, tmp_path: Path) -> None:
    trial = create_trial(saved, range_steps=(1, 2), cache=tmp_path / "cache")
    assert (trial.steps(), trial.tensor(WEIGHT).steps()) == ([1], [1])


def test_what_is_not_there_says_why(trial: Trial) -> None:
    with pytest.raises(TensorUnavailable):
        trial.tensor("no such")
    with pytest.raises(InvalidWorker):
        trial.tensor(WEIGHT).value(0, worker="worker_7")
    with pytest.raises(NoMoreData) as over:
        trial.wait_for_steps([0, 9])
    assert (over.value.step, over.value.last_step) == (9, 2)
    with pytest.raises(StepUnavailable):
        trial.tensor(WEIGHT).value(9)
    assert (trial.has_passed_step(1), trial.has_passed_step(9)) == (StepState.AVAILABLE, StepState.UNAVAILABLE)


def test_a_step_that_was_passed_over_is_no_end(saved: Path, tmp_path: Path) -> None:
    for path in saved.rglob("000000000001_*"):
        path.unlink()
    trial = create_trial(saved, cache=tmp_path / "cache")
    with pytest.raises(StepUnavailable) as passed:
        trial.wait_for_steps([1])
    assert (passed.value.step, passed.value.mode) == (1, modes.GLOBAL)


def test_it_is_imported_once_and_anew_where_it_has_changed(saved: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    first = create_trial(saved, cache=cache)
    assert create_trial(saved, cache=cache).path == first.path
    (saved / SECOND).write_bytes(b"")
    assert create_trial(saved, cache=cache).tensor(WEIGHT).workers(1) == ["worker_1"]
    assert len(list(cache.iterdir())) == 2


def test_where_nothing_is_there_is_no_trial(tmp_path: Path) -> None:
    with pytest.raises(ImportFailed):
        create_trial(tmp_path / "none", cache=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_run_that_barograph_recorded_has_reductions(tmp_path: Path) -> None:
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with barograph.attach(model, optimizer, to=tmp_path / "run", watch=False, budget=None) as run:
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(4, 3)).square().mean().backward()
            run.log({"accuracy": 0.5})
            optimizer.step()
    trial = create_trial(tmp_path / "run")
    assert trial.steps(modes.TRAIN) == [0, 1, 2]
    assert trial.tensor_names(collection="gradients") == ["gradient/bias", "gradient/weight"]
    weight = trial.tensor("weight")
    expected = barograph.open(tmp_path / "run").series("weight:weight", "l2").values[1]
    assert weight.reduction_value(1, "l2", mode=modes.TRAIN) == expected
    assert trial.tensor("scalar/accuracy").value(1, mode=modes.TRAIN) == 0.5
    with pytest.raises(TensorUnavailableForStep) as whole:
        weight.value(1, mode=modes.TRAIN)
    assert whole.value.has_reductions
    with pytest.raises(ShapeUnavailableForStep):
        weight.shape(1, mode=modes.TRAIN)


@pytest.mark.parametrize("error", [
    exceptions.StepUnavailable(3, modes.EVAL), exceptions.NoMoreData(3, modes.TRAIN, 2),
    exceptions.TensorUnavailable("x"), exceptions.TensorUnavailableForStep("x", 1, modes.EVAL, True),
    exceptions.RuleEvaluationConditionMet("R", 4, True), exceptions.InvalidWorker("w"),
    exceptions.StepNotYetAvailable(1, modes.PREDICT), exceptions.InvalidCollectionConfiguration("c"),
])
def test_errors_cross_processes(error: exceptions.SMDebugError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))
