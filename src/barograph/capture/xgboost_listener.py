"""The XGBoost integration, for its own API and its scikit-learn API.

Both run each round through one `CallbackContainer`, which also has the data sets.
"""

from __future__ import annotations

import inspect
import json
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import xgboost
from xgboost import callback, training
from xgboost import sklearn as in_the_manner_of_sklearn

from barograph.capture.integration_pool import IntegrationPool
from barograph.capture.integrations import report_missing
from barograph.capture.patches import Patches
from barograph.capture.rounds import EarlyStopping, Metric, Predictions, Rounds, Tree
from barograph.capture.training_sets import is_named_as_training

if TYPE_CHECKING:
    from barograph.capture.array_integration import ArrayIntegration
    from barograph.capture.recording import Recording

_MORE_IS_BETTER = ("auc", "aucpr", "map", "ndcg", "pre", "accuracy", "f1", "r2", "interval-regression-accuracy")
_CLASSES = ("binary:", "multi:")
_MOST_COMPARED = 1 << 22
"""Maximum number of values of a data set that is compared with the training data."""
_MARGINS = ("binary:logitraw", "binary:hinge")
_NEEDS = {
    "training.train": "the number of planned rounds",
    "callback.CallbackContainer.before_training": "the start of a training",
    "callback.CallbackContainer.after_iteration": "rounds",
    "callback.CallbackContainer.after_training": "the end of a training",
    "Booster.set_param": "changed learning rates",
    "Booster.get_score": "importance", "Booster.save_raw": "trees", "Booster.save_config": "hyperparameters",
}


def listen(recording: Recording) -> None:
    """Report every XGBoost training of this process to the recording."""
    if report_missing(recording.session, xgboost, _NEEDS):
        return
    listener = _Listener(recording)
    recording.add_integration(listener)
    for holder in (training, xgboost, in_the_manner_of_sklearn):
        if "train" in vars(holder):
            listener.wrap(holder, "train", listener.trains)
    container = callback.CallbackContainer
    listener.wrap(container, "before_training", listener.begins)
    listener.wrap(container, "after_iteration", listener.ends_round)
    listener.wrap(container, "after_training", listener.ends)
    for name in ("set_param", "load_config"):
        listener.wrap(xgboost.Booster, name, listener.changes_parameters)


class _Listener(Patches):
    """Separates trainings by their callback containers."""

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self._recording = recording
        self._integrations = IntegrationPool(recording)
        self._known: weakref.WeakKeyDictionary[Any, tuple[ArrayIntegration, Rounds, int | None]] = (
            weakref.WeakKeyDictionary()
        )
        self._on_training: weakref.WeakKeyDictionary[Any, frozenset[str]] = weakref.WeakKeyDictionary()
        self._rates: weakref.WeakKeyDictionary[Any, float | None] = weakref.WeakKeyDictionary()
        self._here = threading.local()

    def trains(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Note the requested number of rounds, which a container does not get."""
        try:
            bound = inspect.signature(original).bind_partial(*args, **kwargs)
            bound.apply_defaults()
            self._here.asked = int(bound.arguments["num_boost_round"])
        except (TypeError, ValueError, KeyError):
            # XGBoost itself reports missing arguments.
            self._here.asked = None
        try:
            return original(*args, **kwargs)
        finally:
            self._here.asked = None

    def begins(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Note the start of a training."""
        model = original(*args, **kwargs)
        container = args[0]
        if not container.is_cv:
            try:
                integration, before = self._integrations.take(), int(model.num_boosted_rounds())
                asked = getattr(self._here, "asked", None)
                self._known[container] = (
                    integration,
                    Rounds(integration, before or None),
                    None if asked is None else before + asked,
                )
            except Exception as error:  # noqa: BLE001 - the guard handles all our errors
                self._recording.session.guard.caught(error, "hooking into an XGBoost training")
        return model

    def ends_round(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Report a round after its evaluation."""
        known = self._known.get(args[0])
        rate: float | None = None
        if known is not None and not self._recording.session.closed:
            # XGBoost's scheduler is one of the callbacks called now, and sets the rate of the next round.
            with known[0].guarded("reading the learning rate"):
                rate = self._learning_rate(*args, **kwargs)
        result = original(*args, **kwargs)
        if known is not None and not self._recording.session.closed:
            # The result is whether a callback stops the training.
            grown = _Grown(known[2], rate, *args, **kwargs)
            with known[0].guarded("looking for the training data among the evaluation sets"):
                if args[0] not in self._on_training:
                    self._on_training[args[0]] = frozenset()  # try once, even if it fails
                    self._on_training[args[0]] = grown.sets_of_training()
            grown.on_training = self._on_training[args[0]]
            known[1].end_round(grown, is_last=result is True)
        return result

    def changes_parameters(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Discard the cached learning rate of a booster whose parameters change."""
        self._rates.pop(args[0], None)
        return original(*args, **kwargs)

    def _learning_rate(self, container: Any, model: Any, *others: Any, **named: Any) -> float | None:
        """Return the learning rate of a booster, cached until its parameters change."""
        if model not in self._rates:
            rate = _hyperparameters(json.loads(model.save_config())).get("learning_rate")
            self._rates[model] = float(rate) if isinstance(rate, int | float) else None
        return self._rates[model]

    def ends(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Note that a training has ended."""
        known = self._known.pop(args[0], None)
        self._on_training.pop(args[0], None)
        if known is not None:
            self._integrations.give_back(known[0])
        return original(*args, **kwargs)


class _Grown:
    """A booster after a round."""

    def __init__(
        self, planned: int | None, rate: float | None, container: Any, model: Any, epoch: int, dtrain: Any, evals: Any
    ) -> None:
        self._planned = planned
        self._rate = rate
        self._callbacks = container.callbacks
        self._model = model
        self._data = list(evals or ())
        self._train = dtrain
        self._history = container.history
        self.on_training: frozenset[str] = frozenset()
        self._shap = [item.shap for item in container.callbacks if getattr(item, "shap", None) is not None]
        self._config_read: dict[str, Any] | None = None

    def metrics(self) -> Iterable[Metric]:
        """Return the newest value of each metric of each data set."""
        for data, metrics in self._history.items():
            for name, values in metrics.items():
                value = values[-1]
                is_loss = name.partition("@")[0].rstrip("-") not in _MORE_IS_BETTER
                yield Metric(data, name, float(value[0] if isinstance(value, tuple) else value), is_loss,
                             data in self.on_training)

    def sets_of_training(self) -> frozenset[str]:
        """Return the names of the evaluation sets that are training data."""
        return frozenset(name for data, name in self._data
                         if data is self._train or is_named_as_training(name) or _same_samples(data, self._train))

    def trees(self) -> Iterable[Tree]:
        """Return the trees of the newest round; a linear booster has none."""
        if self._booster_name() == "gblinear":
            return []
        last = self._model.num_boosted_rounds() - 1
        saved = json.loads(bytes(self._model[last:last + 1].save_raw("json")))
        booster = saved["learner"]["gradient_booster"]
        booster = booster.get("gbtree", booster)
        return [_tree(tree) for tree in booster["model"]["trees"]]

    def importance(self) -> Mapping[str, Mapping[str, float]]:
        """Return the feature importances, including unused features if their names are known."""
        if self._booster_name() == "gblinear":
            return {"": self._of_all(self._model.get_score(importance_type="weight"))}
        splits, gains, covers = (self._of_all(self._model.get_score(importance_type=kind))
                                 for kind in ("weight", "total_gain", "total_cover"))
        found = {"": gains, "weight": splits, "gain": _per_split(gains, splits), "cover": _per_split(covers, splits),
                 "total_cover": covers}
        for samples in self._shap:
            found["shap"] = self._of_all(_shap(self._model, samples))
        return found

    def predictions(self) -> Iterable[Predictions]:
        """Return labels and predictions of the evaluated data sets, for which XGBoost has cached predictions."""
        objective = str(self._config("objective", "name", ""))
        are_classes = objective.startswith(_CLASSES) and objective not in _MARGINS
        for data, name in self._data:
            if isinstance(data, xgboost.DMatrix):
                yield Predictions(name, data.get_label(), self._model.predict(data), name in self.on_training,
                                  are_classes)

    def hyperparameters(self) -> dict[str, Any]:
        """Return the booster's parameters, including defaults, from its configuration."""
        return _hyperparameters(self._configuration())

    def learning_rate(self) -> float | None:
        """Return the learning rate."""
        return self._rate

    def planned(self) -> int | None:
        """Return how many rounds the booster has in the end."""
        return self._planned

    def early_stopping(self) -> EarlyStopping:
        """Return the early-stopping condition, which uses the last data set by default."""
        for item in self._callbacks:
            if isinstance(item, callback.EarlyStopping):
                watched = getattr(item, "data", None) or (self._data[-1][1] if self._data else "")
                return EarlyStopping(int(item.rounds), watched in self.on_training)
        return EarlyStopping(0)

    def _of_all(self, score: Mapping[str, Any]) -> dict[str, float]:
        names = self._model.feature_names or [f"f{number}" for number in range(self._model.num_features())]
        found = dict.fromkeys(names, 0.0)
        for name, value in score.items():
            found[name] = float(value[0] if isinstance(value, list) else value)
        return found

    def _booster_name(self) -> str:
        return str(self._config("gradient_booster", "name", "gbtree"))

    def _config(self, part: str, name: str, default: Any) -> Any:
        return self._configuration().get("learner", {}).get(part, {}).get(name, default)

    def _configuration(self) -> dict[str, Any]:
        if self._config_read is None:
            self._config_read = json.loads(self._model.save_config())
        return self._config_read


def _same_samples(one: Any, other: Any) -> bool:
    """Return whether two data sets contain the same samples with the same labels.

    Very large ones are not compared, since XGBoost returns copies.
    """
    if type(one) is not type(other) or (one.num_row(), one.num_col()) != (other.num_row(), other.num_col()):
        return False
    if not np.array_equal(one.get_label(), other.get_label()) or one.num_nonmissing() > _MOST_COMPARED:
        return False
    try:
        values, others = one.get_data(), other.get_data()
    except xgboost.core.XGBoostError:
        return False  # external-memory data cannot be read back
    return all(np.array_equal(getattr(values, part), getattr(others, part)) for part in ("indptr", "indices", "data"))


def _tree(saved: Mapping[str, Any]) -> Tree:
    left, right, gains = saved["left_children"], saved["right_children"], saved.get("loss_changes", [])
    depths = [0] * len(left)
    leaves, gain = 0, 0.0
    # A child always has a greater number than its parent.
    for node, child in enumerate(left):
        if child < 0:
            leaves += 1
            continue
        depths[child] = depths[right[node]] = depths[node] + 1
        gain += gains[node] if node < len(gains) else float("nan")
    return Tree(max(depths, default=0), leaves, gain)


def _per_split(totals: Mapping[str, float], splits: Mapping[str, float]) -> dict[str, float]:
    """Return the mean per split of each total, bit-identical to XGBoost's, which would traverse all trees again."""
    return {name: float(np.float32(total) / np.float32(max(splits[name], 1.0))) for name, total in totals.items()}


def _shap(model: Any, samples: Any) -> dict[str, float]:
    """Return the mean magnitude of each feature's contribution to the predictions of some samples."""
    data = samples if isinstance(samples, xgboost.DMatrix) else xgboost.DMatrix(samples)
    shares = abs(model.predict(data, pred_contribs=True))
    means = shares.reshape(-1, shares.shape[-1]).mean(0)[:-1]
    names = model.feature_names or [f"f{number}" for number in range(len(means))]
    return dict(zip(names, means.tolist(), strict=True))


def _hyperparameters(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters in the configuration of a booster by name."""
    found: dict[str, Any] = {}
    learner = configuration.get("learner", {})
    for part in ("objective", "learner_model_param", "generic_param", "gradient_booster"):
        _flatten(learner.get(part, {}), found)
    return found


def _flatten(part: Any, found: dict[str, Any]) -> None:
    """Collect the values of a nested configuration by name, with numbers converted."""
    if isinstance(part, dict):
        for name, value in part.items():
            if isinstance(value, dict | list):
                _flatten(value, found)
            else:
                found.setdefault(name, _number(value))
    elif isinstance(part, list):
        for item in part:
            _flatten(item, found)


def _number(value: Any) -> Any:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return value
    return int(number) if number.is_integer() and "." not in str(value) else number
