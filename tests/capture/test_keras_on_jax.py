"""Steps of Keras that JAX compiles: what is marked in them is told by their own programs."""

from __future__ import annotations

import itertools
import os
import warnings
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import barograph
from barograph.capture.guard import BarographWarning
from barograph.capture.recording import current
from barograph.model.key import Kind
from barograph.model.selection import Histogram, Selection
from barograph.model.step import Mode
from barograph.runs.reading.reader import RunReader

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
pytest.importorskip(os.environ["KERAS_BACKEND"], reason="the backend of Keras is not installed")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    keras = pytest.importorskip("keras", reason="keras is not installed")
    jax = pytest.importorskip("jax", reason="JAX is not installed")

if keras.backend.backend() != "jax":
    pytest.skip("the backend of Keras is not JAX", allow_module_level=True)

from keras import layers

from barograph.capture.jax import foreign
from barograph.capture.keras.on_jax import statistics
from barograph.capture.keras.on_jax.backend import JaxBackend

X, Y = np.random.default_rng(0).normal(size=(2, 16, 6)).astype(np.float32)
TOLD = frozenset({Kind.OUTPUT, Kind.INPUT, Kind.GRADIENT, Kind.WEIGHT, Kind.UPDATE, Kind.OPTIMIZER_STATE})
EVERYTHING = Selection("mine", kinds=TOLD, histogram=Histogram.EXACT, units=True)

_NUMBERS = itertools.count()

Pair = namedtuple("Pair", "first second")


class Model(keras.Model):  # type: ignore[misc]
    """Calls one layer twice, and lets another be for nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.twice = layers.Dense(6, activation="relu", name="twice")
        self.norm = layers.BatchNormalization(name="norm")
        self.unused = layers.Dense(3, name="unused")
        self.out = layers.Dense(6, name="out")

    def call(self, x: Any, training: bool = False) -> Any:
        h = self.twice(self.twice(x))
        self.unused(h)
        return self.out(self.norm(h, training=training))


class OwnStep(Model):
    """Asks for its gradients itself."""

    def train_step(self, state: Any, data: Any) -> Any:
        trainable, untrained, of_optimizer, of_metrics = state
        x, y = data

        def loss_of(trainable: Any) -> Any:
            found, changed = self.stateless_call(trainable, untrained, x, training=True)
            return keras.ops.mean(keras.ops.square(found - y)), changed

        (loss, untrained), gradients = jax.value_and_grad(loss_of, has_aux=True)(trainable)
        trainable, of_optimizer = self.optimizer.stateless_apply(of_optimizer, gradients, trainable)
        return {"loss": loss}, (trainable, untrained, of_optimizer, of_metrics)


def compiled(model: Callable[[], Any] = Model, optimizer: Any = None, **options: Any) -> Any:
    keras.utils.set_random_seed(0)
    made = model()
    made.compile(optimizer or keras.optimizers.Adam(0.1), "mse", **options)
    return made


def bits(model: Any) -> list[bytes]:
    return [np.asarray(weight.value).tobytes() for weight in model.weights]


def fitted(model: Any, x: Any = X, y: Any = Y, **options: Any) -> list[bytes]:
    model.fit(x, y, batch_size=4, shuffle=False, verbose=0, **options)
    return bits(model)


def recorded(place: str, model: Any, *collections: Selection, x: Any = X, y: Any = Y, **options: Any) -> RunReader:
    with barograph.attach(to=place, watch=False, strict=True, budget=None, preset="free",
                          collections=collections or (EVERYTHING,)):
        fitted(model, x, y, **options)
    return barograph.open(place)


def keys(run: RunReader, kind: Kind) -> set[str]:
    return {key.path for key in run.keys() if key.kind is kind}  # noqa: SIM118 - a run is no dictionary


def reasons(run: RunReader) -> str:
    last = run.workers[0].last
    assert last is not None
    return "; ".join(last.coverage.reasons)


def told(run: RunReader) -> dict[Any, list[float]]:
    """Return the statistics of each tensor, step by step: of the whole, of its histogram, and of its units."""
    found: dict[Any, list[float]] = {}
    for view in run.views():
        for kind in TOLD:
            for subject, summary in view.summaries(kind):
                units = view.units(subject.key)
                found[view.step.number, view.step.mode, str(subject.key), subject.layer, subject.dtype] = [
                    summary.count, summary.nan, summary.zeros, summary.min, summary.max, summary.mean, summary.rms,
                    *itertools.chain(*sorted(summary.exponents.items())),
                    *(units.columns.ravel() if units is not None else ())]
    return found


def kept_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have steps give out tensors, which the host reads."""
    monkeypatch.setattr(JaxBackend, "tells", lambda self, model: False)
    monkeypatch.setattr(JaxBackend, "asked", lambda self, plan, mode: None)


@pytest.mark.parametrize("where", ["on the host", "on a device", "without the native loop"])
def test_what_a_program_tells_is_what_is_read_of_its_tensors(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = f"memory://told-{where.replace(' ', '-')}"
    if where == "on a device":
        monkeypatch.setattr(foreign, "is_on_host", lambda: False)
    elif where == "without the native loop":
        monkeypatch.setattr(foreign, "is_there", lambda: False)
    now = told(recorded(place, compiled(), validation_data=(X[:8], Y[:8])))
    kept_whole(monkeypatch)
    then = told(recorded(f"{place}-kept", compiled(), validation_data=(X[:8], Y[:8])))
    assert {(number, mode) for number, mode, *_ in now} == {*((step, Mode.TRAIN) for step in range(4)), (4, Mode.EVAL)}
    assert {name for _, _, name, *_ in now} >= {
        "output:twice", "input:twice", "output:unused", "gradient:twice.kernel", "weight:out.bias", "update:norm.gamma",
        "optimizer_state:out.kernel[exp_avg]"}
    assert now.keys() == then.keys()
    for which, figures in now.items():
        np.testing.assert_allclose(figures, then[which], rtol=2e-5, atol=1e-6, err_msg=str(which))


def test_tensors_themselves_are_told_where_they_are_asked_for() -> None:
    run = recorded("memory://raw", compiled(), Selection("mine", kinds=TOLD, raw=True))
    before, after = (run.tensor("weight:out.kernel", step) for step in (0, 1))
    np.testing.assert_array_equal(run.tensor("update:out.kernel", 1), after - before)
    assert run.tensor("output:twice", 0).shape == (4, 6)


def attending() -> Any:
    """A block of a transformer: what its GELU multiplies is added to what it was given."""
    x = layers.Input((6,))
    given = layers.LayerNormalization()(layers.Reshape((3, 2))(x))
    h = layers.Add()([given, layers.MultiHeadAttention(2, 4)(given, given)])
    h = layers.Add()([h, layers.Dense(2, activation="gelu")(h)])
    return keras.Model(x, layers.Dense(6, name="out")(layers.GlobalAveragePooling1D()(h)))


def pooled() -> Any:
    """What a normalisation returns is averaged, and used for nothing else."""
    x = layers.Input((6,))
    h = layers.Reshape((16, 64))(layers.Dense(16 * 64, activation="silu")(x))
    h = layers.LayerNormalization()(layers.Add()([h, layers.Dense(64, activation="silu")(h)]))
    return keras.Model(x, layers.Dense(6, name="out")(layers.GlobalAveragePooling1D()(h)))


def grouped() -> Any:
    """The gradients of the scales of groups of channels have two axes before they have one."""
    x = layers.Input((6,))
    h = layers.Reshape((13, 16))(layers.Dense(13 * 16)(x))
    h = layers.LayerNormalization()(layers.Subtract()([layers.GroupNormalization(2)(h), h]))
    h = layers.Add()([h, layers.Dense(16, activation="relu")(h)])
    return keras.Model(x, layers.Dense(6, name="out")(layers.GlobalAveragePooling1D()(h)))


@pytest.mark.parametrize("model", [Model, OwnStep, attending, pooled, grouped])
@pytest.mark.parametrize("optimizer", [
    lambda: keras.optimizers.Adam(0.05), lambda: keras.optimizers.SGD(0.05, momentum=0.9, clipnorm=1.0),
    lambda: keras.optimizers.SGD(0.05, global_clipnorm=0.1),
], ids=["Adam", "SGD, clipped", "SGD, clipped together"])
def test_weights_come_to_the_same_bits_with_and_without_us(model: Any, optimizer: Callable[[], Any]) -> None:
    if model is pooled and not foreign.is_on_host():
        pytest.skip("where a compiler puts its tensors is known of that for a CPU alone")
    bare = fitted(compiled(model, optimizer()))
    watched = compiled(model, optimizer())
    recorded(f"memory://bits-{next(_NUMBERS)}", watched)
    assert bits(watched) == bare


@pytest.mark.parametrize("optimizer", [
    lambda: keras.optimizers.Lion(0.01), lambda: keras.optimizers.RMSprop(0.01, centered=True),
    lambda: keras.optimizers.Adam(0.01), lambda: keras.optimizers.SGD(0.05, momentum=0.9),
], ids=["Lion", "RMSprop", "Adam", "SGD"])
def test_what_an_optimizer_keeps_of_a_convolution_comes_to_the_same_bits(optimizer: Callable[[], Any]) -> None:
    def model() -> Any:
        x = layers.Input((6,))
        h = layers.Conv1D(8, 3, padding="same", activation="silu")(layers.Reshape((9, 8))(layers.Dense(72)(x)))
        return keras.Model(x, layers.Dense(6)(layers.GlobalAveragePooling1D()(h)))

    def kept(model: Any) -> list[bytes]:
        return [*bits(model), *(np.asarray(variable.value).tobytes() for variable in model.optimizer.variables)]

    bare, watched = compiled(model, optimizer()), compiled(model, optimizer())
    fitted(bare)
    recorded(f"memory://bits-{next(_NUMBERS)}", watched)
    assert kept(watched) == kept(bare)


def test_a_step_that_asks_for_gradients_itself_tells_its_layers() -> None:
    run = recorded("memory://own", compiled(OwnStep))
    assert keys(run, Kind.OUTPUT) == keys(run, Kind.INPUT) == {"twice", "norm", "unused", "out"}
    assert run.summary("output:twice", 0).count == 2 * 4 * 6
    assert run.series("gradient:out.kernel", "rms").values.min() > 0


def test_of_a_loop_what_it_returns_is_told_and_what_it_calls_is_said_to_be_missing() -> None:
    def model() -> Any:  # with an activation that no library of a GPU's computes without a loop
        return keras.Sequential([
            layers.Input((5, 6)), layers.LSTM(3, activation="relu", name="lstm"), layers.Dense(6, name="out")])

    run = recorded("memory://loop", compiled(model), x=np.random.default_rng(1).normal(size=(16, 5, 6)))
    assert run.summary("output:lstm", 0).count == 4 * 3
    assert keys(run, Kind.OUTPUT) == {"lstm", "out"}
    assert "lstm.lstm_cell is called inside a loop" in reasons(run)


@pytest.mark.parametrize("reader", ["a loop", "attention"])
def test_what_a_layer_says_of_its_samples_is_heard_by_the_next(reader: str) -> None:
    if reader == "attention" and tuple(map(int, keras.version().split(".")[:2])) < (3, 12):
        pytest.skip("before 3.12 Keras hands attention masks of another shape than it takes")

    def model() -> Any:
        x = layers.Input((5,), dtype="int32")
        h = layers.Embedding(7, 4, mask_zero=True, name="words")(x)
        # Attention takes away from a tensor what that says of its samples.
        read = layers.LSTM(3)(h) if reader == "a loop" else layers.GlobalAveragePooling1D()(
            layers.Add()([h, layers.Attention()([h, h])]))
        return keras.Model(x, layers.Dense(6, name="out")(read))

    x = np.random.default_rng(1).integers(0, 3, (16, 5))
    bare = fitted(compiled(model), x=x)
    watched = compiled(model)
    run = recorded(f"memory://mask-{reader}", watched, x=x)
    assert bits(watched) == bare
    assert keys(run, Kind.OUTPUT) >= {"words", "out"}


def test_an_update_within_the_micro_batches_of_a_step_is_not_told() -> None:
    model = compiled(optimizer=keras.optimizers.SGD(0.1, gradient_accumulation_steps=2), steps_per_execution=3)
    run = recorded("memory://among", model, x=np.tile(X, (3, 1)), y=np.tile(Y, (3, 1)))
    updates, weights = run.series("update:out.kernel", "rms"), run.series("weight:out.kernel", "count")
    assert len(weights.steps) == 4
    assert 0 < len(updates.steps) < len(weights.steps)
    assert updates.values.min() > 0


def test_a_step_goes_on_with_its_own_tensors() -> None:
    seen = []

    class Several(layers.Layer):  # type: ignore[misc]
        def call(self, x: Any) -> Any:
            return {"late": x, "early": Pair(x * 2, [x * 3])}

    class Holds(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.several = Several(name="several")
            self.out = layers.Dense(6, name="out")

        def call(self, x: Any) -> Any:
            found = self.several(x)
            seen.append((found["late"] is x, list(found)))
            return self.out(found["early"].first + found["late"])

    run = recorded("memory://several", compiled(Holds))
    assert set(map(str, seen)) == {str((True, ["late", "early"]))}
    assert keys(run, Kind.OUTPUT) == {"several[late]", "several[early][0]", "several[early][1][0]", "out"}


def test_what_jax_has_traced_before_is_taken_as_it_is() -> None:
    class Again(keras.Model):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.inner = layers.Dense(6, name="inner")
            self.out = layers.Dense(6, name="out")

        def call(self, x: Any) -> Any:
            return self.out(keras.remat(self.inner)(x))

    bare, watched = fitted(compiled(Again)), compiled(Again)
    recorded("memory://again", watched)
    assert bits(watched) == bare


@pytest.mark.skipif(jax.__version_info__ >= (0, 11), reason="JAX looks before the step is traced to its end")
def test_nothing_is_held_when_the_step_was_traced() -> None:
    def model() -> Any:
        return keras.Sequential([layers.Input((6,)), layers.Dense(6, name="out")])

    with jax.checking_leaks():
        run = recorded("memory://leaks", compiled(model))
    assert run.series("update:out.kernel", "count").steps.tolist() == [0, 1, 2, 3]


def test_where_jax_compiles_nothing_updates_are_recorded_all_the_same() -> None:
    with jax.disable_jit():
        run = recorded("memory://disabled", compiled())
    assert run.series("update:out.kernel", "count").steps.tolist() == [0, 1, 2, 3]


def test_a_step_that_cannot_be_made_anew_is_made_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    model = compiled()
    rebuilt, fails = statistics.harvest, [False]

    def harvest(*args: Any) -> Any:
        if fails[0]:
            raise RuntimeError("planted")
        return rebuilt(*args)

    monkeypatch.setattr(statistics, "harvest", harvest)
    with barograph.attach(to="memory://anew", watch=False, budget=None, preset="free", collections=(EVERYTHING,)):
        fitted(model)
        fails[0] = True
        with pytest.warns(BarographWarning, match="step of Keras failed: RuntimeError: planted"):
            model.fit(X[:3], Y[:3], batch_size=3, verbose=0)  # of another size: it is traced once more
    run = barograph.open("memory://anew")
    assert run.series("gradient:out.kernel", "count").steps.tolist() == [0, 1, 2, 3, 4]
    assert run.summary("output:out", 4).count == 3 * 6


def test_what_is_asked_for_later_is_told_from_then_on() -> None:
    model = compiled()
    with barograph.attach(to="memory://later", watch=False, strict=True, budget=None, preset="free",
                          collections=(Selection("mine", kinds=TOLD),)):
        fitted(model)
        recording = current()
        assert recording is not None
        recording.ask_for([EVERYTHING])
        fitted(model)
    found = {step: figures for (step, _, name, *_), figures in told(barograph.open("memory://later")).items()
             if name == "output:twice"}
    assert len(found[7]) > len(found[3])


def test_of_several_micro_batches_the_gradient_is_that_of_the_step() -> None:
    model = compiled(optimizer=keras.optimizers.SGD(0.1, gradient_accumulation_steps=2))
    run = recorded("memory://gathered", model)
    assert run.series("gradient:out.kernel", "count").values.tolist() == [36, 36]
    assert run.series("weight:out.kernel", "count").values.tolist() == [36, 36]
    assert run.series("output:out", "count").values.tolist() == [48, 48]
    np.testing.assert_allclose(run.summary("update:out.kernel", 1).rms, 0.1 * run.summary("gradient:out.kernel", 1).rms,
                               rtol=1e-5)


def test_where_our_step_fails_weights_are_recorded_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("planted")

    monkeypatch.setattr(JaxBackend, "step", fail)
    with pytest.warns(BarographWarning, match="step of Keras failed: RuntimeError: planted"), barograph.attach(
            to="memory://ours", watch=False, budget=None, preset="free", collections=(EVERYTHING,)):
        fitted(compiled())
    run = barograph.open("memory://ours")
    assert run.series("weight:out.kernel", "count").steps.tolist() == [0, 1, 2, 3]
    assert run.series("update:out.kernel", "count").steps.tolist() == [1, 2, 3]
    assert not keys(run, Kind.OUTPUT)


def test_the_learning_rate_of_every_step_is_recorded() -> None:
    schedule = keras.optimizers.schedules.PolynomialDecay(0.4, 20, 0.0)
    with barograph.attach(to="memory://keras-on-jax/rates", watch=False, strict=True, budget=1e-9):
        fitted(compiled(optimizer=keras.optimizers.SGD(schedule)), epochs=3)
    series = barograph.open("memory://keras-on-jax/rates").series("learning_rate:group0")
    assert series.steps.tolist() == list(range(12))
    assert series.values == pytest.approx([0.4 * (1 - step / 20) for step in range(12)])


def test_eager_steps_are_read_as_they_were() -> None:
    run = recorded("memory://eager", compiled(run_eagerly=True))
    assert run.series("update:out.kernel", "count").steps.tolist() == [0, 1, 2, 3]
    assert keys(run, Kind.OUTPUT) == {"twice", "norm", "unused", "out"}
