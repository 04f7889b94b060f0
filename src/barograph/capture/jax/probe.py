"""The probe of JAX: evaluates fixed samples whenever the script calls `barograph.jax.probe`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from barograph.capture.attribution import METHODS, attribution
from barograph.capture.entry_point import EntryPoint
from barograph.capture.probe_pass import Called, OwnProbe, Results, class_results
from barograph.errors import UnknownName, UnsupportedCapture, nearest
from barograph.model.probe import MODEL_OUTPUT, ProbeSettings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from barograph.capture.array_integration import ArrayIntegration
    from barograph.capture.session import Session

FEATURES = "features"


class JaxProbe:
    """The probe of one recording.

    Args:
        session: Stores the records.
        settings: What is stored.
        inputs, targets: The samples.

    Raises:
        SettingsError: The inputs are not an array with a row per sample.
    """

    def __init__(self, session: Session, settings: ProbeSettings, inputs: Any, targets: Any) -> None:
        self._session = session
        self._entry = EntryPoint(session)
        self._probe = OwnProbe(settings, self._say)
        self._probe.choose(inputs, targets)

    def evaluate(self, model: Callable[[Any], Any], series: ArrayIntegration) -> None:
        """Evaluate the samples, in the current evaluation or in one of their own."""
        alone = not series.evaluating
        if alone:
            series.begin_evaluation()
        try:
            with self._entry.guarded("recording the probe"):
                self._probe.write(_JaxModel(model), series.evaluation_buffer)
                self._session.seen.reasons.pop("the probe", None)
        finally:
            if alone:
                series.end_evaluation()

    def _say(self, cause: str, reason: str) -> None:
        self._session.seen.reasons[f"probe {cause}"] = reason


def explained(model: Callable[[Any], Any], inputs: Any, classes: Any, method: str) -> NDArray[Any]:
    """Return the maps of any samples; see `barograph.inside.explain`."""
    if method not in METHODS:
        raise UnknownName(f'method is "{method}". {nearest(method, METHODS)}')
    x = np.asarray(inputs)
    if x.dtype.kind != "f":
        raise UnsupportedCapture("Cannot compute saliency maps: the inputs are integers, which have no gradient.")
    own = _JaxModel(model)
    wanted = own.call(x).scores.reshape(len(x), -1).argmax(1) if classes is None else np.asarray(classes, np.int64)
    return attribution(own.gradient, x, wanted, method)


def results_of(scores: NDArray[Any], targets: NDArray[Any] | None) -> Results:
    """Return targets, predictions and the cross-entropy of samples; see `class_results`."""
    found = class_results(scores, targets, None)
    if found.targets is None or scores.ndim != 2 or scores.shape[1] < 2:
        return found
    away = scores - scores.max(1, keepdims=True)
    logs = away - np.log(np.exp(away).sum(1, keepdims=True))
    known = (found.targets >= 0) & (found.targets < scores.shape[1])
    picked = logs[np.arange(len(scores)), np.where(known, found.targets, 0)]
    return Results(found.targets, found.predictions, np.where(known, -picked, np.nan))


class _JaxModel:
    def __init__(self, model: Callable[[Any], Any]) -> None:
        self._model = model

    def call(self, inputs: NDArray[Any]) -> Called:
        scores, features = self._called(jnp.asarray(inputs))
        if features is None:
            return Called(scores := np.asarray(scores), MODEL_OUTPUT, scores)
        return Called(np.asarray(scores), FEATURES, np.asarray(features))

    def gradient(self, inputs: NDArray[Any], classes: NDArray[np.int64]) -> NDArray[Any]:
        def score(x: Any) -> Any:
            scores = self._called(x)[0].reshape(len(inputs), -1)
            chosen = jnp.asarray(classes) if scores.shape[1] > 1 else jnp.zeros(len(inputs), int)
            return jnp.take_along_axis(scores, chosen[:, None], 1).sum()

        return np.asarray(jax.grad(score)(jnp.asarray(inputs)))

    def results(self, scores: NDArray[Any], targets: NDArray[Any] | None) -> Results:
        return results_of(scores, targets)

    def _called(self, inputs: Any) -> tuple[Any, Any]:
        found = self._model(inputs)
        return found if isinstance(found, tuple) and len(found) == 2 else (found, None)
