"""The integration of scikit-learn's SGD models: each call of `partial_fit` is a step.

The samples and epochs within one call run in compiled code without hooks.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import sklearn
from sklearn import linear_model

from barograph.capture.integrations import report_missing
from barograph.model.facts import Fact

if TYPE_CHECKING:
    from barograph.capture.array_integration import ArrayIntegration
    from barograph.capture.integration_pool import IntegrationPool
    from barograph.capture.patches import Patches
    from barograph.capture.session import Session

_MODULE = "linear_model._stochastic_gradient"
_CLASSES = ("BaseSGDClassifier", "BaseSGDRegressor")


def wrap_linear(patches: Patches, integrations: IntegrationPool, session: Session) -> None:
    """Wrap the training methods."""
    needs = {f"{_MODULE}.{name}.{method}": "steps" for name in _CLASSES for method in ("fit", "partial_fit")}
    if report_missing(session, sklearn, needs):
        return
    listener = _Linear(integrations)
    for name in _CLASSES:
        holder = getattr(linear_model._stochastic_gradient, name)
        patches.wrap(holder, "fit", listener.fits)
        patches.wrap(holder, "partial_fit", listener.goes_on)


class _Linear:
    """Assigns each model its series of steps."""

    def __init__(self, integrations: IntegrationPool) -> None:
        self._integrations = integrations
        self._here = threading.local()
        self._known: weakref.WeakKeyDictionary[Any, ArrayIntegration] = weakref.WeakKeyDictionary()

    def fits(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Train from the beginning: one step, however many epochs."""
        return self._step(original, args, kwargs, anew=not args[0].warm_start)

    def goes_on(self, original: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Train on."""
        return self._step(original, args, kwargs, anew=False)

    def _step(self, original: Callable[..., Any], args: Any, kwargs: Any, *, anew: bool) -> Any:
        if getattr(self._here, "busy", False):
            return original(*args, **kwargs)  # one method that calls the other
        model = args[0]
        integration = self._known.get(model)
        if integration is None:
            integration = self._known[model] = self._integrations.take()
            weakref.finalize(model, self._integrations.give_back, integration).atexit = False
            anew = True
        if anew:
            integration.begin_training()
        if not anew or model.warm_start:
            integration.before_update(_weights(model))
        self._here.busy = True
        try:
            result = original(*args, **kwargs)
        finally:
            self._here.busy = False
        samples = args[1] if len(args) > 1 else kwargs.get("X")
        with integration.guarded("reading a linear model"):
            weights = _weights(model)
            integration.session.seen.explain_no_loss("scikit-learn's SGD reports none")
            integration.declare(parameters=weights)
            integration.after_update(weights)
            integration.fact(Fact.BATCH_SIZE, float(samples.shape[0] if hasattr(samples, "shape") else len(samples)))
            integration.metrics({"n_iter": float(model.n_iter_)})
        integration.end_step()
        return result


def _weights(model: Any) -> dict[str, Any]:
    found = {"coef": getattr(model, "coef_", None), "intercept": getattr(model, "intercept_", None)}
    return {name: value for name, value in found.items() if value is not None}
