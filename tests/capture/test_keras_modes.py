"""In which mode a step calls its models, what of them is frozen, what Keras adds to a loss, and what broke one."""

from __future__ import annotations

import itertools
import os
import warnings
from typing import Any

import numpy as np
import pytest

import barograph

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
pytest.importorskip(os.environ["KERAS_BACKEND"], reason="the backend of Keras is not installed")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    keras = pytest.importorskip("keras", reason="keras is not installed")

from keras import layers

BACKEND = keras.backend.backend()
EAGER = BACKEND != "jax"
ON_TENSORFLOW = pytest.mark.skipif(BACKEND != "tensorflow", reason="a train_step is written otherwise elsewhere")

pytestmark = [
    # How Keras reads a tensor of torch as an array.
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning"),
]

_RUNS = itertools.count()


def body(*, dropout: float = 0.5) -> Any:
    return keras.Sequential([layers.Input((4,)), layers.Dense(6, name="hidden"), layers.BatchNormalization(name="norm"),
                             layers.Dropout(dropout, name="drop"), layers.Dense(1, name="out")])


def told(model: Any, *names: str, eager: bool = EAGER, steps: int = 2) -> list[float | None]:
    """Return facts of the last recorded step of a short training; None: it does not tell."""
    keras.utils.set_random_seed(0)
    model.compile(keras.optimizers.SGD(0.01), "mse", run_eagerly=eager)
    x, y = np.random.default_rng(0).normal(size=(2, 8 * steps, 4)).astype(np.float32)
    place = f"memory://keras-modes/{next(_RUNS)}"
    with barograph.attach(to=place, watch=False, strict=True, budget=None):
        model.fit(x, y[:, :1], batch_size=8, verbose=0)
    run = barograph.open(place)
    there = set(map(str, run.keys()))
    return [float(run.series(name).values[-1]) if name in there else None for name in names]


MODES = ("fact:layers_in_eval", "fact:model_in_eval")


def test_the_step_of_keras_trains_in_training_mode() -> None:
    assert told(body(), *MODES) == [0.0, 0.0]


class Silent(keras.Model):
    """A model whose `call` does not take `training`, so nothing within it is told of it."""

    def __init__(self) -> None:
        super().__init__()
        self.drop, self.out = layers.Dropout(0.9), layers.Dense(1)

    def call(self, x: Any) -> Any:
        return self.out(self.drop(x))


def test_a_call_that_does_not_hand_training_on_has_its_layers_in_evaluation() -> None:
    model, x = Silent(), np.ones((1, 64), np.float32)
    assert told(Silent(), *MODES) == [1.0, 1.0]
    # It is so: nothing is dropped.
    assert float(np.ptp([float(np.asarray(keras.ops.convert_to_numpy(model(x)))[0, 0]) for _ in range(3)])) == 0.0


@pytest.mark.parametrize(("model", "expected"), [
    (keras.Sequential([layers.Input((4,)), layers.Dense(1)]), [0.0, 0.0]),
    (keras.Sequential([layers.Input((4,)), layers.Dropout(0.0), layers.Dense(1)]), [0.0, 0.0]),
], ids=["none", "drops nothing"])
def test_a_model_without_layers_that_mind_is_not_in_evaluation(model: Any, expected: list[float]) -> None:
    assert told(model, *MODES) == expected


def test_what_is_frozen_is_counted_and_its_normalisation_is_nobodys_fault() -> None:
    model = body()
    model.get_layer("hidden").trainable = model.get_layer("norm").trainable = False

    assert told(model, "fact:parameters", "fact:frozen", *MODES) == [6.0, 4.0, 0.0, 0.0]


@pytest.mark.parametrize(("bias", "expected"), [(None, 1.0), (0.5, 0.0)], ids=["as initialised", "trained before"])
def test_frozen_layers_are_told_to_have_learnt_nothing_by_their_biases(bias: float | None, expected: float) -> None:
    model = body()
    hidden = model.get_layer("hidden")
    if bias is not None:
        hidden.set_weights([hidden.get_weights()[0], np.full(6, bias, np.float32)])
    hidden.trainable = False

    assert told(model, "fact:untrained") == [expected]


def test_of_what_is_frozen_without_a_matrix_of_weights_nothing_is_said() -> None:
    model = body()
    model.get_layer("norm").trainable = False

    assert told(model, "fact:frozen", "fact:untrained") == [2.0, 0.0]


class Evaluated(keras.Model):
    """A model that is evaluated in training mode: each call within an evaluation says so."""

    def __init__(self, *, forgets: bool) -> None:
        super().__init__()
        self.inner, self.forgets = body(), forgets

    def call(self, x: Any, training: bool = False) -> Any:
        return self.inner(x, training=training or self.forgets)


@pytest.mark.parametrize(("forgets", "expected"), [(True, [1.0]), (False, [0.0])])
def test_an_evaluation_is_told_by_how_it_calls_the_layers_that_mind(forgets: bool, expected: list[float]) -> None:
    model = Evaluated(forgets=forgets)
    model.compile(keras.optimizers.SGD(0.01), "mse", run_eagerly=EAGER)
    x, y = np.random.default_rng(0).normal(size=(2, 8, 4)).astype(np.float32)
    place = f"memory://keras-modes/{next(_RUNS)}"
    with barograph.attach(to=place, watch=False, strict=True, budget=None):
        model.evaluate(x, y[:, :1], batch_size=8, verbose=0)
    run = barograph.open(place)
    assert run.series("fact:layers_in_train", mode="eval").values.tolist() == expected


class Stepping(keras.Model):
    """A student with a `train_step` of its own, and a teacher beside it."""

    def __init__(self, *, student: bool | None, teacher: bool | None = None) -> None:
        super().__init__()
        self.student, self.teacher = body(), body()
        self._how = student, teacher
        self.served = teacher is not None

    def call(self, x: Any, training: bool = False) -> Any:
        return self.student(x, training=training)

    def train_step(self, data: Any) -> Any:
        import tensorflow

        x, y = data
        of_student, of_teacher = self._how
        aims = self.teacher(x, training=of_teacher) if self.served else y
        with tensorflow.GradientTape() as tape:
            loss = self.compute_loss(y=aims, y_pred=self.student(x) if of_student is None else
                                     self.student(x, training=of_student))
        weights = self.student.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return {"loss": loss}


@ON_TENSORFLOW
@pytest.mark.parametrize("eager", [True, False], ids=["eager", "graph"])
@pytest.mark.parametrize(("how", "expected"), [
    ({"student": None}, [1.0, 1.0]),
    ({"student": False}, [1.0, 1.0]),
    ({"student": True}, [0.0, 0.0]),
    ({"student": True, "teacher": False}, [0.0, 0.0]),
])
def test_a_step_of_the_scripts_own_is_told_by_how_it_calls_what_it_trains(
    how: dict[str, Any], expected: list[float], eager: bool
) -> None:
    assert told(Stepping(**how), *MODES, eager=eager) == expected


@ON_TENSORFLOW
@pytest.mark.parametrize(("training", "expected"), [(True, [0.0, 0.0]), (None, [1.0, 1.0])])
def test_so_is_a_loop_of_the_scripts_own(training: bool | None, expected: list[float]) -> None:
    import tensorflow

    import barograph.tensorflow

    model, optimizer = body(), keras.optimizers.SGD(0.01)

    @tensorflow.function
    def step(x: Any) -> Any:
        with tensorflow.GradientTape() as tape:
            loss = tensorflow.reduce_mean(model(x, training=training) ** 2)
        weights = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
        return loss

    place = f"memory://keras-modes/{next(_RUNS)}"
    with barograph.attach(to=place, watch=False, strict=True, budget=None):
        observed = barograph.tensorflow.step(step)
        for _ in range(2):
            observed(tensorflow.ones((8, 4)))
    run = barograph.open(place)
    assert [float(run.series(name).values[-1]) for name in MODES] == expected


@pytest.mark.parametrize("eager", [True, False] if BACKEND == "tensorflow" else [EAGER])
def test_what_keras_adds_to_a_loss_is_recorded_apart(eager: bool) -> None:
    keras.utils.set_random_seed(0)
    model = keras.Sequential([layers.Input((4,)), layers.Dense(3, kernel_regularizer=keras.regularizers.L2(0.5)),
                              layers.Dense(1, activity_regularizer=keras.regularizers.L2(0.0))])
    first = float(np.sum(np.square(np.array(model.get_weights()[0]))))

    (penalty,) = told(model, "loss:regularization", eager=eager, steps=1)

    assert penalty == pytest.approx(0.5 * first, rel=1e-5)


def test_where_nothing_is_added_no_penalty_is_recorded() -> None:
    assert told(body(), "loss:regularization") == [None]


@pytest.mark.skipif(BACKEND == "jax", reason="there the loss comes later")
@pytest.mark.parametrize(("reach", "expected"), [(1e4, [9]), (1.0, [])], ids=["out of range", "as all"])
def test_the_batch_of_a_step_whose_loss_leaps_is_recorded_whatever_is_due(reach: float, expected: list[int]) -> None:
    keras.utils.set_random_seed(0)
    model = keras.Sequential([layers.Input((4,)), layers.Dense(1)])
    model.compile(keras.optimizers.SGD(1e-9), "mse")
    x = np.random.default_rng(0).normal(size=(12 * 8, 4)).astype(np.float32)
    x[9 * 8 + 2, 1] *= reach
    place = f"memory://keras-modes/{next(_RUNS)}"
    first = barograph.Selection(kinds=frozenset({barograph.Kind.BATCH}),
                                schedule=barograph.Schedule(every=0, steps=frozenset({0})))
    with barograph.attach(to=place, watch=False, strict=True, budget=None, preset="free",
                          collections=[first]):
        model.fit(x, x[:, :1], batch_size=8, shuffle=False, verbose=0)
    run = barograph.open(place)
    assert run.series("batch:model", "max_abs").steps.tolist() == [0, *expected]
