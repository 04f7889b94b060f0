"""Training loops of TensorFlow that a script writes itself, with a tape."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import barograph
from barograph.capture.guard import BarographWarning
from barograph.errors import TrainingStopped
from barograph.model.key import Kind
from barograph.runs.state.capsules import capsule_names, read_capsule
from barograph.store.urls import store_from_url
from barograph.testing.frameworks import FrameworkConformance, Task

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    tensorflow = pytest.importorskip("tensorflow", reason="tensorflow is not installed")
    keras = pytest.importorskip("keras", reason="keras is not installed")

if keras.backend.backend() != "tensorflow":
    pytest.skip("this process has another backend of Keras", allow_module_level=True)

GRAPH_OR_NOT = pytest.mark.parametrize("graph", [True, False], ids=["tf.function", "eager"])


def trained(
    *, graph: bool, decorated: bool, nan_at: int | None = None, steps: int = 6
) -> tuple[list[float], list[Any]]:
    """Return the losses and the weights of a training whose step branches on a tensor."""
    import barograph.tensorflow

    keras.utils.set_random_seed(0)
    model = keras.Sequential([
        # On some processors TensorFlow makes 0 of NaN where it computes a relu together with the product before it.
        keras.layers.Input((4,)), keras.layers.Dense(8, activation="tanh", name="hidden"),
        keras.layers.BatchNormalization(name="norm"), keras.layers.Dense(1, name="out"),
    ])
    optimizer = keras.optimizers.Adam(0.01)

    def train_step(x: Any, y: Any) -> Any:
        with tensorflow.GradientTape() as tape:
            loss = tensorflow.reduce_mean((model(x, training=True) - y) ** 2)
            if loss > 1e6:  # a branch that only a graph made by autograph can take
                loss = loss * 0.5
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    function = tensorflow.function(train_step) if graph else train_step
    if decorated:
        function = barograph.tensorflow.step(function)
    rng, losses = np.random.default_rng(0), []
    for number in range(steps):
        x, y = rng.normal(size=(2, 8, 4)).astype(np.float32)
        if number == nan_at:
            x[3, 1] = np.nan
        losses.append(float(function(tensorflow.constant(x), tensorflow.constant(y[:, :1]))))
    return losses, [np.array(weight.numpy()) for weight in model.weights]


class TestTapeLoop(FrameworkConformance):
    """The suite of every integration, for a loop with a tape in a `tf.function`."""

    framework = "tensorflow"
    many_steps = 60

    def train(self, task: Task, run: Any) -> Mapping[str, Any]:
        import barograph.tensorflow

        keras.utils.set_random_seed(task.seed)
        model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(6, activation="tanh", name="hidden"),
                                  keras.layers.Dense(2, name="out")])
        optimizer = keras.optimizers.SGD(0.1)

        @tensorflow.function
        def train_step(xs: Any, ys: Any) -> Any:
            total, loss = [tensorflow.zeros_like(weight) for weight in model.trainable_variables], 0.0
            for number in range(task.accumulate):
                with tensorflow.GradientTape() as tape:
                    part = tensorflow.reduce_mean((model(xs[number], training=True) - ys[number]) ** 2)
                gradients = tape.gradient(part, model.trainable_variables)
                total = [a + b / task.accumulate for a, b in zip(total, gradients, strict=True)]
                loss += part / task.accumulate
            optimizer.apply_gradients(zip(total, model.trainable_variables, strict=True))
            return loss

        @tensorflow.function
        def evaluate(x: Any) -> Any:
            return tensorflow.reduce_mean((model(x, training=False) - x[:, :2]) ** 2)

        step = barograph.tensorflow.step(train_step) if run is not None else train_step
        evaluates = barograph.tensorflow.evaluation(evaluate) if run is not None else evaluate
        rng = np.random.default_rng(task.seed)
        for number in range(task.steps):
            x = rng.normal(size=(task.accumulate, 5, 4)).astype(np.float32)
            if number == task.nan_at:
                x[0, 0, 0] = np.nan
            step(tensorflow.constant(x), tensorflow.constant(x[..., :2]))
            if task.evaluate_every and (number + 1) % task.evaluate_every == 0:
                evaluates(tensorflow.constant(x[0]))
        return {path: weight.numpy() for path, weight in zip(
            ("hidden.kernel", "hidden.bias", "out.kernel", "out.bias"), model.weights, strict=True)}


@GRAPH_OR_NOT
def test_a_loop_is_recorded_and_comes_to_the_same_bits(graph: bool) -> None:
    losses, bare = trained(graph=graph, decorated=False)
    place = f"memory://loop-{graph}"
    with barograph.attach(to=place, watch=False, strict=True, budget=None, preset="everything"):
        _, watched = trained(graph=graph, decorated=True)
    assert [weight.tobytes() for weight in bare] == [weight.tobytes() for weight in watched]
    run = barograph.open(place)
    assert run.series("loss:total").values.tolist() == losses
    assert run.series("gradient:hidden.kernel", "l2").steps.tolist() == list(range(6))
    assert {"output:hidden", "input:out", "weight:norm.gamma", "update:out.bias", "learning_rate:group0",
            "optimizer_state:out.kernel[exp_avg]"} <= set(map(str, run.keys()))


@GRAPH_OR_NOT
def test_a_step_that_is_held_is_saved_with_what_it_was_called_with(graph: bool, tmp_path: Any) -> None:
    with (pytest.raises(TrainingStopped, match="The update of step 3 was withheld"),
          barograph.attach(to=tmp_path / "held", watch=False, strict=True, recorder=True)):
        trained(graph=graph, decorated=True, nan_at=3)
    store = store_from_url(str(tmp_path / "held"))
    (name,) = capsule_names(store)
    held = read_capsule(store, name)
    _, before = trained(graph=graph, decorated=False, steps=3)
    assert np.isnan(held.tensors["batch/batch[0]"]).sum() == 1
    np.testing.assert_allclose(held.tensors["weights/hidden.kernel"], before[0], rtol=1e-5)
    np.testing.assert_allclose(held.tensors["untrained/norm.moving_mean"], before[4], rtol=1e-5)


@GRAPH_OR_NOT
def test_a_loop_that_skips_goes_on_with_finite_weights(graph: bool) -> None:
    with (pytest.warns(BarographWarning, match="The update of step 2 was withheld"),
          barograph.attach(to=f"memory://loop-skip-{graph}", watch=False, recorder={"then": "skip"})):
        losses, weights = trained(graph=graph, decorated=True, nan_at=2)
    assert np.isnan(losses).tolist() == [False, False, True, False, False, False]
    assert all(np.isfinite(weight).all() for weight in weights)


def test_gradients_of_a_tape_without_an_optimizer_of_keras_are_recorded() -> None:
    import barograph.tensorflow

    weight = tensorflow.Variable([1.0, 2.0], name="w")

    @barograph.tensorflow.step
    @tensorflow.function
    def step() -> Any:
        with tensorflow.GradientTape() as tape:
            loss = tensorflow.reduce_sum(weight**2)
        weight.assign_sub(0.1 * tape.gradient(loss, weight))
        return loss

    with barograph.attach(to="memory://loop-bare", watch=False, strict=True, budget=None):
        for _ in range(3):
            step()
    run = barograph.open("memory://loop-bare")
    assert run.series("loss:total").values == pytest.approx([5.0, 3.2, 2.048])
    assert run.series("gradient:w", "max").values == pytest.approx([4.0, 3.2, 2.56])
    assert run.series("weight:w", "max").values == pytest.approx([1.6, 1.28, 1.024])


def test_a_decorated_step_runs_as_it_is_while_nothing_is_recorded() -> None:
    assert trained(graph=True, decorated=True, steps=2)[0] == trained(graph=True, decorated=False, steps=2)[0]


def test_calls_of_an_evaluation_between_two_steps_are_one_and_its_numbers_are_means() -> None:
    import barograph.tensorflow

    weight = tensorflow.Variable(2.0, name="w")
    answers = iter([{"val_loss": 4.0, "acc": 0.5, "name": "x"}, {"val_loss": 2.0, "acc": 0.75},
                    tensorflow.constant([1.5]), (3.0, 7.0)])

    @barograph.tensorflow.step
    def step() -> Any:
        with tensorflow.GradientTape() as tape:
            loss = weight**2
        weight.assign_sub(0.1 * tape.gradient(loss, weight))
        return loss

    @barograph.tensorflow.evaluation
    def evaluate() -> Any:
        return next(answers)

    with barograph.attach(to="memory://loop-evaluated", watch=False, strict=True, budget=None):
        evaluate()
        step()
        evaluate()
        evaluate()
        step()
        assert evaluate() == (3.0, 7.0)
    run = barograph.open("memory://loop-evaluated")
    losses = run.series("loss:total", mode="eval")
    assert (losses.steps.tolist(), losses.values.tolist()) == ([0, 1, 2], [4.0, 1.75, 3.0])
    assert run.series("scalar:acc", mode="eval").values.tolist() == [0.5, 0.75]
    assert run.series("loss:total").steps.tolist() == [0, 1]
    assert list(map(str, run.keys(kind="scalar"))) == ["scalar:acc"]


@GRAPH_OR_NOT
def test_labels_and_answers_of_an_evaluation_are_those_of_its_losses(graph: bool) -> None:
    import barograph.tensorflow

    loss_function = keras.losses.SparseCategoricalCrossentropy()
    right = tensorflow.constant([[0.8, 0.1, 0.1], [0.1, 0.8, 0.1], [0.1, 0.8, 0.1]])

    def evaluate(labels: Any, answers: Any) -> Any:
        return {"loss": loss_function(labels, answers)}

    made = barograph.tensorflow.evaluation(tensorflow.function(evaluate) if graph else evaluate)
    place = f"memory://loop-evaluated-labels-{graph}"
    with barograph.attach(to=place, watch=False, strict=True, budget=None, preset="everything"):
        for _ in range(2):
            made(tensorflow.constant([0, 1, 2]), right)
    run = barograph.open(place)
    name = "sparse_categorical_crossentropy"
    counted = {str(key): run.series(key, mode="eval").values.tolist() for key in run.keys(kind="confusion")}
    assert counted == {f"confusion:{name}[{pair}]": [2.0] for pair in ("0,0", "1,1", "2,1")}
    assert [run.series(f"label:{name}[{label}]", mode="eval").values.tolist() for label in range(3)] == [[2.0]] * 3
    assert run.series("loss:total", mode="eval").steps.tolist() == [0]


def test_an_evaluation_that_cannot_be_looked_into_is_called_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    import barograph.tensorflow
    from barograph.capture.keras import loop_functions

    def breaks(*_: Any) -> None:
        raise RuntimeError("planted")

    monkeypatch.setattr(loop_functions, "_converted", breaks)
    made = barograph.tensorflow.evaluation(tensorflow.function(lambda x: {"loss": x * 2}))
    place = "memory://loop-evaluated-broken"
    with (pytest.warns(BarographWarning, match="planted"),
          barograph.attach(to=place, watch=False, budget=None, preset="everything")):
        assert [float(made(tensorflow.constant(number))["loss"]) for number in (1.0, 3.0)] == [2.0, 6.0]
    assert barograph.open(place).series("loss:total", mode="eval").values.tolist() == [4.0]


def test_an_error_of_the_script_in_an_evaluation_is_its_own() -> None:
    import barograph.tensorflow

    def evaluate(x: Any) -> Any:
        raise KeyError("mine")

    with barograph.attach(to="memory://loop-evaluated-raises", watch=False, budget=None, preset="everything"):
        made = barograph.tensorflow.evaluation(evaluate)
        with pytest.raises(KeyError, match="mine") as raised:
            made(tensorflow.constant(1.0))
    assert raised.value.__context__ is None


def test_an_evaluation_without_a_recording_is_called_as_it_is() -> None:
    import barograph.tensorflow

    assert barograph.tensorflow.evaluation(lambda x, *, y: x + y)(1, y=2) == 3


@GRAPH_OR_NOT
def test_labels_answers_and_targets_are_those_that_losses_of_keras_were_called_with(graph: bool) -> None:
    import barograph.tensorflow

    keras.utils.set_random_seed(0)
    inputs = keras.layers.Input((4,))
    outputs = [keras.layers.Dense(3, name="kind")(inputs), keras.layers.Dense(1, name="size")(inputs)]
    model = keras.Model(inputs, outputs)
    optimizer = keras.optimizers.SGD(0.1)
    of_kind, of_size = keras.losses.SparseCategoricalCrossentropy(from_logits=True), keras.losses.MeanSquaredError()

    def train_step(x: Any, kinds: Any, sizes: Any) -> Any:
        with tensorflow.GradientTape() as tape:
            kind, size = model(x, training=True)
            answers.append(kind)
            loss = of_kind(kinds, kind) + of_size(y_true=sizes, y_pred=size)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return kind

    answers: list[Any] = []
    step = barograph.tensorflow.step(tensorflow.function(train_step) if graph else train_step)
    rng, place, said = np.random.default_rng(0), f"memory://tensorflow/labels-{graph}", []
    with barograph.attach(to=place, watch=False, strict=True, budget=None, preset="everything"):
        for kinds in ([0, 0, 1, 2], [2, 2, 2, 1]):
            x, sizes = rng.normal(size=(4, 4)).astype("float32"), rng.normal(size=(4, 1)).astype("float32")
            said.append(step(x, np.array(kinds), sizes).numpy().argmax(1))
    run = barograph.open(place)
    name = "sparse_categorical_crossentropy"
    for number, kinds in enumerate(([0, 0, 1, 2], [2, 2, 2, 1])):
        view = run.at(number)
        labels = {key.path: value for key, value in view.scalars(Kind.LABEL).items()}
        assert labels == {f"{name}[{kind}]": float(kinds.count(kind)) for kind in sorted(set(kinds))}
        right = sum(value for key, value in view.scalars(Kind.CONFUSION).items()
                    if key.path in [f"{name}[{kind},{kind}]" for kind in range(3)])
        assert right == (said[number] == kinds).sum()
    assert run.summary("target:mean_squared_error", 1).count == 4
    if graph:
        assert len(answers) < 12  # compiled as often as it was before, not once a step


@GRAPH_OR_NOT
def test_a_loss_that_the_script_has_named_is_known_for_what_it_is(graph: bool) -> None:
    import barograph.tensorflow

    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3, activation="softmax")])
    optimizer, named = keras.optimizers.SGD(0.1), keras.losses.CategoricalCrossentropy(name="mine")

    def train_step(x: Any, y: Any) -> Any:
        with tensorflow.GradientTape() as tape:
            loss = named(y, model(x, training=True))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables,
                                      strict=True))
        return loss

    step = barograph.tensorflow.step(tensorflow.function(train_step) if graph else train_step)
    place, x = f"memory://tensorflow/named-{graph}", np.random.default_rng(0).normal(size=(6, 4)).astype("float32")
    with barograph.attach(to=place, watch=False, strict=True, budget=None):
        told = [float(step(x, np.eye(3, dtype="float32")[[0, 0, 1, 2, 2, 2]])) for _ in range(3)]
    run = barograph.open(place)
    assert run.series("loss:categorical_crossentropy").values.tolist() == pytest.approx(told)
    assert run.series("label:categorical_crossentropy[2]").values.tolist() == [3, 3, 3]
    assert not run.keys(kind="target")


def test_a_loss_with_something_added_to_it_is_not_the_loss_of_the_step() -> None:
    import barograph.tensorflow

    model, optimizer = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)]), keras.optimizers.SGD(0.1)
    squares = keras.losses.MeanSquaredError()

    @barograph.tensorflow.step
    def train_step(x: Any) -> None:
        with tensorflow.GradientTape() as tape:
            loss = squares(x[:, :1], model(x, training=True)) + 1.0
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables,
                                      strict=True))

    with barograph.attach(to="memory://tensorflow/added", watch=False, strict=True, budget=None):
        train_step(np.ones((4, 4), "float32"))
    run = barograph.open("memory://tensorflow/added")
    assert [key.path for key in run.keys(kind="loss")] == ["total"]


def test_a_loss_that_is_called_where_nothing_can_leave_is_named() -> None:
    import barograph.tensorflow

    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3)])
    optimizer, loss_of = keras.optimizers.SGD(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @barograph.tensorflow.step
    @tensorflow.function
    def train_step(x: Any, kinds: Any) -> Any:
        with tensorflow.GradientTape() as tape:
            loss = tensorflow.constant(0.0)
            for _ in tensorflow.range(2):
                loss += loss_of(kinds, model(x, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    place = "memory://tensorflow/within"
    with barograph.attach(to=place, watch=False, strict=True, budget=None):
        train_step(np.ones((4, 4), "float32"), np.array([0, 1, 2, 0]))
    run = barograph.open(place)
    assert run.series("loss:total").steps.tolist() == [0]
    assert run.keys("label") == []
    (state,) = run.workers
    assert state.last is not None
    assert any("sparse_categorical_crossentropy is called inside" in reason for reason in state.last.coverage.reasons)
