"""Keras as it is trained, on whichever backend this process has; `test_keras_backends` runs the others."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import barograph
from barograph.attached import AttachedRun
from barograph.capture.guard import BarographWarning
from barograph.capture.recording import current
from barograph.errors import NotPlain, TrainingStopped, UnknownKey
from barograph.model.step import Mode
from barograph.runs.reading.reader import RunReader
from barograph.runs.state.capsules import capsule_names, read_capsule
from barograph.runs.state.checkpoints import write_checkpoint
from barograph.store.urls import store_from_url
from barograph.testing.frameworks import FrameworkConformance, Task

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
pytest.importorskip(os.environ["KERAS_BACKEND"], reason="the backend of Keras is not installed")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    keras = pytest.importorskip("keras", reason="keras is not installed")

from barograph.capture.keras import arrays, backends, fetching
from barograph.capture.keras.checkpoint import load

BACKEND = keras.backend.backend()
COMPILES = BACKEND != "torch"

pytestmark = [
    # How Keras reads a tensor of torch as an array.
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning"),
]


def small(optimizer: Any = None, *, seed: int = 0, **compiled: Any) -> Any:
    """Return a network with something that draws and something that remembers, compiled."""
    keras.utils.set_random_seed(seed)
    layers = keras.layers
    model = keras.Sequential([
        layers.Input((6,)), layers.Dense(8, activation="relu", name="hidden"),
        layers.BatchNormalization(name="norm"), layers.Dropout(0.2, name="drop"),
        layers.Dense(3, activation="softmax", name="out"),
    ], name="small")
    options = {"metrics": ["accuracy"], "run_eagerly": True, **compiled}
    model.compile(optimizer or keras.optimizers.Adam(0.01), "sparse_categorical_crossentropy", **options)
    return model


def samples(count: int = 40, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, 6)).astype(np.float32), rng.integers(0, 3, count)


def fitted(model: Any, *, epochs: int = 1, x: Any = None, **options: Any) -> list[Any]:
    given, labels = samples()
    model.fit(given if x is None else x, labels, batch_size=8, epochs=epochs, shuffle=False, verbose=0, **options)
    return [np.array(weight) for weight in model.get_weights()]


def recorded(
    place: str, model: Any, options: Mapping[str, Any] | None = None, **settings: Any
) -> tuple[RunReader, list[Any]]:
    with barograph.attach(to=place, watch=False, **{"strict": True, "budget": None, **settings}):
        weights = fitted(model, **(options or {}))
    return barograph.open(place), weights


class TestKeras(FrameworkConformance):
    """The suite of every integration; eager, so that it is quick on each backend. What is compiled is tested below."""

    framework = "keras"
    many_steps = 60

    def train(self, task: Task, run: AttachedRun | None) -> Mapping[str, Any]:
        keras.utils.set_random_seed(task.seed)
        layers = keras.layers
        model = keras.Sequential([layers.Input((4,)), layers.Dense(6, activation="relu", name="hidden"),
                                  layers.Dense(2, name="out")])
        gathers = task.accumulate if task.accumulate > 1 else None
        model.compile(keras.optimizers.SGD(0.1, gradient_accumulation_steps=gathers), "mse", run_eagerly=True)
        rng = np.random.default_rng(task.seed)
        x, y = rng.normal(size=(2, task.steps * task.accumulate * 5, 4)).astype(np.float32)
        if task.nan_at is not None:
            x[task.nan_at * 5] = np.nan
        chunk = (task.evaluate_every or task.steps) * task.accumulate * 5
        for begin in range(0, len(x), chunk):
            part = slice(begin, begin + chunk)
            model.fit(x[part], y[part, :2], batch_size=5, shuffle=False, verbose=0)
            if task.evaluate_every and (begin + chunk) <= len(x):
                model.evaluate(x[:5], y[:5, :2], verbose=0)
        return {path: np.array(weight) for path, weight in zip(
            ("hidden.kernel", "hidden.bias", "out.kernel", "out.bias"), model.get_weights(), strict=True)}


@pytest.fixture(scope="module")
def whole() -> tuple[RunReader, list[Any], list[Any]]:
    """A compiled `fit` with an evaluation, bare and then with everything recorded."""
    options = {"run_eagerly": False, "jit_compile": False if BACKEND == "torch" else "auto"}
    x, labels = samples(16, seed=1)
    bare = fitted(small(**options), validation_data=(x, labels))
    with barograph.attach(to="memory://keras-whole", watch=False, strict=True, budget=None, preset="everything"):
        watched = fitted(small(**options), validation_data=(x, labels))
    return barograph.open("memory://keras-whole"), bare, watched


def test_a_compiled_fit_comes_to_the_same_bits_with_and_without_us(whole: Any) -> None:
    _, bare, watched = whole
    assert [weight.tobytes() for weight in bare] == [weight.tobytes() for weight in watched]


def test_what_is_recorded_of_a_compiled_fit(whole: Any) -> None:
    run, _, _ = whole
    keys = set(map(str, run.keys()))
    parameters = {"hidden.kernel", "hidden.bias", "norm.gamma", "norm.beta", "out.kernel", "out.bias"}
    assert {f"{kind}:{path}" for kind in ("weight", "gradient", "update") for path in parameters} <= keys
    assert {"output:hidden", "output:drop", "input:out", "batch:model", "learning_rate:group0", "scalar:accuracy",
            "optimizer_state:out.kernel[exp_avg]", "optimizer_state:out.kernel[exp_avg_sq]",
            "label:sparse_categorical_crossentropy[0]"} <= keys
    # Nothing is added to the loss function, so it is recorded under its own name as well.
    own = run.series("loss:sparse_categorical_crossentropy")
    assert own.values.tolist() == run.series("loss:total").values.tolist()
    assert run.series("loss:total").steps.tolist() == [0, 1, 2, 3, 4]
    assert run.series("loss:total", mode=Mode.EVAL).steps.tolist() == [5]
    assert run.series("scalar:accuracy", mode=Mode.EVAL).steps.tolist() == [5]


@pytest.mark.parametrize("regularizer", ["l2", None])
def test_a_loss_that_a_penalty_is_added_to_does_not_stand_under_its_own_name(regularizer: str | None) -> None:
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.layers.Input((6,)),
                              keras.layers.Dense(3, activation="softmax", kernel_regularizer=regularizer)])
    model.compile("sgd", "sparse_categorical_crossentropy", run_eagerly=BACKEND != "jax")
    run, _ = recorded(f"memory://keras-penalty-{regularizer}", model)
    named = "loss:sparse_categorical_crossentropy" in map(str, run.keys())
    assert named is (regularizer is None)


@pytest.mark.filterwarnings("ignore:.*received `from_logits=True`:UserWarning")
@pytest.mark.parametrize(("activation", "from_logits", "fact", "share"), [
    (None, False, "logits_as_probabilities", 1.0),
    ("softmax", False, "logits_as_probabilities", 0.0),
    # On TensorFlow Keras goes back behind the softmax by itself.
    ("softmax", True, "probabilities_as_logits", None if BACKEND == "tensorflow" else 1.0),
])
def test_what_a_loss_is_handed_is_told(
    activation: str | None, from_logits: bool, fact: str, share: float | None
) -> None:
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.layers.Input((6,)), keras.layers.Dense(3, activation=activation)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=from_logits),
                  run_eagerly=BACKEND != "jax")
    run, _ = recorded(f"memory://keras-likeness-{activation}-{from_logits}", model)
    told = f"fact:{fact}" in map(str, run.keys())
    assert (run.series(f"fact:{fact}").values.tolist()[0] if told else None) == share


class Doubled(keras.losses.SparseCategoricalCrossentropy):  # type: ignore[misc]
    """A loss of a script's own, made of one of Keras's."""

    def call(self, y_true: Any, y_pred: Any) -> Any:
        return 2 * super().call(y_true, y_pred)


def test_a_loss_that_the_script_has_named_is_known_for_what_it_is() -> None:
    model = small()
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(name="mine"))
    run, _ = recorded("memory://keras-known-name", model)
    assert np.array_equal(run.series("loss:sparse_categorical_crossentropy").values, run.series("loss:total").values)
    assert {"label:sparse_categorical_crossentropy[0]", "fact:classes"} <= set(map(str, run.keys()))
    model.compile("sgd", Doubled(name="mine"))
    other, _ = recorded("memory://keras-own-name", model)
    assert sorted(key.path for key in other.keys(kind="loss")) == ["mine", "total"]


@pytest.mark.parametrize("named", [True, False], ids=["by name", "in order"])
def test_labels_and_targets_of_each_output_are_told(named: bool) -> None:
    keras.utils.set_random_seed(0)
    given = keras.Input((6,))
    kind = keras.layers.Dense(3, activation="softmax", name="kind")(given)
    size = keras.layers.Dense(1, name="size")(given)
    model = keras.Model(given, {"kind": kind, "size": size} if named else [kind, size])
    losses = {"kind": "SparseCategoricalCrossentropy", "size": "mse"}
    model.compile("sgd", losses if named else [*losses.values()], run_eagerly=BACKEND != "jax")
    x, labels = samples()
    truth = {"kind": labels, "size": x[:, :1]}
    place = f"memory://keras-outputs-{named}"
    with barograph.attach(to=place, watch=False, strict=True, budget=None):
        model.fit(x, truth if named else [*truth.values()], batch_size=40, verbose=0)
    run = barograph.open(place)
    counts = [run.series(f"label:kind[{number}]").values.tolist() for number in range(3)]
    assert counts == [[count] for count in np.bincount(labels)]
    assert run.series("target:size", "count").values.tolist() == [40]
    assert "target:kind" not in map(str, run.keys(kind="target"))


@pytest.mark.parametrize(("options", "told"), [
    ({"class_weight": {0: 1.0, 1: 2.0, 2: 9.0}}, 1.0), ({"sample_weight": np.ones(40, np.float32)}, 0.0), ({}, None),
])
def test_whether_the_loss_weighs_is_told(tmp_path: Any, options: dict[str, Any], told: float | None) -> None:
    run, _ = recorded(str(tmp_path / "run"), small(), options)
    assert {"batch:model", "label:sparse_categorical_crossentropy[0]"} <= set(map(str, run.keys()))
    known = "fact:loss_weighted" in map(str, run.keys())
    assert (run.series("fact:loss_weighted").values.tolist()[0] if known else None) == told


@pytest.mark.skipif(BACKEND != "tensorflow", reason="only there a tape is asked")
@pytest.mark.parametrize("eager", [True, False])
def test_what_is_done_while_a_step_is_traced_belongs_to_starting_up(
    eager: bool, monkeypatch: pytest.MonkeyPatch,
) -> None:
    from barograph.capture import entry_point, startup
    from barograph.capture.keras.collector import Collector
    from barograph.capture.thread_clock import cpu_secs

    late = [0.0]
    for module in (entry_point, startup):
        monkeypatch.setattr(module, "cpu_secs", lambda: cpu_secs() + late[0])
    monkeypatch.setattr(startup, "time", SimpleNamespace(
        perf_counter=lambda: time.perf_counter() + late[0], time=time.time))
    monkeypatch.setattr(Collector, "gradient_asked", lambda *_: late.__setitem__(0, late[0] + 1000.0))
    run, _ = recorded(f"memory://keras-traced-{eager}", small(run_eagerly=eager))
    last = run.workers[0].last
    assert last is not None
    assert (last.cost.startup_secs > 900.0, last.cost.capture_secs > 900.0) == (not eager, eager)


@pytest.mark.parametrize("eager", [True, False])
def test_the_gradient_of_an_embedding_is_that_of_its_whole_table(eager: bool) -> None:
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.layers.Input((6,)), keras.layers.Embedding(9, 2, name="table"),
                              keras.layers.Flatten(), keras.layers.Dense(3, activation="softmax")])
    model.compile("sgd", "sparse_categorical_crossentropy", run_eagerly=eager and BACKEND != "jax")
    x = np.random.default_rng(0).integers(0, 9, (40, 6))
    run, _ = recorded(f"memory://keras-table-{eager}", model, {"x": x}, recorder=True)
    assert run.series("gradient:table.embeddings", "count").values.tolist() == [18] * 5


def test_a_step_after_an_evaluation_by_batches_is_none_of_it() -> None:
    x, y = samples(10)
    place = "memory://keras-by-batches"
    with barograph.attach(to=place, watch=False, strict=True, preset="everything", budget=None):
        model = small()
        for _ in range(2):
            model.train_on_batch(x, y)
            for part in (slice(5), slice(5, 10)):
                model.test_on_batch(x[part], y[part])
    run = barograph.open(place)
    for mode, steps in ((Mode.TRAIN, [0, 1]), (Mode.EVAL, [1, 2])):
        for key in ("loss:total", "output:hidden"):
            assert run.series(key, "value" if key.startswith("loss") else "count", mode=mode).steps.tolist() == steps
    assert run.series("gradient:hidden.kernel", "count").steps.tolist() == [0, 1]
    assert run.series("output:hidden", "count", mode=Mode.EVAL).values.tolist() == [10 * 8, 10 * 8]


def test_of_several_micro_batches_the_gradient_is_that_of_the_step() -> None:
    run, _ = recorded("memory://keras-gathered", small(keras.optimizers.SGD(0.1, gradient_accumulation_steps=2)),
                      preset="everything")
    assert run.series("gradient:out.kernel", "count").values.tolist() == [24, 24]
    assert run.series("output:out", "count").values.tolist() == [48, 48]
    np.testing.assert_allclose(run.summary("update:out.kernel", 1).rms, 0.1 * run.summary("gradient:out.kernel", 1).rms,
                               rtol=1e-4)


def test_an_update_is_the_learning_rate_times_the_gradient_for_plain_descent() -> None:
    run, _ = recorded("memory://keras-descent", small(keras.optimizers.SGD(0.5)), preset="everything")
    moved, gradient = run.series("update:out.kernel", "l2").values, run.series("gradient:out.kernel", "l2").values
    assert moved == pytest.approx(0.5 * gradient, rel=1e-4)


def test_gradients_of_a_scaled_loss_are_told_unscaled() -> None:
    plain, _ = recorded("memory://keras-plain", small(keras.optimizers.SGD(0.01)))
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.01), initial_scale=1024.0)
    scaled, _ = recorded("memory://keras-scaled", small(optimizer))
    wanted = plain.series("gradient:hidden.kernel", "l2").values
    assert scaled.series("gradient:hidden.kernel", "l2").values == pytest.approx(wanted, rel=1e-3)


def test_a_step_that_the_scaler_skips_is_marked() -> None:
    x, _ = samples()
    x[17] = np.inf
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.01), initial_scale=1024.0)
    with barograph.attach(to="memory://keras-skips", watch=False, strict=True, budget=None):
        fitted(small(optimizer), x=x)
    views = [view for view in barograph.open("memory://keras-skips").views() if "loss" in map(str, view.kinds)]
    assert [view.step.skipped for view in views][:3] == [False, False, True]


@pytest.mark.skipif(BACKEND != "tensorflow", reason="only variables of TensorFlow are fetched all at once")
def test_variables_that_are_fetched_all_at_once_are_those_that_are_fetched_one_by_one(
        monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def reader(variables: Any) -> Any:
        found = arrays.read_all_of(variables)
        made.append(len(variables))
        return found

    monkeypatch.setattr(backends.TensorFlowBackend, "reader", staticmethod(reader))
    runs = []
    for place, most in (("together", 1), ("alone", 1000)):
        monkeypatch.setattr(fetching, "WORTH_WHILE", most)
        run, weights = recorded(f"memory://keras-{place}", small(run_eagerly=False), {"epochs": 3},
                                preset="everything")
        runs.append((run, weights))
    assert made == [6, 12]
    (together, weights), (alone, same) = runs
    assert all(map(np.array_equal, weights, same))
    kinds = ("weight", "update", "optimizer_state")
    keys, others = ([key for key in found if key.kind in kinds] for found in (together.keys(), alone.keys()))
    assert keys == others
    assert len(keys) == 6 + 6 + 12
    for key in keys:
        found, wanted = together.series(key, "l2"), alone.series(key, "l2")
        assert found.steps.tolist() == wanted.steps.tolist() == list(range(15))
        assert found.values.tolist() == wanted.values.tolist(), key


@pytest.mark.filterwarnings("ignore:Your input ran out of data")  # Keras 3.5, of a last call with fewer steps
@pytest.mark.skipif(BACKEND == "torch", reason="Keras makes one step a call with torch")
def test_of_several_steps_in_one_call_the_last_is_told_with_its_number() -> None:
    run, _ = recorded("memory://keras-several", small(run_eagerly=False, steps_per_execution=2))
    # Before 3.7 a call of Keras's that finds too few batches for its steps fails when it has made them.
    ends_early = BACKEND == "tensorflow" and tuple(map(int, keras.__version__.split(".")[:2])) < (3, 7)
    assert run.series("loss:total").steps.tolist() == ([1, 3] if ends_early else [1, 3, 4])
    last = run.workers[0].last
    assert last is not None
    assert last.coverage.steps == (4 if ends_early else 5)
    assert any("steps_per_execution=2" in reason for reason in last.coverage.reasons)
    assert not any("budget" in reason for reason in last.coverage.reasons)


@pytest.mark.parametrize(("gathers", "steps"), [(None, [5, 6, 7, 8, 9]), (2, [2, 3, 4])])
def test_a_model_that_was_saved_and_loaded_goes_on_counting(
        tmp_path: Any, gathers: int | None, steps: list[int]) -> None:
    model = small(keras.optimizers.SGD(0.01, gradient_accumulation_steps=gathers))
    fitted(model)
    model.save(tmp_path / "half.keras")
    run, _ = recorded(f"memory://keras-loaded-{gathers}", keras.models.load_model(tmp_path / "half.keras"))
    assert run.series("loss:total").steps.tolist() == steps


class Named(keras.Model if keras is not None else object):  # type: ignore[misc]
    """A model whose step is the script's own, as the guides of each backend write it."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden = keras.layers.Dense(8, activation="relu", name="hidden")
        self.out = keras.layers.Dense(3, activation="softmax", name="out")

    def call(self, x: Any) -> Any:
        return self.out(self.hidden(x))

    if BACKEND == "tensorflow":
        def train_step(self, data: Any) -> Any:
            import tensorflow

            x, y = data
            with tensorflow.GradientTape() as tape:
                loss = self.compute_loss(y=y, y_pred=self(x))
            gradients = tape.gradient(loss, self.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.trainable_variables, strict=True))
            return {"loss": loss}
    elif BACKEND == "torch":
        def train_step(self, data: Any) -> Any:
            import torch

            x, y = data
            self.zero_grad()
            loss = self.compute_loss(y=y, y_pred=self(x))
            loss.backward()
            with torch.no_grad():
                self.optimizer.apply([weight.value.grad for weight in self.trainable_weights], self.trainable_weights)
            return {"loss": loss}
    else:
        def train_step(self, state: Any, data: Any) -> Any:
            import jax

            trainable, untrained, kept, metrics = state
            x, y = data

            def loss_of(weights: Any) -> Any:
                answers, _ = self.stateless_call(weights, untrained, x)
                return self.compute_loss(x, y, answers)

            loss, gradients = jax.value_and_grad(loss_of)(trainable)
            trainable, kept = self.optimizer.stateless_apply(kept, gradients, trainable)
            return {"loss": loss}, (trainable, untrained, kept, metrics)


def test_a_step_of_the_scripts_own_is_recorded() -> None:
    def model() -> Any:
        keras.utils.set_random_seed(0)
        made = Named()
        made.compile(keras.optimizers.SGD(0.1), "sparse_categorical_crossentropy")
        return made

    bare = fitted(model())
    run, watched = recorded("memory://keras-named", model())
    assert [weight.tobytes() for weight in bare] == [weight.tobytes() for weight in watched]
    assert run.series("loss:total").steps.tolist() == [0, 1, 2, 3, 4]
    assert run.series("gradient:hidden.kernel", "l2").values.min() > 0


def test_a_step_that_is_held_leaves_every_weight_as_it_was_and_is_saved(tmp_path: Any) -> None:
    x, _ = samples()
    x[17, 0] = np.nan  # in the batch of step 2
    given, labels = samples()
    before = small(run_eagerly=False)
    before.fit(given[:16], labels[:16], batch_size=8, shuffle=False, verbose=0)
    model = small(run_eagerly=False)
    with (pytest.raises(TrainingStopped, match=r"not finite. The update of step 2 was withheld"),
          barograph.attach(to=tmp_path / "held", watch=False, strict=True, recorder=True)):
        fitted(model, x=x)
    for was, now in zip(before.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_allclose(now, was, rtol=1e-5)
    store = store_from_url(str(tmp_path / "held"))
    (name,) = capsule_names(store)
    held = read_capsule(store, name)
    assert held.head.step == 2
    np.testing.assert_array_equal(held.tensors["batch/x"], x[16:24])
    assert set(held.content["weights"]) == {"hidden.kernel", "hidden.bias", "norm.gamma", "norm.beta", "out.kernel",
                                            "out.bias"}
    np.testing.assert_array_equal(held.tensors["weights/out.kernel"], np.asarray(model.get_weights()[6]))
    assert np.isfinite(held.tensors["untrained/norm.moving_mean"]).all()
    assert any(path.endswith("seed_generator_state") for path in held.content["untrained"])


def test_a_training_that_skips_what_is_not_finite_goes_on_with_finite_weights() -> None:
    x, _ = samples()
    x[17, 0] = np.nan
    model = small()
    with (pytest.warns(BarographWarning, match="The update of step 2 was withheld"),
          barograph.attach(to="memory://keras-skip", watch=False, budget=None, recorder={"then": "skip"})):
        weights = fitted(model, x=x)
    assert all(np.isfinite(weight).all() for weight in weights)
    losses = barograph.open("memory://keras-skip").series("loss:total").values
    assert np.isnan(losses).tolist() == [False, False, True, False, False]


def test_a_norm_beyond_the_bound_is_held() -> None:
    model = small()
    with (pytest.raises(TrainingStopped, match="above the bound 1e-6"),
          barograph.attach(to="memory://keras-norm", watch=False, strict=True, recorder={"norm_above": 1e-6})):
        fitted(model)


def test_a_function_of_the_users_is_asked_where_values_are_known() -> None:
    if BACKEND == "jax":
        pytest.skip("the step of the JAX backend is a function of its variables: nothing is asked within it")
    seen: list[float] = []

    def steep(update: Any) -> str:
        seen.append(update.norm)
        return "I have seen enough" if len(seen) == 3 else ""

    with (pytest.raises(TrainingStopped, match="I have seen enough"),
          barograph.attach(to="memory://keras-own", watch=False, strict=True, recorder={"when": steep})):
        fitted(small())
    assert len(seen) == 3


def test_the_recorder_leaves_a_sound_training_as_it_is() -> None:
    bare = fitted(small())
    _, watched = recorded("memory://keras-sound", small(), recorder=True)
    if BACKEND == "jax":
        # Its compiler fuses the check into the step, and may round otherwise then.
        for one, other in zip(bare, watched, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    else:
        assert [weight.tobytes() for weight in bare] == [weight.tobytes() for weight in watched]


def test_a_callback_begins_a_run_for_several_trainings() -> None:
    import barograph.keras

    callback = barograph.keras.Callback(to="memory://keras-callback", watch=False, strict=True, budget=None)
    model = small()
    fitted(model)
    fitted(model, callbacks=[callback])
    fitted(model)
    assert callback.run is not None
    callback.run.close()
    # The training before the callback had made five.
    assert barograph.open("memory://keras-callback").series("loss:total").steps.tolist() == list(range(5, 15))
    assert getattr(model.train_function, "of_keras", None) is None


def test_a_fault_of_ours_in_the_step_is_one_warning_and_the_function_of_keras_serves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from barograph.capture.keras.collector import Collector

    bare = fitted(small())

    def fail(*_: Any) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(Collector, "begin", fail)
    with (pytest.warns(BarographWarning, match="recording the train step of Keras"),
          barograph.attach(to="memory://keras-fault", watch=False, budget=None)):
        weights = fitted(small())
    assert [weight.tobytes() for weight in bare] == [weight.tobytes() for weight in weights]
    assert barograph.open("memory://keras-fault").series("loss:total").steps.tolist() == [0, 1, 2, 3, 4]


def test_of_devices_that_cannot_be_looked_into_weights_are_recorded_and_the_rest_is_said_to_be_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from barograph.capture.keras.backends import backend_named

    monkeypatch.setattr(type(backend_named(BACKEND)), "replicas", lambda self, model: 2)
    run, _ = recorded("memory://keras-shared", small(), recorder=True)
    kinds = {str(key.kind) for key in run.keys()}  # noqa: SIM118 - a run is no dictionary
    assert "weight" in kinds
    assert not kinds & {"gradient", "output", "batch"}
    last = run.workers[0].last
    assert last is not None
    told = "; ".join(last.coverage.reasons)
    assert "2 devices share each step" in told
    assert "cannot be held" in told


def test_an_error_of_the_scripts_step_is_raised_as_it_is() -> None:
    class Wrong(Named):
        def train_step(self, *_: Any) -> Any:
            raise KeyError("mine")

    model = Wrong()
    model.compile("sgd", "sparse_categorical_crossentropy")
    with (barograph.attach(to="memory://keras-wrong", watch=False, strict=True),
          pytest.raises(KeyError, match="mine")):
        fitted(model)


def test_barograph_keras_loads_no_framework_that_keras_does_not_load() -> None:
    code = """
import sys, keras
def loaded(): return [name for name in ("torch", "tensorflow", "jax") if name in sys.modules]
before = loaded()
import barograph.keras
print(loaded() == before)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
    assert done.stdout == "True\n"


@pytest.fixture(scope="module")
def checkpointed() -> tuple[str, Any, str]:
    """A compiled `fit` that was stopped after its third step, with a checkpoint; the model as it stands then."""
    place = "memory://keras-checkpoint"
    model = small(run_eagerly=False, jit_compile=False if BACKEND == "torch" else "auto")

    class Asks(keras.callbacks.Callback):  # type: ignore[misc, name-defined]
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            recording = current()
            if batch == 1 and recording is not None:
                recording.session.steering.request_stop("Enough.", checkpoint=True)

    with (pytest.raises(TrainingStopped) as stopped,
          barograph.attach(to=place, watch=False, strict=True, budget=None)):
        fitted(model, callbacks=[Asks()])
    return place, model, str(stopped.value)


def test_a_checkpoint_holds_the_step_that_the_training_was_stopped_after(checkpointed: Any) -> None:
    place, model, said = checkpointed
    assert re.fullmatch(r"Enough\. Barograph saved a checkpoint in memory://keras-checkpoint/checkpoints/\S+\.", said)

    again = small(seed=1)
    assert load(place, again) == 3
    for here, there in ((again, model), (again.optimizer, model.optimizer)):
        assert [np.array(item).tobytes() for item in here.variables] == [
            np.array(item).tobytes() for item in there.variables]
    assert int(np.array(again.optimizer.iterations)) == 3


def test_a_checkpoint_of_another_model_changes_nothing(checkpointed: Any) -> None:
    place, _, _ = checkpointed
    other = keras.Sequential([keras.layers.Input((6,)), keras.layers.Dense(2)])
    before = [np.array(item).tobytes() for item in other.variables]

    with pytest.raises(ValueError, match=r"The model differs from the checkpoint \(.*Sequential\): 2 variables, not 9"):
        load(place, other)
    assert [np.array(item).tobytes() for item in other.variables] == before


def test_a_run_without_a_checkpoint_says_so() -> None:
    recorded("memory://keras-no-checkpoint", small())
    with pytest.raises(UnknownKey, match="holds no checkpoint"):
        load("memory://keras-no-checkpoint", small())


def test_a_checkpoint_of_torch_is_none_of_keras() -> None:
    store = store_from_url("memory://keras-of-torch")
    write_checkpoint(store, attempt=0, steps=1, who="pid1", content={"models": {}, "optimizers": {}}, tensors={})
    with pytest.raises(NotPlain, match=r"capture\.torch\.checkpoint\.load"):
        load("memory://keras-of-torch", small())
