"""The LightGBM integration, for its own API and its scikit-learn API.

Both call `train`, which accepts callbacks: ours is added to those of the script.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import lightgbm
import numpy as np
from lightgbm import engine
from lightgbm import sklearn as in_the_manner_of_sklearn

from barograph.capture.integration_pool import IntegrationPool
from barograph.capture.integrations import report_missing
from barograph.capture.patches import Patches
from barograph.capture.rounds import EarlyStopping, Metric, Predictions, Rounds, Tree
from barograph.capture.training_sets import is_named_as_training, same_samples

if TYPE_CHECKING:
    from barograph.capture.array_integration import ArrayIntegration
    from barograph.capture.recording import Recording

_BEFORE_EARLY_STOPPING = 25
"""Order among the callbacks: after those that print and record, before early stopping (30)."""

_AFTER_ALL_OTHERS = 1 << 30

_RATES = ("learning_rate", "shrinkage_rate", "eta")
_DEFAULT_RATE = 0.1
_PREDICT = "_Booster__inner_predict"
_BOOSTING = ("boosting", "boosting_type", "boost")
_STOPPING = ("early_stopping_round", "early_stopping_rounds", "early_stopping", "n_iter_no_change")
_CLASSES = ("binary", "multiclass", "multiclassova", "cross_entropy")
_NEEDS = {
    "engine.train": "rounds", "Booster.dump_model": "trees", "Booster.feature_importance": "importance",
    "Booster.feature_name": "feature names", f"Booster.{_PREDICT}": "labels and predictions",
}


def listen(recording: Recording) -> None:
    """Report every LightGBM training of this process to the recording."""
    if report_missing(recording.session, lightgbm, _NEEDS):
        return
    listener = _Listener(recording)
    recording.add_integration(listener)
    for holder in (engine, lightgbm, in_the_manner_of_sklearn):
        if "train" in vars(holder):
            listener.wrap(holder, "train", listener.trains)


class _Listener(Patches):
    """Adds a callback to every training."""

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self._recording = recording
        self._integrations = IntegrationPool(recording)

    def trains(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Train with our callback among the script's."""
        if self._recording.session.closed:
            return original(*args, **kwargs)
        given = list(kwargs.get("callbacks") or ())
        rate = _RateCallback()
        integration = self._integrations.take()
        copies: frozenset[str] = frozenset()
        with integration.guarded("looking for the training data among the evaluation sets"):
            copies = _copies_of_training(original, args, kwargs)
        ours = [rate, _RoundCallback(integration, given, rate, copies)]
        try:
            return original(*args, **{**kwargs, "callbacks": [*given, *ours]})
        finally:
            self._integrations.give_back(integration)


class _RateCallback:
    """Reads the learning rate of each round before it: callbacks may set the next one as soon as the round ends.

    Attributes:
        rate: The learning rate of the current round.
    """

    before_iteration = True

    def __init__(self) -> None:
        self.order = _AFTER_ALL_OTHERS  # LightGBM ignores class attributes
        self.rate = _DEFAULT_RATE
        self._given: dict[str, Any] = {}

    def __call__(self, env: Any) -> None:
        params = env.model.params if isinstance(env.model, lightgbm.Booster) else env.params
        given = {name: params[name] for name in _RATES if params.get(name) is not None}
        # The last changed alias wins; among unchanged ones, the first.
        changed = [name for name in given if given[name] != self._given.get(name)]
        if changed:
            self.rate = float(given[changed[0]])
        self._given = given


class _RoundCallback:
    """Reports each round of one training."""

    before_iteration = False

    def __init__(
        self, integration: ArrayIntegration, beside: list[Any], rate: _RateCallback, copies: frozenset[str]
    ) -> None:
        self.order = _BEFORE_EARLY_STOPPING
        self._integration = integration
        self._beside = beside
        self._rate = rate
        self._copies = copies
        self._rounds: Rounds | None = None

    def __call__(self, env: Any) -> None:
        if self._rounds is None:
            self._rounds = Rounds(self._integration, int(env.begin_iteration) or None)
        self._rounds.end_round(_Grown(env, self._beside, self._rate.rate, self._copies))


def _copies_of_training(original: Callable[..., Any], args: Any, kwargs: Any) -> frozenset[str]:
    """Return the names of the evaluation sets that hold the samples of the training data.

    LightGBM itself recognizes only the same object. Raw data may be freed once the training starts.
    """
    try:
        given = inspect.signature(original).bind_partial(*args, **kwargs).arguments
    except TypeError:
        return frozenset()  # LightGBM itself raises the error of this call
    trained, sets, names = given.get("train_set"), given.get("valid_sets") or (), given.get("valid_names") or ()
    sets = [sets] if isinstance(sets, lightgbm.Dataset) else list(sets)
    names = [names] if isinstance(names, str) else list(names)
    names += [f"valid_{number}" for number in range(len(names), len(sets))]
    return frozenset(str(name) for name, held in zip(names, sets, strict=False)
                     if same_samples(_raw(trained, "data"), _raw(held, "data"), _raw(trained, "label"),
                                     _raw(held, "label")))


def _raw(dataset: Any, name: str) -> Any:
    return getattr(dataset, name, None)


class _Grown:
    """A booster after a round."""

    def __init__(self, env: Any, beside: list[Any], rate: float, copies: frozenset[str]) -> None:
        self._rate = rate
        self._copies = copies
        self._model = env.model
        self._params = env.params
        self._results = env.evaluation_result_list or []
        self._end = int(env.end_iteration)
        self._beside = beside
        self._shap = [item.shap for item in beside if getattr(item, "shap", None) is not None]

    def metrics(self) -> Iterable[Metric]:
        """Return each metric of each data set; for cross-validation, the mean."""
        for item in self._results:
            data, name, value, more_is_better = item[0], item[1], item[2], item[3]
            yield Metric(str(data), str(name), float(value), not more_is_better, self._is_training(str(data)))

    def _is_training(self, data: str) -> bool:
        return (data == getattr(self._model, "_train_data_name", "training") or data in self._copies
                or is_named_as_training(data))

    def trees(self) -> Iterable[Tree]:
        """Return the trees of the newest round."""
        last = self._model.current_iteration() - 1
        dumped = self._model.dump_model(num_iteration=1, start_iteration=last)
        return [_tree(item["tree_structure"], item["num_leaves"]) for item in dumped["tree_info"]]

    def importance(self) -> Mapping[str, Mapping[str, float]]:
        """Return the feature importances."""
        names = self._model.feature_name()

        def of_all(values: Any) -> dict[str, float]:
            return dict(zip(names, np.asarray(values, np.float64).tolist(), strict=True))

        found = {"": of_all(self._model.feature_importance("gain")),
                 "split": of_all(self._model.feature_importance("split"))}
        # For a growing model LightGBM does not know the depth of trees, and would abort the process.
        whole = lightgbm.Booster(model_str=self._model.model_to_string()) if self._shap else self._model
        for samples in self._shap:
            shares = np.abs(np.asarray(whole.predict(samples, pred_contrib=True)))
            # With several classes, their contributions are concatenated, each with its expected value last.
            found["shap"] = of_all(shares.reshape(-1, len(names) + 1).mean(0)[:-1])
        return found

    def predictions(self) -> Iterable[Predictions]:
        """Return labels and predictions of the evaluated data sets, which LightGBM has available."""
        model = self._model
        are_classes = str(self._params.get("objective", "")) in _CLASSES
        names = [getattr(model, "_train_data_name", "training"), *model.name_valid_sets]
        judged = {item[0] for item in self._results}
        for number, (name, data) in enumerate(zip(names, [model.train_set, *model.valid_sets], strict=True)):
            labels = data.get_label() if name in judged and data is not None else None
            if labels is not None:
                found = np.asarray(getattr(model, _PREDICT)(data_idx=number))
                if found.ndim == 1 and len(found) > len(labels):
                    found = found.reshape(-1, len(labels)).T
                yield Predictions(str(name), labels, found, number == 0 or self._is_training(str(name)), are_classes)

    def hyperparameters(self) -> Mapping[str, Any]:
        """Return the parameters of the training."""
        return dict(self._params)

    def learning_rate(self) -> float | None:
        """Return the learning rate."""
        return self._rate

    def planned(self) -> int | None:
        """Return the final number of rounds of the booster; None for a random forest, whose trees are averaged."""
        kind = next((self._params[name] for name in _BOOSTING if name in self._params), "gbdt")
        return None if kind in ("rf", "random_forest") else self._end

    def early_stopping(self) -> EarlyStopping:
        """Return the early-stopping condition; LightGBM ignores the training data for it."""
        asked = [getattr(item, "stopping_rounds", 0) for item in self._beside]
        asked += [self._params.get(name) or 0 for name in _STOPPING]
        training = [metric.in_training for metric in self.metrics()]
        return EarlyStopping(max(map(int, asked), default=0), bool(training) and all(training))


def _tree(root: Mapping[str, Any], leaves: int) -> Tree:
    deepest, gain, waiting = 0, 0.0, [(root, 0)]
    while waiting:
        node, depth = waiting.pop()
        deepest = max(deepest, depth)
        if "left_child" in node:
            gain += float(node.get("split_gain", 0.0))
            waiting += [(node["left_child"], depth + 1), (node["right_child"], depth + 1)]
    return Tree(deepest, int(leaves), gain)
