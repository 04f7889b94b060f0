"""The probe of JAX: what the script's function returns for fixed samples, whenever it is called."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

jax = pytest.importorskip("jax", reason="jax is not installed")

import barograph  # noqa: E402
import barograph.jax  # noqa: E402
from barograph.capture.guard import BarographWarning  # noqa: E402
from barograph.capture.jax.listener import shared  # noqa: E402
from barograph.capture.recording import current  # noqa: E402
from barograph.errors import SettingsError  # noqa: E402
from barograph.inside import explain, frames, latent, saliency, saliency_samples  # noqa: E402
from barograph.model.probe import SALIENCY_METHODS  # noqa: E402

jnp = jax.numpy
X, Y = np.random.default_rng(0).normal(size=(20, 4)).astype("float32"), np.arange(20) % 3
W = np.random.default_rng(1).normal(size=(4, 3)).astype("float32")


@barograph.jax.observe
@jax.jit
def step(weights: Any, x: Any, y: Any) -> Any:
    def loss(w: Any) -> Any:
        return -jnp.take_along_axis(jax.nn.log_softmax(x @ w), y[:, None], 1).mean()

    value, gradient = jax.value_and_grad(loss)(weights)
    return weights - 0.1 * gradient, value


def trained(place: str, **settings: Any) -> Any:
    weights = jnp.asarray(W)
    with barograph.attach(to=place, watch=False, **settings):
        for _ in range(2):
            weights, _ = step(weights, X, Y)
            barograph.jax.probe(lambda x, w=weights: (x @ w, x @ w[:, :2]), X, Y)
    return np.asarray(weights)


def test_each_call_is_a_frame_with_features_results_and_maps() -> None:
    place = "memory://probe-jax-frames"
    weights = trained(place, probe={"samples": 6, "saliency": 2})

    first, last = frames(place)
    scores = X[:6] @ weights
    assert (first.layer, np.asarray(first.outputs).shape) == ("features", (6, 2))
    assert list(last.targets) == Y[:6].tolist()
    assert list(last.predictions) == scores.argmax(1).tolist()
    logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    np.testing.assert_allclose(last.losses, -logs[np.arange(6), Y[:6]], rtol=1e-3)
    assert latent(place) is not None
    sample = saliency_samples(place)[0]
    found = saliency(place, sample, method="gradient-input").maps[-1]
    np.testing.assert_allclose(np.asarray(found.values).reshape(-1), X[0] * weights[:, scores[0].argmax()], rtol=1e-2)


def test_the_maps_of_jax_are_those_of_the_formula() -> None:
    for method in SALIENCY_METHODS:
        np.testing.assert_allclose(explain(lambda x: x @ W, X[:2], [0, 1], method=method), X[:2] * W.T[[0, 1]],
                                   rtol=1e-4, atol=1e-6)


def test_without_a_run_nothing_is_called() -> None:
    def never(x: Any) -> Any:
        raise AssertionError

    barograph.jax.probe(never, X)


def test_samples_without_rows_are_refused() -> None:
    with barograph.attach(to="memory://probe-jax", watch=False), pytest.raises(SettingsError, match="probe is float32"):
        barograph.jax.probe(lambda x: x, np.float32(3.0))


def test_an_evaluation_ends_although_the_function_of_the_script_fails() -> None:
    def broken(x: Any) -> Any:
        raise ValueError("no such layer")

    with barograph.attach(to="memory://probe-jax-broken", watch=False, probe=4):
        recording = current()
        assert recording is not None
        step(jnp.asarray(W), X, Y)
        with pytest.warns(BarographWarning, match="no such layer"):
            barograph.jax.probe(broken, X, Y)
        series = shared(recording).series
        assert series is not None
        assert not series.evaluating
