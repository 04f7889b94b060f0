"""The integration of scikit-learn's gradient boosting: by its monitor, or tree by tree (histogram)."""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import sklearn
from sklearn import ensemble

from barograph.capture.integrations import report_missing
from barograph.capture.rounds import EarlyStopping, Metric, Predictions, Rounds, Tree

if TYPE_CHECKING:
    from types import FrameType

    from numpy.typing import NDArray

    from barograph.capture.integration_pool import IntegrationPool
    from barograph.capture.patches import Patches
    from barograph.capture.session import Session

_CLASSICAL = "ensemble._gb.BaseGradientBoosting._fit_stages"
_BY_HISTOGRAM = "ensemble._hist_gradient_boosting.gradient_boosting.BaseHistGradientBoosting.fit"
_FRAMES = 6
"""Number of calling frames to search for `fit`, including its wrappers and ours."""

_GROWER = "ensemble._hist_gradient_boosting.grower.TreeGrower.make_predictor"


def wrap_trees(patches: Patches, integrations: IntegrationPool, session: Session) -> None:
    """Wrap the methods of both kinds of boosting."""
    if not report_missing(session, sklearn, {_CLASSICAL: "rounds of GradientBoosting"}):
        patches.wrap(ensemble._gb.BaseGradientBoosting, "_fit_stages", _Classical(integrations).fits)
    if not report_missing(session, sklearn, {_BY_HISTOGRAM: "rounds of HistGradientBoosting", _GROWER: "its trees"}):
        by_histogram = _ByHistogram(integrations, session)
        package = ensemble._hist_gradient_boosting
        patches.wrap(package.gradient_boosting.BaseHistGradientBoosting, "fit", by_histogram.fits)
        patches.wrap(package.grower.TreeGrower, "make_predictor", by_histogram.grew)


class _Classical:
    """Adds a monitor to each training."""

    def __init__(self, integrations: IntegrationPool) -> None:
        self._integrations = integrations

    def fits(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Fit the stages with our monitor around the script's."""
        bound = inspect.signature(original).bind(*args, **kwargs)
        bound.apply_defaults()
        theirs, begin = bound.arguments.get("monitor"), int(bound.arguments.get("begin_at_stage", 0))
        integration = self._integrations.take()
        rounds, grown = Rounds(integration, begin or None), _ClassicalGrown(bound.arguments, begin)

        def monitor(stage: int, estimator: Any, inside: Any) -> Any:
            stop = theirs(stage, estimator, inside) if theirs is not None else None
            grown.stage, grown.raw = stage, inside.get("raw_predictions")
            rounds.end_round(grown)
            return stop

        bound.arguments["monitor"] = monitor
        try:
            return original(*bound.args, **bound.kwargs)
        finally:
            self._integrations.give_back(integration)


class _ClassicalGrown:
    """A model of `GradientBoosting*` after a stage."""

    def __init__(self, arguments: Mapping[str, Any], begin: int) -> None:
        self._estimator = arguments["self"]
        self._labels = arguments["y"]
        self.stage = begin
        self.raw: Any = None
        self._summed = 0
        self._importance: NDArray[np.float64] | None = None

    def metrics(self) -> Iterable[Metric]:
        """Return the training loss, and the out-of-bag loss with subsampling."""
        yield Metric("train", "loss", float(self._estimator.train_score_[self.stage]), True, True)
        if hasattr(self._estimator, "oob_scores_"):
            yield Metric("oob", "loss", float(self._estimator.oob_scores_[self.stage]), True, False)

    def trees(self) -> Iterable[Tree]:
        """Return the trees of this stage, one per class."""
        return [Tree(int(item.tree_.max_depth), int(item.tree_.n_leaves))
                for item in self._estimator.estimators_[self.stage]]

    def importance(self) -> Mapping[str, Mapping[str, float]]:
        """Return how much impurity the splits by each feature took away, over all stages so far."""
        for stage in self._estimator.estimators_[self._summed:self.stage + 1]:
            for item in stage:
                more = item.tree_.compute_feature_importances(normalize=False)
                self._importance = more if self._importance is None else self._importance + more
        self._summed = self.stage + 1
        found = self._importance if self._importance is not None else np.zeros(0)
        return {"": _named(self._estimator, found)}

    def predictions(self) -> Iterable[Predictions]:
        """Return labels and predictions of a classification."""
        if self.raw is not None and hasattr(self._estimator, "classes_"):
            yield _predictions_of(self._labels, np.asarray(self.raw))

    def hyperparameters(self) -> Mapping[str, Any]:
        """Return the parameters of the estimator."""
        return dict(self._estimator.get_params(deep=False))

    def learning_rate(self) -> float | None:
        """Return the learning rate."""
        return float(self._estimator.learning_rate)

    def planned(self) -> int | None:
        """Return how many stages there are in the end."""
        return int(self._estimator.n_estimators)

    def early_stopping(self) -> EarlyStopping | None:
        """Return the early-stopping condition; its score is computed after our monitor is called."""
        return None if self._estimator.n_iter_no_change else EarlyStopping(0)


class _ByHistogram:
    """Reports a round when the next one starts, because its scores are known only then."""

    def __init__(self, integrations: IntegrationPool, session: Session) -> None:
        self._integrations = integrations
        self._session = session
        self._here = threading.local()

    def fits(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Fit, with each tree reported."""
        estimator, integration = args[0], self._integrations.take()
        before = len(getattr(estimator, "_predictors", ())) if estimator.warm_start else 0
        self._here.grown = _HistogramGrown(estimator, before)
        self._here.rounds = Rounds(integration, before or None)
        try:
            result = original(*args, **kwargs)
            self._record_until(len(estimator._predictors))
            return result
        finally:
            self._here.grown = None
            self._integrations.give_back(integration)

    def grew(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Report the previous round if this is the first tree of another."""
        grown = getattr(self._here, "grown", None)
        if grown is not None:
            grown.look_within(sys._getframe(1))
            predictors = getattr(grown.estimator, "_predictors", ())
            if predictors and not predictors[-1]:
                self._record_until(len(predictors) - 1)
        return original(*args, **kwargs)

    def _record_until(self, rounds: int) -> None:
        grown = self._here.grown
        while grown.recorded < rounds and not self._session.closed:
            grown.recorded += 1
            self._here.rounds.end_round(grown)


class _HistogramGrown:
    """A model of `HistGradientBoosting*` after a round."""

    def __init__(self, estimator: Any, recorded: int) -> None:
        self.estimator = estimator
        self.recorded = recorded
        self._summed = 0
        self._gains: NDArray[np.float64] = np.zeros(0)
        self._labels: Any = None
        self._raw: Any = None

    def look_within(self, frame: FrameType | None) -> None:
        """Find the samples and their predictions, which are only in local variables of `fit`.

        The predictions are updated in place, tree by tree, so they are found once.
        """
        for _ in range(_FRAMES if self._raw is None else 0):
            if frame is None:
                return
            if frame.f_code.co_name == "fit" and "raw_predictions" in frame.f_code.co_varnames:
                inside = frame.f_locals
                self._raw, self._labels = inside.get("raw_predictions"), inside.get("y_train")
                return
            frame = frame.f_back

    def metrics(self) -> Iterable[Metric]:
        """Return the scores of early stopping, if it is on."""
        estimator, is_loss = self.estimator, self.estimator.scoring == "loss"
        for data, scores, in_training in (("train", "train_score_", True), ("validation", "validation_score_", False)):
            values = getattr(estimator, scores, ())
            # The first is from before all rounds; losses are stored negated.
            if self.recorded < len(values):
                value = float(values[self.recorded])
                yield Metric(data, "loss" if is_loss else "score", -value if is_loss else value, is_loss, in_training)

    def trees(self) -> Iterable[Tree]:
        """Return the trees of this round, one per class."""
        return [Tree(int(item.get_max_depth()), int(item.get_n_leaf_nodes()), float(_gains(item).sum()))
                for item in self.estimator._predictors[self.recorded - 1]]

    def importance(self) -> Mapping[str, Mapping[str, float]]:
        """Return the total gain of the splits by each feature so far."""
        for predictors in self.estimator._predictors[self._summed:self.recorded]:
            for item in predictors:
                inner = item.nodes["is_leaf"] == 0
                features = item.nodes["feature_idx"][inner].astype(np.int64)
                more = np.bincount(features, _gains(item), minlength=int(self.estimator._n_features)).astype(np.float64)
                self._gains = more if not self._gains.size else self._gains + more
        self._summed = self.recorded
        return {"": _named(self.estimator, self._gains)}

    def predictions(self) -> Iterable[Predictions]:
        """Return labels and predictions of a classification on its training data."""
        if self._raw is not None and self._labels is not None and hasattr(self.estimator, "classes_"):
            yield _predictions_of(np.asarray(self._labels).astype(np.int64), np.asarray(self._raw))

    def hyperparameters(self) -> Mapping[str, Any]:
        """Return the parameters of the estimator."""
        return dict(self.estimator.get_params(deep=False))

    def learning_rate(self) -> float | None:
        """Return the learning rate."""
        return float(self.estimator.learning_rate)

    def planned(self) -> int | None:
        """Return how many rounds there are in the end."""
        return int(self.estimator.max_iter)

    def early_stopping(self) -> EarlyStopping:
        """Return when the training ends by itself."""
        if not getattr(self.estimator, "do_early_stopping_", False):
            return EarlyStopping(0)
        return EarlyStopping(int(self.estimator.n_iter_no_change), self.estimator.validation_fraction is None)


def _predictions_of(labels: Any, raw: NDArray[Any]) -> Predictions:
    """Return the predictions of a classification from one score per sample, or one per class."""
    return Predictions("train", labels, raw if raw.shape[-1] > 1 else (raw[:, 0] > 0).astype(np.int64), True, True)


def _gains(predictor: Any) -> NDArray[np.float64]:
    inner = predictor.nodes["is_leaf"] == 0
    return np.asarray(predictor.nodes["gain"][inner], np.float64)


def _named(estimator: Any, values: NDArray[np.float64]) -> dict[str, float]:
    names = getattr(estimator, "feature_names_in_", None)
    found = [str(name) for name in names] if names is not None and len(names) == len(values) else [
        f"x{number}" for number in range(len(values))]
    return dict(zip(found, values.tolist(), strict=True))
