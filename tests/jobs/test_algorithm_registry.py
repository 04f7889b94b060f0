"""The list of built-in algorithms, and checks before a job starts."""

from __future__ import annotations

import importlib.util
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from barograph.errors import UnknownName
from barograph.jobs.algorithms.contract import run_trainer
from barograph.jobs.algorithms.registry import Algorithm, algorithm_named, algorithms, problems_of
from barograph.jobs.algorithms.table_prediction import BadData
from forking import TABLES

FORKED = TABLES


def test_the_scripts_of_all_algorithms_exist_and_are_guarded() -> None:
    names = [algorithm.name for algorithm in algorithms()]
    assert names == ["xgboost", "lightgbm", "linear", "mlp", "image-classifier"]
    for algorithm in algorithms():
        assert 'if __name__ == "__main__":' in algorithm.script.read_text("utf-8")


def test_a_misspelled_name_suggests_the_nearest() -> None:
    with pytest.raises(UnknownName) as caught:
        algorithm_named("xgbost")
    assert str(caught.value) == 'No algorithm "xgbost". Did you mean "xgboost"?'


def test_importing_the_registry_loads_no_library() -> None:
    code = ("import sys, barograph.jobs.algorithms.registry; "
            "print([name for name in ('numpy', 'pandas', 'sklearn', 'xgboost', 'lightgbm', 'torch', 'PIL') "
            "if name in sys.modules])")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("algorithm", algorithms(), ids=lambda algorithm: str(algorithm.name))
def test_ranges_for_tuning_are_whole(algorithm: Algorithm) -> None:
    names = [parameter.name for parameter in (*algorithm.options, *algorithm.parameters)]
    assert len(set(names)) == len(names)
    assert not algorithm.maximize
    for parameter in algorithm.parameters:
        assert math.isnan(parameter.low) == math.isnan(parameter.high)
        assert math.isnan(parameter.low) or parameter.low < parameter.high
        assert parameter.scale == "linear" or parameter.low > 0
        assert (parameter.kind == "choice") == bool(parameter.choices)


@pytest.fixture
def houses(tmp_path: Path) -> str:
    (tmp_path / "houses.csv").write_text("size,price\n1,2\n2,3\n", encoding="utf-8")
    return str(tmp_path / "houses.csv")


def test_a_job_that_can_run_has_no_problems(houses: str) -> None:
    assert problems_of(algorithm_named("xgboost"), {"eta": "0.1", "max-depth": "3"}, {"train": houses}, "price") == []
    assert problems_of(algorithm_named("xgboost"), {}, {"train": "s3://bucket/houses.csv"}, "price") == []


@pytest.fixture
def forked(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the process that asks a library for its parameters be a fork."""
    monkeypatch.setattr(sys, "executable", str(programs / "python"))


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize(("name", "package", "parameters", "misspelled", "meant"), [
    ("xgboost", "xgboost", {"colsample_bylevel": "0.5", "scale_pos_weight": "2", "n_estimators": "3",
                            "early-stopping-rounds": "2", "seed": "1"}, "etta", "eta"),
    ("lightgbm", "lightgbm", {"eta": "0.1", "max_bin": "31", "n_iter": "3"}, "num_leavs", "num_leaves"),
    ("linear", "sklearn", {"solver": "lbfgs", "fit_intercept": "true"}, "alfa", "alpha"),
    ("mlp", "sklearn", {"beta_1": "0.9"}, "max_itr", "max_iter"),
    ("image-classifier", "torch", {"epochs": "2"}, "epoch", "epochs"),
])
def test_a_parameter_that_the_library_does_not_know_is_refused(
    name: str, package: str, parameters: dict[str, str], misspelled: str, meant: str, houses: str, tmp_path: Path
) -> None:
    pytest.importorskip(package, reason=f"{package} is not installed")
    algorithm, target = algorithm_named(name), "" if name == "image-classifier" else "price"
    source = {"train": houses if target else str(tmp_path)}
    assert problems_of(algorithm, parameters, source, target) == []
    assert problems_of(algorithm, {**parameters, misspelled: "1"}, source, target) == [
        f'The algorithm "{name}" has no parameter "{misspelled}". Did you mean "{meant}"?']


def test_a_misspelled_target_is_found_in_the_names_of_the_file(houses: str) -> None:
    assert problems_of(algorithm_named("linear"), {}, {"train": houses}, "prcie") == [
        f'No column "prcie" in {houses}. Did you mean "price"?']


def test_the_target_is_looked_for_in_parquet_without_reading_rows(tmp_path: Path, monkeypatch: Any) -> None:
    import pandas

    pandas.DataFrame({"size": [1], "price": [2]}).to_parquet(tmp_path / "houses.parquet")
    monkeypatch.setattr(pandas, "read_parquet", None)
    source = {"train": str(tmp_path / "houses.parquet")}
    assert problems_of(algorithm_named("mlp"), {}, source, "price") == []
    assert problems_of(algorithm_named("mlp"), {}, source, "cost") == [
        f'No column "cost" in {tmp_path / "houses.parquet"}. There are: price, size.']


def test_all_problems_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "xgboost" else find(name))
    parameters = {"eta": "x", "max_depth": "2.5", "task": "sorting"}
    assert problems_of(algorithm_named("xgboost"), parameters, {"trian": "t"}, "") == [
        'The algorithm "xgboost" needs xgboost: pip install "barograph[algorithms,xgboost]".',
        'eta is "x"; it must be a number.', 'max_depth is "2.5"; it must be an integer.',
        'task is "sorting"; it must be auto or regression or classification.',
        'The algorithm does not read the channel "trian". Did you mean "train"?',
        "No training data: pass --data train=FILE."]


def test_a_copy_of_the_script_is_run(tmp_path: Path) -> None:
    algorithm = algorithm_named("mlp")
    copy = algorithm.copy_script(tmp_path / "code")
    assert copy == tmp_path / "code" / "mlp_trainer.py"
    assert copy.read_bytes() == algorithm.script.read_bytes()


def test_data_and_processes_that_do_not_suit_are_reported(houses: str) -> None:
    linear = algorithm_named("linear")
    assert problems_of(linear, {}, {"train": f"{houses}:pipe"}, "price", processes=2) == [
        'The algorithm "linear" trains in one process: remove --instances and --processes.',
        "Built-in algorithms read files, not pipes: remove :pipe from --data train."]
    assert problems_of(linear, {}, {"train": f"{houses}:lazy"}, "prcie") == [
        f'No column "prcie" in {houses}. Did you mean "price"?']
    assert problems_of(linear, {}, {"train": {"source": houses}}, "price") == []
    assert problems_of(linear, {}, {"train": {"place": "nowhere"}}, "price") == []


def test_images_have_no_target_column(tmp_path: Path) -> None:
    assert problems_of(algorithm_named("image-classifier"), {}, {"train": str(tmp_path)}, "") == []
    assert problems_of(algorithm_named("image-classifier"), {}, {"train": str(tmp_path)}, "cat") == [
        "The target of images is their folder: remove --target."]


def test_a_message_names_the_channel_and_not_its_folder_on_the_instance(
    houses: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def train(arguments: object) -> None:
        raise BadData(f'No column "prcie" in {houses}; none in {tmp_path}2/a.csv.')

    monkeypatch.setenv("SM_CHANNEL_TRAIN", str(tmp_path))
    monkeypatch.setenv("SM_CHANNEL_VALIDATION", f"{tmp_path}2")
    monkeypatch.setattr(sys, "argv", ["/code/linear_trainer.py"])
    with pytest.raises(SystemExit) as caught:
        run_trainer(train)
    assert str(caught.value) == 'linear_trainer.py: No column "prcie" in train/houses.csv; none in validation/a.csv.'
