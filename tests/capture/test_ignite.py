"""Engines of Ignite as they run: the suite of every integration, and what engines themselves say of a training."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import barograph
from barograph.attached import AttachedRun
from barograph.capture.recording import current
from barograph.errors import TrainingStopped
from barograph.model.step import Mode
from barograph.runs.reading.reader import RunReader
from barograph.testing.frameworks import FrameworkConformance, Task

if importlib.util.find_spec("ignite") is None:
    pytest.skip("pytorch-ignite is not installed", allow_module_level=True)


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    """Import it for these tests alone, and keep what that makes out of the searches that a recording begins with."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module("ignite.metrics")
    gc.collect()
    gc.freeze()


def batches(count: int, seed: int = 0) -> DataLoader[Any]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count * 5, 4, generator=generator)
    return DataLoader(TensorDataset(x, (x[:, 0] > 0).long()), 5)


def engines(seed: int = 0, *, accumulate: int = 1, evaluators: int = 1) -> tuple[nn.Module, Any, list[Any]]:
    """Return a model, the engine that trains it and those that evaluate it after each epoch."""
    from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
    from ignite.metrics import Accuracy, Loss

    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    optimizer, loss = torch.optim.SGD(model.parameters(), 0.1), nn.CrossEntropyLoss()
    trainer = create_supervised_trainer(model, optimizer, loss, gradient_accumulation_steps=accumulate)
    made = [create_supervised_evaluator(model, {"accuracy": Accuracy(), "nll": Loss(loss)}) for _ in range(evaluators)]

    def evaluate(_: Any) -> None:
        for number, engine in enumerate(made):
            engine.run(batches(2, seed=number + 1))

    trainer.add_event_handler(Events.EPOCH_COMPLETED, evaluate)
    return model, trainer, made


def recorded(place: str, trainer: Any) -> RunReader:
    path = f"memory://ignite/{place}"
    with barograph.attach(to=path, watch=False, strict=True, budget=None):
        trainer.run(batches(4), max_epochs=2)
    return barograph.open(path)


class TestIgnite(FrameworkConformance):
    """The suite of every integration."""

    framework = "ignite"
    many_steps = 60

    def train(self, task: Task, run: AttachedRun | None) -> Mapping[str, Any]:
        model, trainer, _ = engines(task.seed, accumulate=task.accumulate, evaluators=1 if task.evaluate_every else 0)
        data = batches(task.steps * task.accumulate, task.seed)
        if task.nan_at is not None:
            data.dataset.tensors[0][task.nan_at * 5] = torch.nan  # type: ignore[attr-defined]
        each = (task.evaluate_every or task.steps) * task.accumulate
        trainer.run(data, max_epochs=task.steps * task.accumulate // each, epoch_length=each)
        return {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}


def test_the_metrics_of_engines_are_recorded_in_their_mode():
    from ignite.metrics import RunningAverage

    _, trainer, _ = engines()
    RunningAverage(output_transform=lambda loss: loss).attach(trainer, "running_loss")
    run = recorded("metrics", trainer)
    assert run.series("scalar:running_loss").steps.tolist() == [4, 8]
    assert run.series("scalar:epoch").values.tolist() == [1, 2]
    assert run.series("scalar:iteration").values.tolist() == [4, 8]
    assert run.series("scalar:accuracy", mode=Mode.EVAL).steps.tolist() == [4, 8]
    np.testing.assert_allclose(run.series("scalar:nll", mode=Mode.EVAL).values,
                               run.series("loss:cross_entropy", mode=Mode.EVAL).values, rtol=1e-6)


def test_of_several_evaluators_each_has_metrics_of_its_own():
    from barograph.ignite import attach

    _, trainer, (_, second) = engines(evaluators=2)
    plain = recorded("several", trainer)
    assert {key.path for key in plain.keys(kind="scalar")} >= {"nll", "evaluator2.nll"}
    _, trainer, (first, second) = engines(evaluators=2)
    run = attach({"training": first, "held_out": second}, to="memory://ignite/named", watch=False, strict=True)
    assert run is not None
    with run:
        assert attach({"training": first}) is None
        trainer.run(batches(4), max_epochs=1)
    named = barograph.open("memory://ignite/named")
    assert named.series("scalar:held_out.nll", mode=Mode.EVAL).steps.tolist() == [4]
    assert named.series("scalar:training.nll", mode=Mode.EVAL).steps.tolist() == [4]


def test_a_training_that_is_stopped_terminates_before_the_script_is_told():
    from ignite.engine import Events

    _, trainer, _ = engines()
    heard: list[str] = []

    def ask(engine: Any) -> None:
        recording = current()
        assert recording is not None
        recording.session.steering.request_stop("the test asks")

    def hear(engine: Any) -> None:
        heard.append("completed")

    trainer.add_event_handler(Events.ITERATION_COMPLETED(once=2), ask)
    trainer.add_event_handler(Events.COMPLETED, hear)
    with pytest.raises(TrainingStopped, match="the test asks"):
        recorded("stopped", trainer)
    assert heard == ["completed"]
    run = barograph.open("memory://ignite/stopped")
    assert run.series("loss:total").steps.tolist() == [0, 1, 2]
    assert run.series("loss:cross_entropy", mode=Mode.EVAL).steps.tolist() == []


def test_no_handler_of_ours_stays_with_an_engine():
    from ignite.engine import Events

    _, trainer, _ = engines()
    before = len(trainer._event_handlers[Events.EPOCH_COMPLETED])
    recorded("handlers", trainer)
    assert len(trainer._event_handlers[Events.EPOCH_COMPLETED]) == before
    assert len(trainer._event_handlers[Events.EPOCH_STARTED]) == 0
