"""The probe of Keras: fixed samples after each evaluation; the training stays as it is."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
import pytest

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
pytest.importorskip(os.environ["KERAS_BACKEND"], reason="the backend of Keras is not installed")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    keras = pytest.importorskip("keras", reason="keras is not installed")

import barograph
from barograph.capture.recording import current
from barograph.errors import SettingsError, UnknownName, UnsupportedCapture
from barograph.inside import explain, frames, latent, saliency, saliency_samples
from barograph.model.probe import SALIENCY_METHODS

pytestmark = [
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning"),
]
GENERATOR = np.random.default_rng(0)
X, Y = GENERATOR.normal(size=(48, 6)).astype("float32"), np.arange(48) % 3


def model(**compiled: Any) -> Any:
    keras.utils.set_random_seed(0)
    layers = keras.layers
    found = keras.Sequential([layers.Input((6,)), layers.Dense(8, activation="relu", name="hidden"),
                              layers.BatchNormalization(), layers.Dropout(0.3), layers.Dense(3, name="out")])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    found.compile(keras.optimizers.SGD(0.1), **{"loss": loss, **compiled})
    return found


def fitted(place: str | None, *, epochs: int = 2, validation: Any = (X[32:], Y[32:]), **settings: Any) -> Any:
    net = model()
    fit = {"epochs": epochs, "batch_size": 8, "verbose": 0, "validation_data": validation}
    if place is None:
        net.fit(X[:32], Y[:32], **fit)
    else:
        with barograph.attach(to=place, watch=False, **settings):
            net.fit(X[:32], Y[:32], **fit)
    return net


def test_the_training_stays_as_it_is_and_each_validation_is_a_frame() -> None:
    place = "memory://the-training-stays-as-it-is-an"
    with_probe, without = fitted(place, probe={"samples": 10, "saliency": 2}), fitted(None)

    for mine, other in zip(with_probe.weights, without.weights, strict=True):
        np.testing.assert_array_equal(np.asarray(mine), np.asarray(other))
    first, last = frames(place)
    assert first.layer == "input of out"
    assert np.asarray(first.outputs).shape == (10, 8)
    assert list(first.targets) == Y[32:42].tolist()
    scores = np.asarray(with_probe(X[32:42], training=False))
    assert list(last.predictions) == scores.argmax(1).tolist()
    logs = scores - np.log(np.exp(scores).sum(1, keepdims=True))
    np.testing.assert_allclose(last.losses, -logs[np.arange(10), Y[32:42]], rtol=1e-3)
    assert latent(place) is not None
    assert len(saliency_samples(place)) == 2
    found = saliency(place, saliency_samples(place)[0])
    assert len(found.maps) == 2


def test_the_maps_of_keras_are_those_of_the_formula() -> None:
    linear = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dense(2, use_bias=False)])
    weights = np.array([[1.0, -2.0], [0.5, 3.0], [0.0, 1.0]], np.float32)
    linear.set_weights([weights])
    x = np.array([[1.0, 2.0, 3.0], [-1.0, 0.0, 2.0]], np.float32)

    for method in SALIENCY_METHODS:
        np.testing.assert_allclose(explain(linear, x, [0, 1], method=method), x * weights.T[[0, 1]], rtol=1e-5)
    np.testing.assert_allclose(explain(linear, x), x * weights.T[(x @ weights).argmax(1)], rtol=1e-5)


def test_samples_of_the_script_are_evaluated_instead() -> None:
    place = "memory://samples-of-the-script-are-eval"
    fitted(place, probe=(X[:5], Y[:5]))

    assert list(frames(place)[0].targets) == Y[:5].tolist()


def test_another_layer_can_be_chosen() -> None:
    place = "memory://another-layer-can-be-chosen"
    fitted(place, epochs=1, probe={"samples": 4, "layer": "hidden"})

    assert (frames(place)[0].layer, np.asarray(frames(place)[0].outputs).shape) == ("hidden", (4, 8))


def test_data_that_cannot_be_read_twice_is_named() -> None:
    place = "memory://data-that-cannot-be-read-twice"

    class Batches(keras.utils.PyDataset):  # type: ignore[misc]
        def __len__(self) -> int:
            return 1

        def __getitem__(self, place: int) -> Any:
            return X[32:], Y[32:]

    with barograph.attach(to=place, watch=False, probe=4):
        net = model()
        net.fit(X[:32], Y[:32], epochs=1, batch_size=8, verbose=0, validation_data=Batches())
        recording = current()
        assert recording is not None
        reason = recording.session.seen.reasons["probe samples"]
    assert frames(place) == []
    assert "the evaluation data is Batches" in reason
    assert "attach(probe=(inputs, targets))" in reason


def test_a_regression_with_several_outputs_has_losses_and_no_classes() -> None:
    place, wanted = "memory://a-regression-with-several", GENERATOR.normal(size=(48, 3)).astype("float32")
    net = model(loss="mse")
    with barograph.attach(to=place, watch=False, probe=6):
        net.fit(X[:32], wanted[:32], epochs=1, batch_size=8, verbose=0, validation_data=(X[32:], wanted[32:]))

    (frame,) = frames(place)
    assert (frame.targets, frame.predictions) == (None, None)
    away = np.asarray(net(X[32:38], training=False)) - wanted[32:38]
    np.testing.assert_allclose(frame.losses, (away ** 2).mean(1), rtol=1e-3)


def test_a_label_that_is_no_class_leaves_the_probe_without_losses() -> None:
    place = "memory://a-label-that-is-no-class"
    with barograph.attach(to=place, watch=False, probe=(X[:4], np.array([0, 1, 2, 9]))):
        model().fit(X[:32], Y[:32], epochs=1, batch_size=8, verbose=0, validation_data=(X[32:], Y[32:]))

    (frame,) = frames(place)
    assert frame.losses is None
    assert list(frame.targets) == [0, 1, 2, 9]


def test_what_is_no_sample_is_refused_and_the_process_can_be_recorded_again() -> None:
    with pytest.raises(SettingsError, match="probe"):
        barograph.attach(to="memory://refused", watch=False, probe=object())
    assert current() is None


def test_what_cannot_be_explained_is_an_error() -> None:
    with pytest.raises(UnknownName, match="method"):
        explain(model(), X, method="magic")
    with pytest.raises(UnsupportedCapture, match="integers"):
        explain(model(), np.arange(12).reshape(2, 6))
