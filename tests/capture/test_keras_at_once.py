"""With torch each tensor of a step of Keras is read when it is there, where that makes nobody wait."""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import barograph
from barograph.capture.array_integration import ArrayIntegration
from barograph.capture.guard import BarographWarning
from barograph.capture.session import Session
from barograph.capture.this_worker import Rank
from barograph.measures import native
from barograph.model.key import Kind
from barograph.model.manifest import Heartbeat
from barograph.model.selection import Histogram, Selection
from barograph.model.settings import Settings
from barograph.model.step import Mode
from barograph.runs.reading.reader import RunReader
from capture_writer import ListWriter

os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
pytest.importorskip(os.environ["KERAS_BACKEND"], reason="the backend of Keras is not installed")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    keras = pytest.importorskip("keras", reason="keras is not installed")
    torch = pytest.importorskip("torch", reason="torch is not installed")

from barograph.capture.keras import backends
from barograph.capture.keras.at_once import AtOnce

if keras.backend.backend() != "torch":
    pytest.skip("the backend of Keras is not torch", allow_module_level=True)

pytestmark = [
    # How Keras reads a tensor of torch as an array.
    pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning"),
]

X, Y = np.random.default_rng(0).normal(size=(2, 16, 6)).astype(np.float32)
TENSORS = Selection("mine", kinds=frozenset({Kind.OUTPUT, Kind.INPUT, Kind.GRADIENT}), histogram=Histogram.EXACT,
                    units=True, raw=True)


MOMENTS = Selection("mine", kinds=TENSORS.kinds)


class Model(keras.Model):  # type: ignore[misc]
    """Calls one layer twice and another with its axes changed; tells how many of its outputs still lived, and fails."""

    def __init__(self) -> None:
        super().__init__()
        self.twice = keras.layers.Dense(6, activation="relu", name="twice")
        self.turned = keras.layers.Dense(4, name="turned")
        self.out = keras.layers.Dense(6, name="out")
        self.living: list[bool] = []
        self.fails: list[str] = []

    def call(self, x: Any) -> Any:
        h = self.twice(x)
        before = weakref.ref(h)
        h = self.twice(h)
        self.living.append(before() is not None)
        h = self.turned(keras.ops.transpose(h[:4]))
        return self.out(keras.ops.tile(keras.ops.mean(h, 0, keepdims=True), (x.shape[0], 6 // 4 + 1))[:, :6])

    def train_step(self, data: Any) -> Any:
        logs = super().train_step(data)
        if self.fails:
            raise KeyError(self.fails.pop())
        return logs


def compiled(optimizer: Any = None) -> Any:
    keras.utils.set_random_seed(0)
    model = Model()
    model.compile(optimizer or keras.optimizers.SGD(0.1), "mse")
    return model


def recorded(place: str, model: Any, *collections: Selection, **settings: Any) -> RunReader:
    with barograph.attach(to=place, watch=False, **{
            "strict": True, "budget": None, "preset": "free", "collections": collections or (TENSORS,), **settings}):
        model.fit(X, Y, batch_size=4, shuffle=False, verbose=0, validation_data=(X[:8], Y[:8]))
    return barograph.open(place)


def told(run: RunReader) -> list[Any]:
    """Return all that is told of each tensor, step by step."""
    found = []
    for view in run.views():
        for kind in (Kind.GRADIENT, Kind.OUTPUT, Kind.INPUT):
            for subject, summary in view.summaries(kind):
                units = view.units(subject.key)
                found.append((
                    view.step.number, view.step.mode, str(subject.key), subject.layer, subject.dtype, repr(summary),
                    None if units is None else (units.count, repr(units.bound), units.columns.tobytes()),
                    run.tensor(subject.key, view.step.number, mode=view.step.mode).tobytes()))
    return sorted(found, key=str)


@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16"])
def test_what_is_read_at_once_is_what_is_read_when_the_step_has_ended(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    keras.config.set_dtype_policy(policy)
    try:
        now = recorded(f"memory://now-{policy}", compiled(keras.optimizers.SGD(0.1, gradient_accumulation_steps=2)))
        monkeypatch.setattr(backends.TorchBackend, "reads", lambda self, integration, names: None)
        then = recorded(f"memory://then-{policy}", compiled(keras.optimizers.SGD(0.1, gradient_accumulation_steps=2)))
    finally:
        keras.config.set_dtype_policy("float32")
    assert {(number, mode) for number, mode, *_ in told(now)} == {(0, Mode.TRAIN), (1, Mode.TRAIN), (2, Mode.EVAL)}
    assert told(now) == told(then)


def test_what_a_layer_returns_lives_no_longer_than_without_us() -> None:
    model = compiled()
    recorded("memory://living", model)
    with torch.no_grad():
        model(X)
    assert model.living[-3:] == [False, False, False]  # two batches of the evaluation, and the call without us


def test_what_lies_on_a_device_is_read_when_the_step_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = []
    monkeypatch.setattr(AtOnce, "read", lambda self, kind, path, tensor: kept.append(path) is not None)
    run = recorded("memory://device", compiled())
    assert set(kept) == {"twice", "turned", "out", *(f"{layer}.{name}" for layer in ("twice", "turned", "out")
                                                     for name in ("kernel", "bias"))}
    assert run.summary("output:twice", 0).count == 2 * 4 * 6


def test_of_a_step_that_fails_no_tensor_is_told() -> None:
    model = compiled()
    with barograph.attach(to="memory://failed", watch=False, strict=True, budget=None, preset="free",
                          collections=(TENSORS,)):
        model.train_on_batch(X[:4], Y[:4])
        model.fails = ["mine"]
        with pytest.raises(KeyError, match="mine"):
            model.train_on_batch(X[:4], Y[:4])
        model.train_on_batch(X[:4], Y[:4])
    run = barograph.open("memory://failed")
    assert run.series("output:out", "count").values.tolist() == [24.0, 24.0]


def test_where_our_step_fails_and_that_of_keras_does_not_no_tensor_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    step = backends.TorchBackend.step

    def fail(*args: Any, **kwargs: Any) -> Any:
        step(*args, **kwargs)
        raise RuntimeError("planted")

    monkeypatch.setattr(backends.TorchBackend, "step", fail)
    with pytest.warns(BarographWarning, match="step of Keras failed: RuntimeError: planted"):
        run = recorded("memory://ours", compiled(), TENSORS,
                       Selection("loss", kinds=frozenset({Kind.WEIGHT, Kind.SCALAR})), strict=False)
    kinds = {key.kind for key in run.keys()}  # noqa: SIM118 - a run is no dictionary
    assert Kind.WEIGHT in kinds
    assert not kinds & {Kind.OUTPUT, Kind.INPUT, Kind.GRADIENT}


class Reading:
    """Reads tensors at once, as a step does, and notes how many elements are read from memory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *collections: Selection) -> None:
        self.sizes: list[int] = []
        read = native.summarize_into
        monkeypatch.setattr(native, "summarize_into", lambda *args: (self.sizes.append(args[1]), read(*args))[1])
        self._writer = ListWriter()

        def open_writer(rank: Rank, status: Callable[[], Heartbeat]) -> Any:
            return self._writer

        settings = Settings(strict=True, budget=None, preset="free", collections=collections or (MOMENTS,))
        self._integration = ArrayIntegration(Session(settings, (), open_writer))
        names: Any = SimpleNamespace(leaves={"a": "Dense", "b": "ReLU"}, owners={"a.kernel": "Dense"})
        self.at_once = AtOnce(torch, self._integration.new_readings(), names)

    def sums(self) -> dict[str, float]:
        """End the step; return the sum of each tensor."""
        self._integration.take_readings(self.at_once.readings)
        self._integration.end_step(loss=1.0)
        (records,) = self._writer.steps
        assert records.moments is not None
        return {str(subject.key): float(records.moments[row][7]) for row, subject in enumerate(records.subjects)}


def test_an_output_that_is_the_input_of_the_next_layer_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, output = Reading(monkeypatch), torch.ones(2, 3)
    assert reading.at_once.read(Kind.OUTPUT, "a", output)
    assert reading.at_once.read(Kind.INPUT, "b", output.reshape(6))
    assert reading.sizes == [6]
    assert reading.sums() == {"output:a": 6.0, "input:b": 6.0}


def test_one_that_was_changed_in_place_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, output = Reading(monkeypatch), torch.ones(2, 3)
    reading.at_once.read(Kind.OUTPUT, "a", output)
    output.view(6).add_(1.0)
    reading.at_once.read(Kind.INPUT, "b", output)
    assert reading.sums() == {"output:a": 6.0, "input:b": 12.0}


def test_memory_in_which_another_tensor_lies_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, memory = Reading(monkeypatch), np.ones(6, np.float32)
    reading.at_once.read(Kind.OUTPUT, "a", torch.from_numpy(memory))
    memory += 1.0
    reading.at_once.read(Kind.INPUT, "b", torch.from_numpy(memory))
    assert reading.sums() == {"output:a": 6.0, "input:b": 12.0}


def test_tensors_of_inference_mode_are_read_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(monkeypatch)
    with torch.inference_mode():
        output = torch.ones(2, 3)
        reading.at_once.read(Kind.OUTPUT, "a", output)
        output += 1.0
        reading.at_once.read(Kind.INPUT, "b", output)
    assert reading.sums() == {"output:a": 6.0, "input:b": 12.0}


def test_an_array_of_each_histogram_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, output = Reading(
        monkeypatch, Selection("moments", kinds=frozenset({Kind.OUTPUT})),
        Selection("exact", kinds=frozenset({Kind.INPUT}), histogram=Histogram.EXACT)), torch.ones(2, 3)
    reading.at_once.read(Kind.OUTPUT, "a", output)
    reading.at_once.read(Kind.INPUT, "b", output)
    assert reading.sizes == [6, 6]


@pytest.mark.parametrize("tensor", [
    torch.arange(6.0).reshape(2, 3).t(), torch.arange(12.0)[::2] / 2, torch.arange(6.0, dtype=torch.bfloat16),
    torch.arange(6, dtype=torch.int16), torch.nn.Parameter(torch.arange(6.0)),
], ids=["transposed", "with gaps", "bfloat16", "int16", "parameter"])
def test_any_tensor_in_memory_is_read(tensor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(monkeypatch)
    assert reading.at_once.read(Kind.GRADIENT, "a.kernel", tensor)
    assert reading.sums() == {"gradient:a.kernel": 15.0}


@pytest.mark.parametrize("tensor", [torch.empty(2, device="meta"), torch.ones(2).to_sparse(), [1.0], None],
                         ids=["elsewhere", "sparse", "no tensor", "none"])
def test_what_lies_elsewhere_is_left(tensor: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    reading = Reading(monkeypatch)
    assert not reading.at_once.read(Kind.OUTPUT, "a", tensor)


def test_what_a_transform_of_torch_has_wrapped_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, read = Reading(monkeypatch), []
    torch.func.vmap(lambda row: (read.append(reading.at_once.read(Kind.OUTPUT, "a", row)), row)[1])(torch.ones(2, 3))
    assert read == [False]
