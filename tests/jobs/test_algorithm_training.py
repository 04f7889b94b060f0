"""The trainers on real data, against the libraries called directly, and what they leave."""

from __future__ import annotations

import ast
import csv
import io
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import pytest
import xgboost
from sklearn.datasets import dump_svmlight_file, load_breast_cancer, load_diabetes, load_digits, load_wine
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from barograph.errors import SettingsError, UnknownName
from barograph.jobs.algorithms import image_prediction, table_prediction
from barograph.jobs.algorithms.columns import Target
from barograph.jobs.algorithms.folds import folds_of
from barograph.jobs.algorithms.trainers import (
    image_classifier_trainer,
    lightgbm_trainer,
    linear_trainer,
    mlp_trainer,
    xgboost_trainer,
)
from forking import TABLES

FORKED = TABLES

TRAINERS = {"xgboost": xgboost_trainer, "lightgbm": lightgbm_trainer, "linear": linear_trainer, "mlp": mlp_trainer,
            "image-classifier": image_classifier_trainer}
DATA = {"diabetes": load_diabetes, "wine": load_wine, "cancer": load_breast_cancer}


@dataclass
class Job:
    """Runs trainers in this process, each in folders of its own, and their prediction scripts."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    programs: Path

    def train(self, name: str, *arguments: str, **channels: Path) -> Path:
        place = self.folder / f"job{len(list(self.folder.glob('job*')))}"
        self.monkeypatch.setenv("SM_MODEL_DIR", str(place / "model"))
        self.monkeypatch.setenv("SM_OUTPUT_DATA_DIR", str(place / "output"))
        for channel in ("train", "val", "validation", "test"):
            self.monkeypatch.delenv(f"SM_CHANNEL_{channel.upper()}", raising=False)
        for channel, path in channels.items():
            self.monkeypatch.setenv(f"SM_CHANNEL_{channel.upper()}", str(path))
        place.mkdir()
        TRAINERS[name].train(arguments)
        return place

    def predicted(self, place: Path, file: Path) -> dict[str, list[str]]:
        done = subprocess.run([self.programs / "python", place / "model" / "predict.py", file], capture_output=True,
                              text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        return columns_of(done.stdout)


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, programs: Path) -> Job:
    return Job(tmp_path, monkeypatch, programs)


@pytest.fixture
def halves(tmp_path: Path) -> Any:
    def write(name: str) -> tuple[Path, Path, Any, Any]:
        frame = DATA[name](as_frame=True).frame.sample(frac=1, random_state=1)
        first, second = frame.iloc[: len(frame) // 2], frame.iloc[len(frame) // 2:]
        first.to_csv(tmp_path / "first.csv", index=False)
        second.to_csv(tmp_path / "second.csv", index=False)
        return tmp_path / "first.csv", tmp_path / "second.csv", first, second

    return write


def columns_of(text: str) -> dict[str, list[str]]:
    header, *rows = csv.reader(io.StringIO(text))
    return {name: [row[place] for row in rows] for place, name in enumerate(header)}


def saved_predictions(place: Path, part: str = "validation") -> dict[str, list[str]]:
    return columns_of((place / "output" / f"{part}_predictions.csv").read_text("utf-8"))


def probabilities(columns: dict[str, list[str]]) -> Any:
    return np.array([[float(cell) for cell in cells] for name, cells in columns.items()
                     if name.startswith("probability_")]).T


def test_the_prediction_script_ends_silently_when_its_reader_has_enough(job: Job, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("size,target\n" + "".join(f"{row},{row % 7}\n" for row in range(50_000)), encoding="utf-8")
    script = job.train("linear", "--target", "target", "--task", "regression", train=table) / "model" / "predict.py"
    done = subprocess.run(f'"{job.programs}/python" "{script}" "{table}" | head -1', shell=True, capture_output=True,
                          text=True, timeout=600)
    assert (done.stdout, done.stderr) == ("prediction\n", "")


@pytest.mark.parametrize(("name", "data"), [("xgboost", "wine"), ("lightgbm", "diabetes"), ("linear", "cancer"),
                                            ("mlp", "diabetes")])
def test_the_prediction_script_gives_the_predictions_of_the_training(
    job: Job, halves: Any, name: str, data: str
) -> None:
    train, validation, _, _ = halves(data)
    place = job.train(name, "--target", "target", train=train, validation=validation)
    saved = saved_predictions(place)
    del saved["row"], saved["target"]
    assert job.predicted(place, validation) == saved


@pytest.mark.parametrize("extra", [[], ["--early_stopping_rounds", "3"]])
def test_xgboosts_linear_booster_is_like_linear_regression(job: Job, halves: Any, tmp_path: Path, extra: Any) -> None:
    _, _, first, second = halves("diabetes")
    for name, frame in (("train", first), ("validation", second)):
        shade = np.where(np.arange(len(frame)) % 3 == 0, "dark", "light")
        frame.assign(shade=shade, target=frame["target"] + 400.0 * (shade == "dark")).to_csv(
            tmp_path / f"{name}.csv", index=False)
    words = ["--target", "target", "--booster=gblinear", "--lambda", "0", "--num_round", "300", *extra]
    place = job.train("xgboost", *words, train=tmp_path / "train.csv", validation=tmp_path / "validation.csv")

    saved = saved_predictions(place)
    errors = np.array(saved["prediction"], float) - np.array(saved["target"], float)
    assert np.sqrt((errors ** 2).mean()) < 60.0, "the category explains 190 of the standard deviation, columns 20 more"
    del saved["row"], saved["target"]
    assert job.predicted(place, tmp_path / "validation.csv") == saved


def test_a_column_named_like_the_linear_booster_is_no_booster(job: Job, tmp_path: Path) -> None:
    frame = load_diabetes(as_frame=True).frame.rename(columns={"target": "gblinear"})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    place = job.train("xgboost", "--target", "gblinear", "--num_round", "2", train=tmp_path / "rows.csv")
    model = json.loads((place / "model/model.json").read_text())
    assert not any("mean" in column for column in model["columns"]), "trees need no standardized numbers"
    linear = job.train("xgboost", "--target=gblinear", "--booster=gblinear", train=tmp_path / "rows.csv")
    assert all("mean" in column for column in json.loads((linear / "model/model.json").read_text())["columns"])


def test_a_file_without_names_is_predicted_with_and_without_its_target(job: Job, tmp_path: Path) -> None:
    features, target = load_diabetes(return_X_y=True)
    frame = pd.DataFrame(np.column_stack([target, features]))
    for name, part in (("train", frame[:300]), ("rest", frame[300:]), ("new", frame.iloc[300:, 1:]),
                       ("narrow", frame.iloc[300:, 2:])):
        part.to_csv(tmp_path / f"{name}.csv", index=False, header=False)
    place = job.train("linear", train=tmp_path / "train.csv", val=tmp_path / "rest.csv", test=tmp_path / "rest.csv")
    expected = {"prediction": saved_predictions(place)["prediction"]}
    assert job.predicted(place, tmp_path / "rest.csv") == job.predicted(place, tmp_path / "new.csv") == expected
    assert saved_predictions(place, "test") == saved_predictions(place)
    model = json.loads((place / "model" / "model.json").read_text("utf-8"))
    with pytest.raises(table_prediction.BadData, match="has 9 columns; the model was trained on 11 with its target"):
        table_prediction.read_columns(tmp_path / "narrow.csv", model)


@pytest.mark.parametrize("name", ["xgboost", "lightgbm", "linear", "mlp"])
def test_predictions_of_the_split_rows_are_those_of_the_whole_file(job: Job, halves: Any, name: str) -> None:
    train, _, _, _ = halves("cancer")
    place = job.train(name, "--target", "target", train=train)
    model = json.loads((place / "model" / "model.json").read_text("utf-8"))
    matrix = table_prediction.features(table_prediction.read_columns(train, model), model)
    of_all = table_prediction.outputs(table_prediction.predict(place / "model", model, matrix), model["classes"])
    saved = saved_predictions(place)
    rows = [int(row) - 1 for row in saved["row"]]
    assert len(rows) == 57
    assert saved["probability_1"] == [of_all["probability_1"][row] for row in rows]


def test_xgboost_predicts_as_when_called_directly(job: Job, halves: Any) -> None:
    train, validation, first, second = halves("diabetes")
    place = job.train("xgboost", "--target", "target", "--eta", "0.1", "--max_depth", "3", "--subsample", "0.7",
                      "--num_round", "40", "--seed", "5", train=train, validation=validation)
    booster = xgboost.train(
        {"objective": "reg:squarederror", "eta": 0.1, "max_depth": 3, "subsample": 0.7, "seed": 5},
        xgboost.DMatrix(first.drop(columns="target"), first["target"]), 40)
    expected = booster.predict(xgboost.DMatrix(second.drop(columns="target")))
    assert np.array_equal(np.array(saved_predictions(place)["prediction"], np.float64), expected.astype(np.float64))


def test_xgboost_stops_early_as_when_called_directly(job: Job, halves: Any) -> None:
    train, validation, first, second = halves("wine")
    place = job.train("xgboost", "--target", "target", "--early_stopping_rounds", "3", train=train,
                      validation=validation)
    watched = xgboost.DMatrix(second.drop(columns="target"), second["target"])
    booster = xgboost.train({"objective": "multi:softprob", "num_class": 3, "seed": 0},
                            xgboost.DMatrix(first.drop(columns="target"), first["target"]), 100,
                            evals=[(watched, "v")], early_stopping_rounds=3, verbose_eval=False)
    expected = booster.predict(watched, iteration_range=(0, booster.best_iteration + 1))
    assert booster.best_iteration < 96
    assert np.array_equal(probabilities(saved_predictions(place)).astype(np.float32), expected)


def test_lightgbm_predicts_as_when_called_directly(job: Job, halves: Any) -> None:
    train, validation, first, second = halves("cancer")
    place = job.train("lightgbm", "--target", "target", "--num_leaves", "7", "--bagging_fraction", "0.6",
                      "--bagging_freq", "1", "--num_iterations", "30", "--seed", "3", train=train,
                      validation=validation)
    booster = lightgbm.train({"objective": "binary", "num_leaves": 7, "bagging_fraction": 0.6, "bagging_freq": 1,
                              "seed": 3, "verbosity": -1},
                             lightgbm.Dataset(first.drop(columns="target"), first["target"]), 30)
    expected = booster.predict(second.drop(columns="target"))
    assert np.array_equal(probabilities(saved_predictions(place))[:, 1], expected)


def test_ridge_predicts_as_scikit_learn(job: Job, halves: Any) -> None:
    train, validation, first, second = halves("diabetes")
    place = job.train("linear", "--target", "target", "--alpha", "0.5", train=train, validation=validation)
    direct = make_pipeline(StandardScaler(), Ridge(alpha=0.5)).fit(first.drop(columns="target"), first["target"])
    np.testing.assert_allclose(np.array(saved_predictions(place)["prediction"], np.float64),
                               direct.predict(second.drop(columns="target")), rtol=1e-10)


@pytest.mark.parametrize("data", ["cancer", "wine"])
def test_logistic_regression_predicts_as_scikit_learn(job: Job, halves: Any, data: str) -> None:
    train, validation, first, second = halves(data)
    place = job.train("linear", "--target", "target", "--C", "0.3", train=train, validation=validation)
    direct = make_pipeline(StandardScaler(), LogisticRegression(C=0.3))
    direct.fit(first.drop(columns="target"), first["target"])
    expected = direct.predict_proba(second.drop(columns="target"))
    # Standardizing differs by a rounding, and the solver stops at a tolerance of 1e-4.
    np.testing.assert_allclose(probabilities(saved_predictions(place)), expected, rtol=1e-3, atol=1e-6)
    assert saved_predictions(place)["prediction"] == [str(item) for item in expected.argmax(axis=1)]


def test_a_perceptron_predicts_as_scikit_learn_with_its_weights(
    job: Job, halves: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, validation, _, _ = halves("wine")
    made: list[Any] = []
    original = mlp_trainer.MLPClassifier
    monkeypatch.setattr(mlp_trainer, "MLPClassifier", lambda **values: made.append(original(**values)) or made[-1])
    place = job.train("mlp", "--target", "target", "--hidden_layer_sizes", "8,5", "--activation", "tanh",
                      "--max_iter", "9", "--n_iter_no_change", "20", train=train, validation=validation)
    metrics = json.loads((place / "output" / "metrics.json").read_text("utf-8"))
    assert (metrics["best_epoch"], metrics["epochs"], len(metrics["epoch_losses"])) == (9, 9, 9)
    model = json.loads((place / "model" / "model.json").read_text("utf-8"))
    matrix = table_prediction.features(table_prediction.read_columns(validation, model), model)
    np.testing.assert_allclose(probabilities(saved_predictions(place)), made[-1].predict_proba(matrix), rtol=1e-10)
    assert [size.shape for size in made[-1].coefs_] == [(13, 8), (8, 5), (5, 3)]


def test_a_perceptron_keeps_the_weights_of_its_best_epoch(job: Job, halves: Any) -> None:
    train, validation, _, _ = halves("diabetes")
    place = job.train("mlp", "--target", "target", "--learning_rate_init", "0.05", "--max_iter", "60",
                      "--n_iter_no_change", "5", train=train, validation=validation)
    metrics = json.loads((place / "output" / "metrics.json").read_text("utf-8"))
    assert metrics["epochs"] == metrics["best_epoch"] + 5 < 60
    saved = saved_predictions(place)
    errors = np.array(saved["prediction"], float) - np.array(saved["target"], float)
    assert metrics["validation"]["loss"] == pytest.approx(np.sqrt((errors**2).mean()))


def test_csv_parquet_and_libsvm_files_train_the_same_model(job: Job, tmp_path: Path) -> None:
    features, target = load_wine(return_X_y=True)
    frame = pd.DataFrame(features, columns=[f"feature{place}" for place in range(1, 14)]).assign(label=target)
    frame.to_csv(tmp_path / "wine.csv", index=False)
    frame.to_parquet(tmp_path / "wine.parquet")
    dump_svmlight_file(features, target, str(tmp_path / "wine.libsvm"), zero_based=False)
    folder = tmp_path / "parts"
    folder.mkdir()
    frame.iloc[:100].to_csv(folder / "part-0.csv", index=False)
    frame.iloc[100:].to_csv(folder / "part-1.csv", index=False)
    (folder / "_SUCCESS").touch()
    arguments = ["xgboost", "--target", "label", "--num_boost_round", "5"]
    found = [saved_predictions(job.train(*arguments, train=tmp_path / name))
             for name in ("wine.csv", "wine.parquet", "wine.libsvm", "parts")]
    assert found[0] == found[1] == found[2] == found[3]
    assert job.predicted(job.folder / "job0", tmp_path / "wine.parquet") == job.predicted(
        job.folder / "job2", tmp_path / "wine.libsvm")


def shop(rows: int = 200) -> pd.DataFrame:
    random = np.random.default_rng(0)
    frame = pd.DataFrame({"city": random.choice(["Köln", "Rome", "Oslo"], rows), "size": random.normal(70, 20, rows),
                          "class": random.choice(["a", "b"], rows)})
    frame["price"] = frame["size"] * 3 + frame["city"].map({"Köln": 0.0, "Rome": 50.0, "Oslo": 90.0})
    frame.loc[::7, "size"] = np.nan
    frame.loc[::9, "city"] = None
    return frame


def test_xgboost_splits_categories_as_when_called_directly_with_pandas(job: Job, tmp_path: Path) -> None:
    frame = shop()
    frame[:150].to_csv(tmp_path / "train.csv", index=False)
    frame[150:].to_parquet(tmp_path / "validation.parquet")
    place = job.train("xgboost", "--target", "price", "--num_boost_round", "10", train=tmp_path / "train.csv",
                      validation=tmp_path / "validation.parquet")
    typed = frame.drop(columns="price").astype({"city": pd.CategoricalDtype(["Köln", "Oslo", "Rome"]),
                                                "class": pd.CategoricalDtype(["a", "b"])})
    booster = xgboost.train({"objective": "reg:squarederror", "seed": 0},
                            xgboost.DMatrix(typed[:150], frame["price"][:150], enable_categorical=True), 10)
    expected = booster.predict(xgboost.DMatrix(typed[150:], enable_categorical=True))
    assert np.array_equal(np.array(saved_predictions(place)["prediction"], np.float64), expected.astype(np.float64))


def test_lightgbm_splits_categories_as_when_called_directly_with_pandas(job: Job, tmp_path: Path) -> None:
    frame = shop()
    frame[:150].to_csv(tmp_path / "train.csv", index=False)
    frame[150:].to_csv(tmp_path / "validation.csv", index=False)
    place = job.train("lightgbm", "--target", "price", "--num_iterations", "10", train=tmp_path / "train.csv",
                      validation=tmp_path / "validation.csv")
    typed = frame.drop(columns="price").astype({"city": pd.CategoricalDtype(["Köln", "Oslo", "Rome"]),
                                                "class": pd.CategoricalDtype(["a", "b"])})
    booster = lightgbm.train({"objective": "regression", "seed": 0, "verbosity": -1},
                             lightgbm.Dataset(typed[:150], frame["price"][:150]), 10)
    assert np.array_equal(np.array(saved_predictions(place)["prediction"], np.float64), booster.predict(typed[150:]))


def test_a_linear_model_has_a_feature_for_each_category(job: Job, tmp_path: Path) -> None:
    frame = shop().dropna()
    frame.to_csv(tmp_path / "train.csv", index=False)
    place = job.train("linear", "--target", "price", "--alpha", "0.001", train=tmp_path / "train.csv")
    metrics = json.loads((place / "output" / "metrics.json").read_text("utf-8"))
    assert metrics["validation"]["r2"] > 0.999


def test_an_unknown_category_and_a_missing_column_are_told_apart(job: Job, tmp_path: Path) -> None:
    shop().to_csv(tmp_path / "train.csv", index=False)
    place = job.train("xgboost", "--target", "price", "--num_boost_round", "3", train=tmp_path / "train.csv")
    (tmp_path / "new.csv").write_text("size,city,class\n80,Paris,a\n", encoding="utf-8")
    assert len(job.predicted(place, tmp_path / "new.csv")["prediction"]) == 1
    (tmp_path / "short.csv").write_text("size,class\n80,a\n", encoding="utf-8")
    script = place / "model" / "predict.py"
    done = subprocess.run([sys.executable, str(script), str(tmp_path / "short.csv")], capture_output=True, text=True,
                          timeout=600)
    assert done.returncode == 1
    assert done.stderr == f'predict.py: {tmp_path / "short.csv"} has no column "city". Columns: size, class.\n'


def test_text_classes_and_yes_or_no_are_predicted_by_name(job: Job, tmp_path: Path) -> None:
    frame = shop()
    frame["sold"] = frame["price"] > 260
    frame.to_parquet(tmp_path / "train.parquet")
    place = job.train("lightgbm", "--target", "sold", train=tmp_path / "train.parquet")
    model = json.loads((place / "model" / "model.json").read_text("utf-8"))
    assert (model["task"], model["classes"]) == ("classification", ["False", "True"])
    assert set(saved_predictions(place)["prediction"]) == {"False", "True"}
    metrics = json.loads((place / "output" / "metrics.json").read_text("utf-8"))
    assert metrics["validation"]["auc"] > 0.9


@pytest.mark.parametrize(("name", "arguments", "message"), [
    ("xgboost", ["--max_dept", "3"], 'XGBoost does not use the parameter "max_dept" here. Did you mean "max_depth"?'),
    ("lightgbm", ["--num_leafs", "3"], 'LightGBM has no parameter "num_leafs". Did you mean "num_leaves"?'),
    ("linear", ["--alfa", "3"], 'Ridge has no parameter "alfa". Did you mean "alpha"?'),
    ("mlp", ["--hidden_layers", "3"], 'MLPRegressor has no parameter "hidden_layers". '
                                      'Did you mean "hidden_layer_sizes"?'),
])
def test_a_parameter_that_the_library_lacks_is_refused(
    job: Job, halves: Any, name: str, arguments: list[str], message: str
) -> None:
    with pytest.raises(UnknownName) as caught:
        job.train(name, "--target", "target", *arguments, train=halves("diabetes")[0])
    assert str(caught.value) == message


@pytest.mark.parametrize(("name", "arguments", "message"), [
    ("xgboost", ["--eta", "fast"], 'eta is "fast"; it must be a number.'),
    ("xgboost", ["--subsample", "7"], "XGBoost refuses the parameters: .*subsample.*"),
    ("xgboost", ["--tree_method", "magic"], "XGBoost refuses the parameters: .*'magic', valid values are.*"),
    ("lightgbm", ["--max_bin", "many"], "LightGBM refuses the parameters: .*max_bin.*"),
    ("linear", ["--solver", "magic"], "Ridge refuses: .*solver.*"),
    ("mlp", ["--alpha", "-1"], "MLPRegressor refuses: .*alpha.*"),
    ("mlp", ["--solver", "lbfgs"], 'solver is "lbfgs"; it must be adam or sgd.'),
    ("linear", ["--validation-fraction", "1.5"], "--validation_fraction is 1.5; it must be between 0 and 1."),
    ("xgboost", ["--foo"], "--foo has no value."),
])
def test_a_wrong_value_is_refused(job: Job, halves: Any, name: str, arguments: list[str], message: str) -> None:
    with pytest.raises(SettingsError, match=f"^{message}$"):
        job.train(name, "--target", "target", *arguments, train=halves("diabetes")[0])


def test_an_objective_without_probabilities_is_refused(job: Job, halves: Any) -> None:
    with pytest.raises(SettingsError) as caught:
        job.train("xgboost", "--target", "target", "--objective", "multi:softmax", train=halves("wine")[0])
    assert str(caught.value) == ("objective is multi:softmax, which predicts no probabilities of 3 classes. "
                                 "Use multi:softprob, or pass --task regression.")


def test_a_solver_of_one_class_against_the_rest_is_refused(job: Job, halves: Any) -> None:
    with pytest.raises(SettingsError, match="liblinear fits one class against the rest"):
        job.train("linear", "--target", "target", "--solver", "liblinear", train=halves("wine")[0])
    job.train("linear", "--target", "target", "--solver", "liblinear", train=halves("cancer")[0])


@pytest.mark.parametrize("booster", ["gblinear", "dart"])
def test_other_boosters_of_xgboost_train(job: Job, halves: Any, booster: str) -> None:
    train, validation, _, _ = halves("diabetes")
    place = job.train("xgboost", "--target", "target", "--booster", booster, "--num_boost_round", "12", train=train,
                      validation=validation)
    metrics = json.loads((place / "output" / "metrics.json").read_text("utf-8"))
    assert (metrics["rounds"], metrics["validation"]["r2"] > 0.2) == (12, True)


@pytest.mark.parametrize("arguments", [[], ["--help"]])
@pytest.mark.parametrize("module", [table_prediction, image_prediction])
def test_a_prediction_script_without_data_says_how_it_is_called(module: Any, arguments: list[str]) -> None:
    with pytest.raises(SystemExit, match=r"^usage: python predict\.py "):
        module.main(arguments)


@pytest.mark.parametrize("module", [table_prediction, image_prediction])
def test_prediction_scripts_import_nothing_of_barograph(module: Any) -> None:
    tree = ast.parse(Path(module.__file__).read_text("utf-8"))
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert names
    assert not [name for name in names if name.startswith("barograph")]


@pytest.mark.parametrize(("name", "data", "arguments"), [
    ("xgboost", "diabetes", ["--num_round", "200", "--early_stopping_rounds", "5"]),
    ("lightgbm", "wine", ["--num_iterations", "200", "--early_stopping_rounds", "5"]),
    ("linear", "cancer", []),
    ("mlp", "diabetes", ["--max_iter", "3"]),
])
def test_a_refitted_model_has_learned_all_rows_and_is_validated_before(
    job: Job, halves: Any, capsys: pytest.CaptureFixture[str], name: str, data: str, arguments: list[str]
) -> None:
    train, validation, first, second = halves(data)
    parts = {"train": train, "validation": validation}
    usual = job.train(name, "--target", "target", *arguments, **parts)
    capsys.readouterr()
    place = job.train(name, "--target", "target", "--refit", "yes", *arguments, test=validation, **parts)
    assert f"Model refitted on all {len(first) + len(second)} rows" in capsys.readouterr().out
    facts, before = (json.loads((one / "output/metrics.json").read_text()) for one in (place, usual))
    assert facts["validation"] == before["validation"], "the validation rows judge the model that has not seen them"
    assert saved_predictions(place) == saved_predictions(usual)
    assert facts["test"]["loss"] < before["validation"]["loss"], "the refitted model has learned these rows"
    assert json.loads((place / "model/model.json").read_text())["refitted_rows"] == len(first) + len(second)


@pytest.mark.parametrize(("name", "rounds"), [("xgboost", "--num_round"), ("lightgbm", "--num_iterations")])
def test_trees_are_refitted_with_the_best_number_of_rounds(
    job: Job, halves: Any, tmp_path: Path, name: str, rounds: str
) -> None:
    train, validation, first, second = halves("diabetes")
    refitted = job.train(name, "--target", "target", rounds, "200", "--early_stopping_rounds", "5", "--refit", "yes",
                         train=train, validation=validation)
    best = json.loads((refitted / "output/metrics.json").read_text())["rounds"]
    assert 0 < best < 200
    pd.concat([first, second]).to_csv(tmp_path / "all.csv", index=False)
    direct = job.train(name, "--target", "target", rounds, str(best), train=tmp_path / "all.csv", validation=validation)
    assert job.predicted(refitted, validation) == job.predicted(direct, validation)


@pytest.mark.parametrize(("name", "data", "arguments"), [
    ("xgboost", "diabetes", ["--num_round", "200", "--early_stopping_rounds", "5"]),
    ("xgboost", "cancer", ["--booster", "gblinear", "--num_round", "30", "--early_stopping_rounds", "5"]),
    ("xgboost", "wine", ["--num_round", "5"]),
    ("lightgbm", "wine", ["--num_iterations", "200", "--early_stopping_rounds", "5"]),
    ("lightgbm", "diabetes", ["--num_iterations", "5"]),
    ("linear", "cancer", []),
    ("linear", "diabetes", []),
    ("mlp", "diabetes", ["--max_iter", "3"]),
    ("mlp", "wine", ["--max_iter", "3"]),
])
def test_with_folds_every_row_validates_once_and_the_model_has_learned_all(
    job: Job, halves: Any, name: str, data: str, arguments: list[str]
) -> None:
    train, test, rows, _ = halves(data)
    place = job.train(name, "--target", "target", "--folds", "3", *arguments, train=train, test=test)
    facts, model = (json.loads((place / file).read_text()) for file in ("output/metrics.json", "model/model.json"))
    saved = saved_predictions(place)
    assert saved["row"] == [str(row) for row in range(1, len(rows) + 1)]
    assert facts["folds"] == 3
    assert facts["rows"] == {"train": len(rows), "validation": len(rows), "test": len(pd.read_csv(test))}
    assert model["refitted_rows"] == len(rows)
    tested = saved_predictions(place, "test")
    del tested["row"], tested["target"]
    assert job.predicted(place, test) == tested
    if data == "diabetes":
        errors = np.array(saved["prediction"], float) - np.array(saved["target"], float)
        folds = folds_of(Target(rows["target"].to_numpy(), None, ""), 3, 0)
        means = [float(np.sqrt((errors[fold] ** 2).mean())) for fold in folds]
        assert facts["validation"]["loss"] == pytest.approx(fmean(means))
    assert facts["validation"]["loss"] > facts["train"]["loss"], "a model predicts the rows better that it has learned"


def test_folds_and_rounds_are_those_of_xgboosts_own_cross_validation(job: Job, halves: Any) -> None:
    train, _, rows, _ = halves("diabetes")
    place = job.train("xgboost", "--target", "target", "--folds", "4", "--seed", "2", "--num_round", "100",
                      "--early_stopping_rounds", "3", "--eta", "0.1", "--max_depth", "2", train=train)
    data = xgboost.DMatrix(rows.drop(columns="target").to_numpy(), label=rows["target"].to_numpy())
    folds = folds_of(Target(rows["target"].to_numpy(), None, ""), 4, 2)
    history = xgboost.cv(
        {"eta": 0.1, "max_depth": 2, "objective": "reg:squarederror", "seed": 2}, data, 100, as_pandas=False,
        folds=[(np.setdiff1d(np.arange(len(rows)), fold), fold) for fold in folds], early_stopping_rounds=3)
    facts = json.loads((place / "output/metrics.json").read_text())
    assert facts["rounds"] == len(history["test-rmse-mean"])
    assert facts["validation"]["rmse"] == pytest.approx(history["test-rmse-mean"][-1], rel=1e-5)


def test_few_rows_have_five_folds_by_themselves(job: Job, halves: Any, tmp_path: Path) -> None:
    train, validation, rows, _ = halves("diabetes")
    few = job.train("linear", "--target", "target", "--folds", "auto", train=train)
    assert json.loads((few / "output/metrics.json").read_text())["folds"] == 5
    given = job.train("linear", "--target", "target", "--folds", "auto", train=train, validation=validation)
    pd.concat([rows] * 10).to_csv(tmp_path / "many.csv", index=False)
    many = job.train("linear", "--target", "target", "--folds", "auto", train=tmp_path / "many.csv")
    for place in (given, many):
        assert "folds" not in json.loads((place / "output/metrics.json").read_text())


@pytest.mark.parametrize(("arguments", "message"), [
    (["--folds", "400"], "--folds is 400, but there are only 221 rows. Use fewer folds."),
    (["--folds", "9", "--task", "classification"], 'only 1 row of the class "42". Use fewer folds.'),
])
def test_more_folds_than_rows_are_refused(job: Job, halves: Any, arguments: list[str], message: str) -> None:
    train, _, _, _ = halves("diabetes")
    with pytest.raises(SettingsError) as caught:
        job.train("linear", "--target", "target", *arguments, train=train)
    assert message in str(caught.value)


def test_folds_beside_rows_for_validation_are_refused(job: Job, halves: Any) -> None:
    train, validation, _, _ = halves("diabetes")
    with pytest.raises(SettingsError, match="remove --folds"):
        job.train("linear", "--target", "target", "--folds", "3", train=train, validation=validation)


def test_folds_have_the_same_part_of_every_class() -> None:
    target = Target(np.repeat([0.0, 1.0], [40, 20]), ("cat", "dog"), "")
    folds = folds_of(target, 4, seed=3)
    assert sorted(np.concatenate(folds).tolist()) == list(range(60))
    assert [np.bincount(target.values[fold].astype(int)).tolist() for fold in folds] == [[10, 5]] * 4
    assert [fold.tolist() for fold in folds_of(target, 4, seed=3)] == [fold.tolist() for fold in folds]
    assert folds_of(target, 4, seed=4)[0].tolist() != folds[0].tolist()


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from PIL import Image

    root = tmp_path_factory.mktemp("digits")
    digits = load_digits()
    for number, (pixels, target) in enumerate(zip(digits.images[:700], digits.target, strict=False)):
        folder = root / ("train" if number < 500 else "validation") / f"digit {target}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray((pixels * 15).astype(np.uint8)).save(folder / f"{number:04}.png")
    return root


def test_images_are_classified_and_the_script_predicts_the_same(job: Job, images: Path) -> None:
    place = job.train("image-classifier", "--epochs", "8", "--channels", "16", "--lr", "0.005", train=images / "train",
                      validation=images / "validation")
    metrics = json.loads((place / "output" / "metrics.json").read_text("utf-8"))
    assert metrics["validation"]["accuracy"] > 0.8
    saved = saved_predictions(place)
    again = job.predicted(place, images / "validation")
    assert [Path(name).relative_to(images / "validation").as_posix() for name in again.pop("file")] == saved.pop("file")
    assert set(saved.pop("target")) == {f"digit {number}" for number in range(10)}
    assert again == saved


def test_a_refitted_image_classifier_has_learned_all_images(job: Job, images: Path) -> None:
    arguments = ["image-classifier", "--epochs", "2", "--channels", "8", "--lr", "0.01"]
    usual = job.train(*arguments, train=images)
    refitted = job.train(*arguments, "--refit", "yes", train=images)
    before, after = (json.loads((one / "output/metrics.json").read_text()) for one in (usual, refitted))
    assert after["validation"] == before["validation"]
    assert json.loads((refitted / "model/model.json").read_text())["refitted_rows"] == 700
    assert job.predicted(refitted, images) != job.predicted(usual, images)


def test_a_split_of_images_predicts_the_same_and_is_seeded(job: Job, images: Path) -> None:
    arguments = ["image-classifier", "--epochs", "1", "--channels", "8", "--seed", "4"]
    first, second = (job.train(*arguments, train=images / "train") for _ in range(2))
    assert saved_predictions(first) == saved_predictions(second)
    of_all = job.predicted(first, images / "train")
    places = {str(Path(name).relative_to(images / "train")): place for place, name in enumerate(of_all["file"])}
    saved = saved_predictions(first)
    assert len(saved["file"]) == 100
    assert saved["probability_digit 3"] == [of_all["probability_digit 3"][places[name]] for name in saved["file"]]


def test_folders_that_are_no_classes_and_broken_images_are_refused(job: Job, images: Path, tmp_path: Path) -> None:
    with pytest.raises(table_prediction.BadData, match="has 0 folders; expected one for each class"):
        job.train("image-classifier", train=images / "train" / "digit 3")
    (tmp_path / "two" / "cat").mkdir(parents=True)
    (tmp_path / "two" / "dog").mkdir()
    with pytest.raises(table_prediction.BadData, match="cat has no images"):
        job.train("image-classifier", train=tmp_path / "two")
    for name in ("cat", "dog"):
        for number in range(3):
            (tmp_path / "two" / name / f"{number}.png").write_bytes(b"no image")
    with pytest.raises(table_prediction.BadData, match=r"the image .*cat/0\.png: .* Replace or remove it\."):
        job.train("image-classifier", train=tmp_path / "two")


def test_an_unknown_parameter_of_the_image_classifier_is_refused(job: Job, images: Path) -> None:
    with pytest.raises(UnknownName) as caught:
        job.train("image-classifier", "--epoch", "3", train=images / "train")
    assert str(caught.value) == 'The image classifier has no parameter "epoch". Did you mean "epochs"?'
