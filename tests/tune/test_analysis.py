"""What mattered in a study."""

from __future__ import annotations

import json
import math
from pathlib import Path

import optuna
import pytest

from barograph.errors import ImportFailed, TuneError
from barograph.tune.analysis import contour, hopeless_regions, importance, parallel_coordinates, slices
from barograph.tune.optuna_import import study_from_optuna
from barograph.tune.study import Study
from barograph.tune.trial import Cause

SPACE = {"lr": "1e-5..1:log", "width": (8, 128), "optimizer": ["adam", "sgd"], "momentum": "0..0.9 if optimizer=sgd"}


def study_of(count: int) -> Study:
    study = Study.create(None, SPACE, strategy="random", seed=1, maximize="accuracy")
    for _ in range(count):
        trial = study.ask()
        assert trial is not None
        lr = float(trial.parameters["lr"])
        if lr > 0.1:
            study.stop(trial, f"diverged: loss {lr}", cause=Cause.FINDING)
            study.tell(trial)
            continue
        study.tell(trial, 1 - (math.log10(lr) + 3) ** 2 / 10 - (0.02 if trial.parameters["optimizer"] == "sgd" else 0))
    return study


@pytest.fixture(scope="module")
def study() -> Study:
    return study_of(60)


def test_the_parameter_that_decides_is_the_most_important(study: Study) -> None:
    found = importance(study)
    assert found[0].name == "lr"
    assert sum(one.share for one in found) == pytest.approx(1.0)
    assert found[0].share > 0.5
    assert found[0].best_low is not None
    assert 1e-4 < found[0].best_low < 1e-3 < found[0].best_high < 1e-2  # type: ignore[operator]


def test_little_data_gives_no_importance() -> None:
    assert importance(study_of(2)) == []


def test_a_region_where_all_trials_diverge_is_named(study: Study) -> None:
    region, = hopeless_regions(study)
    least = min(float(trial.parameters["lr"]) for trial in study.trials if trial.cause)
    assert str(region) == f"lr ≥ {least:.3g}: {region.count} of {region.count}: diverged"
    assert region.count == sum(trial.cause is Cause.FINDING for trial in study.trials)


def test_slices_have_the_trials_with_the_parameter(study: Study) -> None:
    found = {one.name: one for one in slices(study)}
    assert found["lr"].is_log
    assert not found["momentum"].is_log
    assert all(study.trials[number].parameters["optimizer"] == "sgd" for number in found["momentum"].trials)


def test_a_contour_is_lowest_near_the_best(study: Study) -> None:
    found = contour(study, "lr", "optimizer")
    middle = min(range(len(found.x_values)), key=lambda place: abs(math.log10(float(found.x_values[place])) + 3))
    assert found.y_values == ("adam", "sgd")
    assert found.surface[0][middle] < 0.3 < found.surface[0][0]
    with pytest.raises(TuneError, match="four finished trials"):
        contour(study_of(2), "lr", "width")


def test_parallel_coordinates_have_a_line_for_each_trial(study: Study) -> None:
    found = parallel_coordinates(study)
    assert found.axes[0] == "lr"
    assert found.axes[-1] == "accuracy"
    assert all(position is None or 0 <= position <= 1 for _, along in found.lines for position in along)
    json.dumps(found.to_json())


def test_the_table_becomes_a_data_frame(study: Study) -> None:
    frame = study.table().to_pandas()
    assert list(frame.columns)[:6] == ["state", "accuracy", "lr", "width", "optimizer", "momentum"]
    assert frame.loc[0, "lr"] == study.trials[0].parameters["lr"]
    assert len(study.table()[:3]) == 3


def test_a_study_of_optuna_is_imported_and_continued(tmp_path: Path) -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    url = f"sqlite:///{tmp_path / 'optuna.db'}"
    other = optuna.create_study(storage=url, study_name="digits", direction="maximize",
                                sampler=optuna.samplers.RandomSampler(seed=1))

    def objective(trial: optuna.Trial) -> float:
        trial.suggest_categorical("optimizer", ["adam", "sgd"])
        if trial.number == 3:
            raise optuna.TrialPruned
        return trial.suggest_float("lr", 1e-5, 1.0, log=True) + trial.suggest_int("width", 8, 64)

    other.optimize(objective, n_trials=12)
    study = study_from_optuna(url, "digits", tmp_path / "study")
    assert study.best.value == other.best_value
    assert dict(study.best.parameters) == other.best_params
    assert len(study.trials) == 12
    again = Study.open(tmp_path / "study").ask()
    assert again is not None
    assert set(again.parameters) == {"lr", "width", "optimizer"}
    with pytest.raises(ImportFailed, match=r'no study "digit". Did you mean "digits"\?'):
        study_from_optuna(url, "digit")


def test_a_journal_of_optuna_with_pruned_and_failed_trials_is_imported(tmp_path: Path) -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    path = str(tmp_path / "journal.log")
    backend = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(path))
    other = optuna.create_study(storage=backend, study_name="digits")

    def objective(trial: optuna.Trial) -> float:
        x = trial.suggest_float("x", 0.0, 1.0)
        trial.report(x, 1)
        if trial.number == 1:
            raise optuna.TrialPruned
        if trial.number == 2:
            raise ValueError
        return x

    other.optimize(objective, n_trials=4, catch=ValueError)
    study = study_from_optuna(path, "digits")
    assert [str(trial.state) for trial in study.trials] == ["finished", "stopped", "failed", "finished"]
    assert study.trials[1].curve == {1: other.trials[1].params["x"]}
    assert study.best.value == other.best_value


def test_a_study_of_optuna_with_several_objectives_is_imported(tmp_path: Path) -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    url = f"sqlite:///{tmp_path / 'optuna.db'}"
    other = optuna.create_study(storage=url, study_name="two", directions=["maximize", "minimize"])
    other.optimize(lambda trial: (trial.suggest_float("x", 0.0, 1.0), trial.params["x"] ** 2), n_trials=5)
    study = study_from_optuna(url, "two")
    assert [str(objective) for objective in study.spec.objectives] == ["maximize value_0", "minimize value_1"]
    assert {trial.number for trial in study.front} == {trial.number for trial in other.best_trials}
