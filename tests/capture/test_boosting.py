"""XGBoost, LightGBM and scikit-learn's own: recorded with nothing in the script, by rounds, each fit a series."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import barograph
from barograph.attached import AttachedRun
from barograph.errors import SettingsError, TrainingStopped
from barograph.model.step import Mode
from barograph.runs.reading.reader import RunReader
from barograph.testing.frameworks import FrameworkConformance, Task

NO_ACCUMULATION = "a round grows its trees from all samples at once"
NO_EVALUATION_APART = "it evaluates after every round, where it is given a data set to evaluate on"
TREES = "it is made of trees"


def table(seed: int = 0, rows: int = 300) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 5))
    return x, (x[:, 0] + 0.5 * x[:, 1] > 0).astype(np.int64)


def recorded(name: str, train: Callable[[AttachedRun], Any], **settings: Any) -> RunReader:
    url = f"memory://boosting/{name}"
    wanted = {"strict": True, "budget": None, "preset": "everything", **settings}
    with barograph.attach(to=url, watch=False, **wanted) as run:
        train(run)
    return barograph.open(url)


class Spoilt:
    """A metric that is not a number in one round."""

    def __init__(self, at: int | None) -> None:
        self.at = at
        self.calls = 0

    def __call__(self) -> float:
        self.calls += 1
        return float("nan") if self.calls - 1 == self.at else 1.0 / self.calls


# XGBoost


class TestXGBoost(FrameworkConformance):
    framework = "xgboost"
    without_accumulation = NO_ACCUMULATION
    without_evaluation = NO_EVALUATION_APART
    without_weights = TREES
    many_steps = 40

    def train(self, task: Task, run: AttachedRun | None) -> Mapping[str, Any]:
        xgboost = pytest.importorskip("xgboost", reason="XGBoost is not installed here")
        x, y = table(task.seed)
        data = xgboost.DMatrix(x, y)
        spoilt = Spoilt(task.nan_at)
        model = xgboost.train(
            {"objective": "binary:logistic", "max_depth": 3, "subsample": 0.5, "seed": task.seed, "nthread": 1,
             "disable_default_eval_metric": 1},
            data, task.steps, evals=[(data, "train")], verbose_eval=False,
            custom_metric=lambda answers, _: ("loss", spoilt()))
        return {"answers": model.predict(data)}


@pytest.fixture(scope="module")
def boosted() -> RunReader:
    xgboost = pytest.importorskip("xgboost", reason="XGBoost is not installed here")
    x, y = table()
    data, held_out = xgboost.DMatrix(x[:200], y[:200]), xgboost.DMatrix(x[200:], y[200:])

    def train(run: AttachedRun) -> None:
        from barograph.xgboost import Callback

        xgboost.train({"objective": "binary:logistic", "eval_metric": ["logloss", "auc"], "max_depth": 3, "eta": 0.25},
                      data, 12, evals=[(data, "train"), (held_out, "held_out")], verbose_eval=False,
                      callbacks=[Callback(shap=x[:10])])
        xgboost.XGBRegressor(n_estimators=3, max_depth=2).fit(x, x[:, 2])

    return recorded("xgboost", train)


def test_xgboost_metrics_are_series_by_data_set_and_losses_by_mode(boosted: RunReader) -> None:
    assert boosted.series("scalar:train.logloss").steps.tolist() == list(range(12))
    first = boosted.series("loss:total", optimizer="")
    assert first.values.tolist() == boosted.series("scalar:train.logloss").values.tolist()
    held_out = boosted.series("loss:total", mode=Mode.EVAL)
    assert held_out.steps.tolist() == list(range(1, 13))
    assert held_out.values.tolist() == boosted.series("scalar:held_out.logloss").values.tolist()
    assert "loss:train.auc" not in map(str, boosted.keys())


def test_xgboost_trees_are_told_by_round(boosted: RunReader) -> None:
    assert boosted.series("tree:depth", optimizer="").values.max() == 3
    leaves, splits = (boosted.series(f"tree:{name}", optimizer="").values for name in ("leaves", "splits"))
    assert (leaves - splits == 1).all()
    assert boosted.series("tree:depth", optimizer="#2").steps.tolist() == [0, 1, 2]


def test_xgboost_importance_of_every_kind_is_that_of_the_model(boosted: RunReader) -> None:
    kinds = {str(key).partition("[")[2] for key in boosted.keys(kind="importance")}
    assert kinds == {"", "weight]", "gain]", "cover]", "total_cover]", "shap]"}
    total = boosted.series("importance:f0", optimizer="").values
    gain = boosted.series("importance:f0[gain]", optimizer="").values
    weight = boosted.series("importance:f0[weight]", optimizer="").values
    assert total == pytest.approx(gain * weight, rel=1e-4)
    assert boosted.series("importance:f0[shap]", optimizer="").values[-1] > (
        boosted.series("importance:f4[shap]", optimizer="").values[-1])


def test_xgboost_labels_answers_and_hyperparameters_are_there(boosted: RunReader) -> None:
    _, y = table()
    assert boosted.series("label:train[1]").values[0] == y[:200].sum()
    right = sum(boosted.series(f"confusion:held_out[{label},{label}]", mode=Mode.EVAL).values[-1] for label in (0, 1))
    assert 80 < right <= 100
    assert boosted.series("learning_rate:group0", optimizer="").values[0] == pytest.approx(0.25)
    assert boosted.series("scalar:hyperparameter[max_depth]").values[0] == 3
    told = json.loads(bytes(boosted.tensor("custom:hyperparameters", 0)))
    assert told["grow_policy"] == "depthwise"


def test_xgboost_goes_on_counting_where_a_model_is_trained_on() -> None:
    xgboost = pytest.importorskip("xgboost", reason="XGBoost is not installed here")
    x, y = table()
    data = xgboost.DMatrix(x, y)
    model = xgboost.train({"objective": "binary:logistic"}, data, 3)
    read = recorded("xgboost-on", lambda run: xgboost.train({"objective": "binary:logistic"}, data, 2, xgb_model=model))
    assert read.series("tree:depth").steps.tolist() == [3, 4]


@pytest.mark.parametrize("stops_early", [False, True])
def test_of_the_last_round_everything_is_told_though_the_budget_has_no_room(stops_early: bool) -> None:
    xgboost = pytest.importorskip("xgboost", reason="XGBoost is not installed here")
    x, y = table()
    data, held_out = xgboost.DMatrix(x[:200], y[:200]), xgboost.DMatrix(x[200:], y[200:])
    models: list[Any] = []

    class Enough(xgboost.callback.TrainingCallback):  # type: ignore[misc, name-defined]
        def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            return stops_early and epoch == 33

    def train(run: AttachedRun) -> None:
        models.append(xgboost.train({"objective": "binary:logistic", "nthread": 1}, data, 40, verbose_eval=False,
                                    evals=[(data, "train"), (held_out, "valid")], callbacks=[Enough()]))

    run = recorded(f"last-{stops_early}", train, budget=1e-9, preset="standard", rules="all")
    last = 33 if stops_early else 39

    gains = run.series("importance:f0")
    assert (gains.steps[-1], len(gains.steps) < 20) == (last, True)
    for kind in ("total_gain", "weight", "gain", "cover", "total_cover"):
        told = run.series("importance:f0" if kind == "total_gain" else f"importance:f0[{kind}]")
        assert told.values[-1] == models[0].get_score(importance_type=kind)["f0"], kind
    answers = models[0].predict(held_out) > 0.5
    right = [run.series(f"confusion:valid[{label},{label}]", mode=Mode.EVAL) for label in (0, 1)]
    assert [series.steps[-1] for series in right] == [last + 1] * 2
    assert sum(series.values[-1] for series in right) == (answers == y[200:]).sum()


def test_a_training_of_xgboost_is_stopped_between_two_rounds() -> None:
    xgboost = pytest.importorskip("xgboost", reason="XGBoost is not installed here")
    x, y = table()

    def train(run: AttachedRun) -> None:
        run._recording.session.steering.request_stop("Enough.", after_steps=2)
        xgboost.train({"objective": "binary:logistic"}, xgboost.DMatrix(x, y), 5)

    with pytest.raises(TrainingStopped):
        recorded("xgboost-stop", train)
    assert barograph.open("memory://boosting/xgboost-stop").series("tree:depth").steps.tolist() == [0, 1]


def test_a_linear_booster_has_no_trees_and_says_what_its_features_count_for() -> None:
    xgboost = pytest.importorskip("xgboost", reason="XGBoost is not installed here")
    x, y = table()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # XGBoost says that it will go
        read = recorded("xgboost-linear", lambda run: xgboost.train(
            {"booster": "gblinear", "objective": "binary:logistic"}, xgboost.DMatrix(x, y), 2))
    assert read.keys(kind="tree") == []
    assert len(read.keys(kind="importance")) == 5
    assert read.workers[0].last.coverage.reasons == (
        "no loss was recorded: the training has no evaluation set, or no metric that is a loss",)


def _rates_of(read: RunReader) -> list[float]:
    series = read.series("learning_rate:group0")
    assert series.steps.tolist() == list(range(len(series.steps)))
    return [float(value) for value in series.values]


@pytest.mark.parametrize("way", ["constant", "scheduler", "before the round", "estimator", "linear"])
def test_xgboost_learning_rate_of_every_round_is_the_one_it_was_trained_with(way: str) -> None:
    xgboost = pytest.importorskip("xgboost", reason="XGBoost is not installed here")
    x, y = table()
    data = xgboost.DMatrix(x, y)
    planned = [0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.04, 0.03, 0.02, 0.01]

    class BeforeTheRound(xgboost.callback.TrainingCallback):
        def before_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
            model.set_param({"eta": planned[epoch]})
            return False

    params: dict[str, Any] = {"objective": "binary:logistic", "eta": 0.5, "booster": "gbtree"}
    # XGBoost's own scheduler sets the rate of the next round once a round has ended.
    scheduler = xgboost.callback.LearningRateScheduler(lambda epoch: (*planned[1:], 0.9)[epoch])

    def train(run: AttachedRun) -> None:
        if way == "estimator":
            xgboost.XGBClassifier(n_estimators=10, learning_rate=0.5, callbacks=[scheduler]).fit(x, y)
            return
        callbacks = {"scheduler": [scheduler], "before the round": [BeforeTheRound()]}.get(way, [])
        booster = {"booster": "gblinear"} if way == "linear" else {}
        xgboost.train({**params, **booster}, data, 10, callbacks=callbacks)

    # With a budget without room for tensors, most rounds record no trees.
    read = recorded(f"xgboost-rates-{way}", train, budget=1e-9, preset="moments")
    assert _rates_of(read) == pytest.approx([0.5] * 10 if way in ("constant", "linear") else planned)


@pytest.mark.parametrize("way", ["constant", "schedule", "alias", "another alias", "by hand", "after the round"])
def test_lightgbm_learning_rate_of_every_round_is_the_one_it_was_trained_with(way: str) -> None:
    lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed here")
    x, y = table()
    planned = [0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.04, 0.03, 0.02, 0.01]

    def by_hand(env: Any) -> None:
        env.model.reset_parameter({"learning_rate": planned[env.iteration]})

    def after_the_round(env: Any) -> None:
        env.model.reset_parameter({"learning_rate": (*planned, 0.9)[env.iteration + 1]})

    by_hand.before_iteration = True  # type: ignore[attr-defined]  # LightGBM reads it off the function
    by_alias = lightgbm.reset_parameter(eta=planned)
    callbacks = {"schedule": lightgbm.reset_parameter(learning_rate=planned), "alias": by_alias,
                 "another alias": by_alias, "by hand": by_hand, "after the round": after_the_round}
    params = {"objective": "binary", "verbose": -1, "eta" if way == "alias" else "learning_rate": 0.5}
    read = recorded(f"lightgbm-rates-{way}", lambda run: lightgbm.train(
        params, lightgbm.Dataset(x, y), 10, callbacks=[callbacks[way]] if way in callbacks else []),
        budget=1e-9, preset="moments")
    assert _rates_of(read) == pytest.approx([0.5] * 10 if way == "constant" else planned)


def test_a_callback_without_a_run_says_so() -> None:
    pytest.importorskip("xgboost", reason="XGBoost is not installed here")
    from barograph.xgboost import Callback

    with pytest.raises(SettingsError, match=r"barograph\.xgboost\.Callback needs a run"):
        Callback()


def test_a_deep_tree_and_a_feature_that_gives_the_label_away_are_found() -> None:
    xgboost = pytest.importorskip("xgboost", reason="XGBoost is not installed here")
    from barograph.rules.trees import FeatureImportanceOverweight, TreeDepth
    from barograph.testing.rules import judged

    rng = np.random.default_rng(0)
    x = rng.normal(size=(3000, 6))
    y = (x[:, 3] > 0).astype(int)
    leak = recorded("xgboost-leak", lambda run: xgboost.train(
        {"objective": "binary:logistic"}, xgboost.DMatrix(x, y), 40), preset="standard")
    found = judged(FeatureImportanceOverweight(), list(leak.views()))
    assert found
    assert '"f3" has' in found[0].message
    deep = recorded("xgboost-deep", lambda run: xgboost.train(
        {"max_depth": 0, "max_leaves": 0, "grow_policy": "lossguide", "min_child_weight": 0, "reg_lambda": 0},
        xgboost.DMatrix(np.arange(400.0)[:, None], np.exp(np.arange(400.0) / 20)), 5), preset="standard")
    assert judged(TreeDepth(depth=8), list(deep.views()))


# LightGBM


class TestLightGBM(FrameworkConformance):
    framework = "lightgbm"
    without_accumulation = NO_ACCUMULATION
    without_evaluation = NO_EVALUATION_APART
    without_weights = TREES
    many_steps = 40

    def train(self, task: Task, run: AttachedRun | None) -> Mapping[str, Any]:
        lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed here")
        x, y = table(task.seed)
        data = lightgbm.Dataset(x, y)
        spoilt = Spoilt(task.nan_at)
        model = lightgbm.train(
            {"objective": "binary", "metric": "none", "num_leaves": 7, "bagging_fraction": 0.5, "bagging_freq": 1,
             "seed": task.seed, "num_threads": 1, "verbose": -1, "deterministic": True},
            data, task.steps, valid_sets=[data], feval=lambda answers, _: ("loss", spoilt(), False))
        return {"answers": model.predict(x)}


def test_lightgbm_is_recorded_by_both_of_its_interfaces() -> None:
    lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed here")
    x, y = table()
    data = lightgbm.Dataset(x[:200], y[:200])
    held_out = lightgbm.Dataset(x[200:], y[200:], reference=data)

    def train(run: AttachedRun) -> None:
        from barograph.lightgbm import Callback

        lightgbm.train({"objective": "binary", "metric": ["binary_logloss", "auc"], "num_leaves": 7, "verbose": -1},
                       data, 8, valid_sets=[data, held_out], valid_names=["train", "held_out"],
                       callbacks=[Callback(shap=x[:10])])
        lightgbm.LGBMClassifier(n_estimators=3, verbose=-1).fit(x, y + (x[:, 2] > 1))

    read = recorded("lightgbm", train)
    assert read.series("loss:total", optimizer="").values.tolist() == (
        read.series("scalar:train.binary_logloss").values.tolist())
    assert read.series("loss:total", mode=Mode.EVAL, optimizer="").steps.tolist() == list(range(1, 9))
    assert read.series("tree:leaves", optimizer="").values.max() <= 7
    assert read.series("tree:trees", optimizer="#2").values.tolist() == [3, 3, 3]
    assert {str(key).partition("[")[2] for key in read.keys(kind="importance")} == {"", "split]", "shap]"}
    assert read.series("confusion:held_out[1,1]", mode=Mode.EVAL).values[-1] > 30
    assert read.series("importance:Column_0", optimizer="").values[-1] > (
        read.series("importance:Column_4", optimizer="").values[-1])


def test_lightgbm_early_stopping_stops_after_the_round_was_told() -> None:
    lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed here")
    x, y = table()
    data = lightgbm.Dataset(x[:200], y[:200])
    noise = lightgbm.Dataset(x[200:], 1 - y[200:], reference=data)
    read = recorded("lightgbm-early", lambda run: lightgbm.train(
        {"objective": "binary", "verbose": -1}, data, 50, valid_sets=[noise],
        callbacks=[lightgbm.early_stopping(3, verbose=False)]))
    assert read.series("tree:depth").steps.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(("stopping", "on_training", "told"), [
    (None, False, (0.0, 0.0)), (20, False, (20.0, 0.0)), (20, True, (20.0, 1.0)),
])
def test_lightgbm_tells_what_is_planned_and_what_ends_it(
    stopping: int | None, on_training: bool, told: tuple[float, float]
) -> None:
    lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed here")
    x, y = table()
    data = lightgbm.Dataset(x[:200], y[:200])
    judged = data if on_training else lightgbm.Dataset(x[200:], y[200:], reference=data)
    callbacks = [] if stopping is None else [lightgbm.early_stopping(stopping, verbose=False)]

    def train(run: AttachedRun) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # LightGBM says itself that it will not stop by training data
            lightgbm.train({"objective": "binary", "verbose": -1}, data, 12, valid_sets=[judged], callbacks=callbacks)

    read = recorded(f"lightgbm-plan-{stopping}-{on_training}", train)
    assert read.series("fact:rounds_planned").values[0] == 12.0
    assert (read.series("fact:early_stopping").values[0],
            read.series("fact:early_stopping[training]").values[0]) == told


@pytest.mark.parametrize(("last", "on_training"), [("train", 1.0), ("held_out", 0.0)])
def test_xgboost_tells_what_is_planned_and_what_ends_it(last: str, on_training: float) -> None:
    xgboost = pytest.importorskip("xgboost", reason="XGBoost is not installed here")
    x, y = table()
    sets = {"train": xgboost.DMatrix(x[:200], y[:200]), "held_out": xgboost.DMatrix(x[200:], y[200:])}
    evals = [(data, name) for name, data in sets.items() if name != last] + [(sets[last], last)]
    read = recorded(f"xgboost-plan-{last}", lambda run: xgboost.train(
        {"objective": "binary:logistic"}, sets["train"], 7, evals=evals, early_stopping_rounds=5, verbose_eval=False))
    assert read.series("fact:rounds_planned").values[0] == 7.0
    assert read.series("fact:early_stopping").values[0] == 5.0
    assert read.series("fact:early_stopping[training]").values[0] == on_training


def test_xgboosts_estimators_tell_how_many_rounds_are_planned() -> None:
    xgboost = pytest.importorskip("xgboost", reason="XGBoost is not installed here")
    x, y = table()
    read = recorded("xgboost-plan-estimator", lambda run: xgboost.XGBClassifier(n_estimators=9).fit(x, y))
    assert read.series("fact:rounds_planned").values[0] == 9.0


def test_scikit_learns_tell_what_is_planned_and_what_ends_it() -> None:
    ensemble = pytest.importorskip("sklearn.ensemble", reason="scikit-learn is not installed here")
    x, y = table()
    classical = recorded("classical-plan", lambda run: ensemble.GradientBoostingClassifier(n_estimators=6).fit(x, y))
    assert classical.series("fact:rounds_planned").values[0] == 6.0
    assert classical.series("fact:early_stopping").values[0] == 0.0
    histogram = recorded("histogram-plan", lambda run: ensemble.HistGradientBoostingClassifier(
        max_iter=8, early_stopping=True, validation_fraction=None, n_iter_no_change=4).fit(x, y))
    assert histogram.series("fact:rounds_planned").values[0] == 8.0
    assert histogram.series("fact:early_stopping").values[0] == 4.0
    assert histogram.series("fact:early_stopping[training]").values[0] == 1.0


# scikit-learn


class TestGradientBoosting(FrameworkConformance):
    framework = "sklearn"
    without_accumulation = NO_ACCUMULATION
    without_evaluation = NO_EVALUATION_APART
    without_nan = "it refuses what is not finite before it trains"
    without_weights = TREES
    many_steps = 40

    def train(self, task: Task, run: AttachedRun | None) -> Mapping[str, Any]:
        from sklearn.ensemble import GradientBoostingClassifier

        x, y = table(task.seed)
        model = GradientBoostingClassifier(n_estimators=task.steps, subsample=0.5, random_state=task.seed).fit(x, y)
        return {"answers": model.decision_function(x)}


class TestHistGradientBoosting(FrameworkConformance):
    framework = "sklearn"
    without_accumulation = NO_ACCUMULATION
    without_evaluation = NO_EVALUATION_APART
    without_nan = "it takes NaN for a missing value"
    without_weights = TREES
    many_steps = 40

    def train(self, task: Task, run: AttachedRun | None) -> Mapping[str, Any]:
        from sklearn.ensemble import HistGradientBoostingClassifier

        x, y = table(task.seed)
        model = HistGradientBoostingClassifier(max_iter=task.steps, random_state=task.seed, max_leaf_nodes=5,
                                               early_stopping=True, n_iter_no_change=1000).fit(x, y)
        return {"answers": model.decision_function(x)}


class TestPerceptron(FrameworkConformance):
    framework = "sklearn"
    without_accumulation = "each batch is a step"
    without_evaluation = "it evaluates after each pass over the data, not after so many steps"
    without_nan = "it refuses what is not finite before it trains"
    many_steps = 60

    def train(self, task: Task, run: AttachedRun | None) -> Mapping[str, Any]:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.neural_network import MLPClassifier

        x, y = table(task.seed, rows=task.steps * 5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = MLPClassifier((6,), batch_size=5, max_iter=1, random_state=task.seed).fit(x, y)
        return {**{f"coefs.{number}": value for number, value in enumerate(model.coefs_)},
                **{f"intercepts.{number}": value for number, value in enumerate(model.intercepts_)}}


class TestLinearModel(FrameworkConformance):
    framework = "sklearn"
    without_accumulation = "each call of partial_fit is a step"
    without_evaluation = "it has no evaluation of its own"
    without_nan = "it refuses what is not finite before it trains"

    def train(self, task: Task, run: AttachedRun | None) -> Mapping[str, Any]:
        from sklearn.linear_model import SGDClassifier

        x, y = table(task.seed, rows=task.steps * 10)
        model = SGDClassifier(random_state=task.seed)
        for step in range(task.steps):
            model.partial_fit(x[step * 10:step * 10 + 10], y[step * 10:step * 10 + 10], classes=[0, 1])
        return {"coef": model.coef_, "intercept": model.intercept_}


def test_gradient_boosting_tells_losses_trees_importance_and_the_scripts_monitor_still_stops() -> None:
    from sklearn.ensemble import GradientBoostingRegressor

    x, _ = table()
    read = recorded("gb", lambda run: GradientBoostingRegressor(n_estimators=9, max_depth=2, subsample=0.7).fit(
        x, x[:, 1], monitor=lambda stage, model, inside: stage == 4))
    assert read.series("loss:total").steps.tolist() == [0, 1, 2, 3, 4]
    assert read.series("loss:total", mode=Mode.EVAL).steps.tolist() == [1, 2, 3, 4, 5]
    assert read.series("tree:depth").values.tolist() == [2.0] * 5
    importance = {str(key): read.series(key).values[-1] for key in read.keys(kind="importance")}
    assert max(importance, key=lambda key: importance[key]) == "importance:x1"


def test_importance_is_that_of_the_finished_model() -> None:
    from sklearn.ensemble import GradientBoostingClassifier

    x, y = table()
    models: list[Any] = []
    read = recorded("gb-importance", lambda run: models.append(
        GradientBoostingClassifier(n_estimators=5, random_state=0).fit(x, y)))
    last = np.array([read.series(f"importance:x{number}").values[-1] for number in range(5)])
    told = np.zeros(5)
    for stage in models[0].estimators_:
        told += stage[0].tree_.compute_feature_importances(normalize=False)
    assert last == pytest.approx(told)


def test_histogram_boosting_tells_each_round_with_the_loss_of_its_own() -> None:
    from sklearn.ensemble import HistGradientBoostingRegressor

    x, _ = table()
    models: list[Any] = []
    read = recorded("hgb", lambda run: models.append(HistGradientBoostingRegressor(
        max_iter=6, early_stopping=True, scoring="loss", max_leaf_nodes=4, random_state=0).fit(x, x[:, 3])))
    assert read.series("loss:total").values.tolist() == [-float(value) for value in models[0].train_score_[1:]]
    assert read.series("loss:total", mode=Mode.EVAL).values.tolist() == (
        [-float(value) for value in models[0].validation_score_[1:]])
    assert read.series("tree:leaves").values.tolist() == [4.0] * 6
    assert read.series("importance:x3").values[-1] > read.series("importance:x0").values[-1]


@pytest.mark.parametrize("classes", [2, 3])
def test_histogram_boosting_tells_labels_and_the_answers_of_the_finished_model(classes: int) -> None:
    from sklearn.ensemble import HistGradientBoostingClassifier

    x, _ = table()
    y = np.digitize(x[:, 1] + 0.5 * x[:, 2], [0.3, 0.9][:classes - 1])
    models: list[Any] = []
    read = recorded(f"hgb-labels-{classes}", lambda run: models.append(HistGradientBoostingClassifier(
        max_iter=4, max_leaf_nodes=4, random_state=0).fit(x, np.array(["a", "b", "c"])[y])))
    answers = np.searchsorted(["a", "b", "c"], models[0].predict(x))
    assert (answers != y).any()
    for label in range(classes):
        assert read.series(f"label:train[{label}]").values.tolist() == [(y == label).sum()] * 4
        for answer in range(classes):
            count = ((y == label) & (answers == answer)).sum()
            key = f"confusion:train[{label},{answer}]"
            assert (float(read.series(key).values[-1]) if key in map(str, read.keys()) else 0.0) == count


def test_a_perceptron_is_recorded_like_any_network() -> None:
    from sklearn.neural_network import MLPClassifier

    x, y = table(rows=100)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read = recorded("mlp", lambda run: MLPClassifier(
            (6,), batch_size=10, max_iter=2, random_state=0, early_stopping=True, activation="tanh").fit(x, y))
    keys = set(map(str, read.keys()))
    assert {"gradient:coefs.0", "update:intercepts.1", "output:hidden.0", "optimizer_state:coefs.1[v]",
            "batch:model[0]", "fact:batch_size"} <= keys
    assert read.series("loss:total").steps.tolist() == list(range(18))
    assert read.series("scalar:validation_score", mode=Mode.EVAL).steps.tolist() == [9, 18]
    assert read.series("label:log_loss[0]").values.sum() + read.series("label:log_loss[1]").values.sum() == 180


def test_two_fits_are_two_series_and_partial_fit_goes_on_with_one() -> None:
    from sklearn.linear_model import SGDRegressor

    x, _ = table()

    def train(run: AttachedRun) -> None:
        SGDRegressor(random_state=0).fit(x, x[:, 0])
        model = SGDRegressor(random_state=0)
        model.partial_fit(x[:100], x[:100, 0]).partial_fit(x[100:], x[100:, 0])

    read = recorded("sgd", train)
    assert read.series("weight:coef", "l2", optimizer="").steps.tolist() == [0]
    assert read.series("weight:coef", "l2", optimizer="#2").steps.tolist() == [0, 1]
    assert read.series("update:coef", "l2", optimizer="#2").steps.tolist() == [1]
    assert read.workers[0].last.coverage.reasons == ("no loss was recorded: scikit-learn's SGD reports none",)


# Training data among the evaluation sets


def _held_out_losses(read: RunReader, metric: str) -> tuple[list[float], list[float], list[float]]:
    """Return the training losses, the held-out losses, and the metric of the set that was held out."""
    return (read.series("loss:total", optimizer="").values.tolist(),
            read.series("loss:total", mode=Mode.EVAL).values.tolist(), read.series(metric).values.tolist())


@pytest.mark.parametrize("order", [("copy", "held_out"), ("held_out", "copy"), ("train", "held_out")])
@pytest.mark.parametrize("quantized", [False, True])
def test_xgboost_training_data_passed_as_another_object_is_no_held_out_data(
    order: tuple[str, str], quantized: bool
) -> None:
    xgboost = pytest.importorskip("xgboost", reason="XGBoost is not installed here")
    x, y = table()
    new = xgboost.QuantileDMatrix if quantized else xgboost.DMatrix
    trained = new(x[:150], y[:150])
    of_training = {"ref": trained} if quantized else {}
    sets = {"copy": new(x[:150].copy(), y[:150].copy(), **of_training), "train": new(x[:90], y[:90], **of_training),
            "held_out": new(x[150:], y[150:], **of_training)}

    read = recorded(f"xgboost-copy-{order}-{quantized}", lambda run: xgboost.train(
        {"objective": "binary:logistic"}, trained, 7, evals=[(sets[name], name) for name in order],
        verbose_eval=False))

    training, held_out, expected = _held_out_losses(read, "scalar:held_out.logloss")
    assert held_out == expected
    assert len(training) == 7
    assert training != expected


def test_held_out_data_of_the_shape_and_labels_of_the_training_data_stay_held_out() -> None:
    xgboost = pytest.importorskip("xgboost", reason="XGBoost is not installed here")
    x, y = table()
    trained, other = xgboost.DMatrix(x[:150], y[:150]), xgboost.DMatrix(x[150:], y[:150])

    read = recorded("xgboost-same-labels", lambda run: xgboost.train(
        {"objective": "binary:logistic"}, trained, 7, evals=[(other, "other")], verbose_eval=False))

    assert read.series("loss:total", mode=Mode.EVAL).values.tolist() == read.series(
        "scalar:other.logloss").values.tolist()


@pytest.mark.parametrize("order", [("copy", "held_out"), ("held_out", "copy"), ("Train", "held_out")])
def test_lightgbm_training_data_passed_as_another_object_is_no_held_out_data(order: tuple[str, str]) -> None:
    lightgbm = pytest.importorskip("lightgbm", reason="LightGBM is not installed here")
    x, y = table()
    trained = lightgbm.Dataset(x[:150], y[:150])
    sets = {"copy": (x[:150].copy(), y[:150].copy()), "Train": (x[:90], y[:90]), "held_out": (x[150:], y[150:])}

    read = recorded(f"lightgbm-copy-{order}", lambda run: lightgbm.train(
        {"objective": "binary", "verbose": -1, "num_threads": 1}, trained, 7,
        valid_sets=[lightgbm.Dataset(*sets[name], reference=trained) for name in order], valid_names=list(order)))

    training, held_out, expected = _held_out_losses(read, "scalar:held_out.binary_logloss")
    assert held_out == expected
    assert len(training) == 7
    assert training != expected


@pytest.mark.parametrize("estimator", ["xgboost.XGBClassifier", "lightgbm.LGBMClassifier"])
def test_copies_of_the_training_data_are_recognized_by_the_estimators(estimator: str) -> None:
    package, _, name = estimator.partition(".")
    module = pytest.importorskip(package, reason=f"{package} is not installed here")
    x, y = table()
    quiet: dict[str, Any] = {"verbose": -1} if package == "lightgbm" else {}
    model = getattr(module, name)(n_estimators=7, n_jobs=1, **quiet)

    def train(run: AttachedRun) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of eval_set, which newer versions of LightGBM call eval_X and eval_y
            model.fit(x[:150], y[:150], eval_set=[(x[:150].copy(), y[:150].copy()), (x[150:], y[150:])])

    read = recorded(f"copies-{package}", train)

    held_out = "valid_1.binary_logloss" if package == "lightgbm" else "validation_1.logloss"
    training, evaluated, expected = _held_out_losses(read, f"scalar:{held_out}")
    assert evaluated == expected
    assert len(training) == 7
    assert training != expected
