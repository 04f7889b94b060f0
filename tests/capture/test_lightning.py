"""Lightning as it is trained: the suite of every integration, and what Lightning itself says of a training."""

from __future__ import annotations

import functools
import gc
import importlib
import importlib.util
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

import barograph
from barograph.attached import AttachedRun
from barograph.capture.recording import current
from barograph.errors import TrainingStopped, UnknownStep
from barograph.model.step import Mode
from barograph.runs.reading.reader import RunReader
from barograph.runs.state.capsules import read_capsule
from barograph.store.urls import store_from_url
from barograph.testing.frameworks import FrameworkConformance, Task

if importlib.util.find_spec("lightning") is None:
    pytest.skip("lightning is not installed", allow_module_level=True)

# Lightning warns of few workers, of few batches, and of what it uses itself.
pytestmark = pytest.mark.filterwarnings("ignore:::lightning")


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    """Import it for these tests alone, and keep what that makes out of the searches that a recording begins with."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module("lightning.pytorch")
    gc.collect()
    gc.freeze()


@functools.cache
def lightning() -> Any:
    """Return Lightning, imported where a test needs it: that takes seconds."""
    import lightning.pytorch

    return lightning.pytorch


@functools.cache
def small_class() -> type:
    """Return the class of a small network."""
    class Small(lightning().LightningModule):  # type: ignore[misc]
        def __init__(self, *, adam: bool = False) -> None:
            super().__init__()
            self.hidden, self.out, self.adam = nn.Linear(4, 6), nn.Linear(6, 2), adam

        def forward(self, x: Any) -> Any:
            return self.out(torch.relu(self.hidden(x)))

        def training_step(self, batch: Any, number: int) -> Any:
            loss = nn.functional.cross_entropy(self(batch[0]), batch[1])
            self.log("train_loss", loss)
            return loss

        def validation_step(self, batch: Any, number: int) -> None:
            answers = self(batch[0])
            self.log("held_out", nn.functional.cross_entropy(answers, batch[1]))
            self.log("accuracy", (answers.argmax(1) == batch[1]).float().mean())

        def predict_step(self, batch: Any, number: int) -> Any:
            return self(batch[0])

        def configure_optimizers(self) -> Any:
            kind = torch.optim.AdamW if self.adam else torch.optim.SGD
            return kind(self.parameters(), 0.1)

    return Small


def small(**options: Any) -> Any:
    torch.manual_seed(0)
    return small_class()(**options)


def samples(count: int, seed: int = 0) -> TensorDataset:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 4, generator=generator)
    return TensorDataset(x, (x[:, 0] > 0).long())


def batches(count: int, seed: int = 0) -> DataLoader[Any]:
    return DataLoader(samples(count * 5, seed), 5)


def trainer(**options: Any) -> Any:
    return lightning().Trainer(**{
        "logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False,
        "accelerator": "cpu", "log_every_n_steps": 1, "max_epochs": 2, "num_sanity_val_steps": 0, **options})


def recorded(place: str, *, model: Any = None, settings: Mapping[str, Any] | None = None, **options: Any) -> RunReader:
    """Return the run of two epochs of four steps, each with an evaluation."""
    path = f"memory://lightning/{place}"
    with barograph.attach(to=path, watch=False, strict=True, budget=None, **(settings or {})):
        trainer(**options).fit(model or small(), batches(4), batches(2, seed=1))
    return barograph.open(path)


class TestLightning(FrameworkConformance):
    """The suite of every integration."""

    framework = "lightning"
    many_steps = 60

    def train(self, task: Task, run: AttachedRun | None) -> Mapping[str, Any]:
        data = samples(task.steps * task.accumulate * 5, task.seed)
        if task.nan_at is not None:
            data.tensors[0][task.nan_at * 5] = torch.nan
        evaluation = {"val_check_interval": task.evaluate_every * task.accumulate, "check_val_every_n_epoch": None}
        made = trainer(max_epochs=1, accumulate_grad_batches=task.accumulate, log_every_n_steps=4,
                       **(evaluation if task.evaluate_every else {}))
        torch.manual_seed(task.seed)
        model = small_class()()
        made.fit(model, DataLoader(data, 5), batches(2, seed=1) if task.evaluate_every else None)
        return {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}


def test_what_is_logged_is_recorded_in_its_mode_and_where_lightning_is(tmp_path):
    run = recorded("logged")
    assert run.series("scalar:train_loss").steps.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    np.testing.assert_allclose(run.series("scalar:train_loss").values, run.series("loss:total").values, rtol=1e-6)
    assert run.series("scalar:accuracy", mode=Mode.EVAL).steps.tolist() == [4, 8]
    np.testing.assert_allclose(run.series("scalar:held_out", mode=Mode.EVAL).values,
                               run.series("loss:cross_entropy", mode=Mode.EVAL).values, rtol=1e-6)
    assert run.series("scalar:epoch").values.tolist() == [0, 1]
    assert run.series("scalar:global_step").values.tolist() == [0, 4]


def test_the_trial_of_an_evaluation_is_none():
    run = recorded("sanity", num_sanity_val_steps=2)
    assert run.series("loss:cross_entropy", mode=Mode.EVAL).steps.tolist() == [4, 8]
    assert run.series("scalar:held_out", mode=Mode.EVAL).steps.tolist() == [4, 8]
    assert run.series("loss:total").steps.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]


def test_a_training_without_counts_of_its_own_goes_on_from_its_checkpoint(tmp_path: Path):
    place = tmp_path / "four.ckpt"
    first, model = trainer(max_epochs=1), small()
    first.fit(model, batches(4))
    first.save_checkpoint(place)
    with barograph.attach(to="memory://lightning/onward", watch=False, strict=True, budget=None):
        trainer().fit(small(), batches(4), ckpt_path=place)
        trainer(max_epochs=1).fit(small(), batches(4))
    run = barograph.open("memory://lightning/onward")
    # The optimizer of the training before is alive, so these are called by their model.
    assert run.series("loss:total", optimizer="Small").steps.tolist() == [4, 5, 6, 7]
    assert run.series("loss:total", optimizer="Small#2").steps.tolist() == [0, 1, 2, 3]


def test_a_prediction_is_no_evaluation():
    with barograph.attach(to="memory://lightning/predicted", watch=False, strict=True, budget=None):
        model, made = small(), trainer(max_epochs=1)
        made.fit(model, batches(4))
        made.predict(model, batches(2, seed=1))
    modes = {view.step.mode for view in barograph.open("memory://lightning/predicted").views()}
    assert Mode.EVAL not in modes
    assert Mode.PREDICT in modes


def test_two_optimizers_are_two_series():
    class Two(small_class()):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch: Any, number: int) -> None:
            for optimizer in self.optimizers():
                optimizer.zero_grad()
                self.manual_backward(nn.functional.cross_entropy(self(batch[0]), batch[1]))
                optimizer.step()

        def configure_optimizers(self) -> Any:
            return [torch.optim.SGD(part.parameters(), 0.1) for part in (self.hidden, self.out)]

    torch.manual_seed(0)
    run = recorded("two", model=Two())
    assert run.series("loss:total", optimizer="SGD").steps.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    assert run.series("loss:total", optimizer="SGD#2").steps.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    assert run.series("scalar:global_step").values.tolist() == [0, 8]


def test_of_several_loaders_each_step_has_what_it_was_fed_and_each_evaluation_its_own_loss():
    class Both(small_class()):  # type: ignore[misc]
        def training_step(self, batch: Any, number: int) -> Any:
            return sum(nn.functional.cross_entropy(self(x), y) for x, y in batch.values())

        def validation_step(self, batch: Any, number: int, dataloader_idx: int = 0) -> None:
            self.log("held_out", nn.functional.cross_entropy(self(batch[0]), batch[1]))

    torch.manual_seed(0)
    model = Both()
    # Of four and of three batches: the second begins again within the first epoch.
    loaders = {"long": batches(4), "short": DataLoader(samples(9, seed=2), 3)}
    held_out = [batches(2, seed=1), batches(3, seed=3)]
    with barograph.attach(to="memory://lightning/several", watch=False, strict=True, budget=None):
        trainer(num_sanity_val_steps=2).fit(model, loaders, held_out)
    run = barograph.open("memory://lightning/several")
    assert run.series("loss:total").steps.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    assert run.series("scalar:epoch").steps.tolist() == [0, 4]
    trace = run.trace()
    assert [{batch.size: batch.indices.tolist() for batch in trace.at(step)} for step in (0, 3, 4)] == [
        {20: [0, 1, 2, 3, 4], 9: [0, 1, 2]}, {20: [15, 16, 17, 18, 19], 9: [0, 1, 2]},
        {20: [0, 1, 2, 3, 4], 9: [0, 1, 2]}]
    labels = [run.series(f"label:cross_entropy[{label}]") for label in range(2)]
    assert sum(series.values.sum() for series in labels) == 8 * 8
    # Each loader is evaluated by itself, as Lightning has it.
    for place in range(2):
        ours = run.series(f"loss:part{place + 1}.cross_entropy", mode=Mode.EVAL)
        theirs = run.series(f"scalar:held_out/dataloader_idx_{place}", mode=Mode.EVAL)
        assert ours.steps.tolist() == theirs.steps.tolist() == [4, 8]
        np.testing.assert_allclose(ours.values, theirs.values, rtol=1e-5)


class Stream(IterableDataset[Any]):
    """Has no length, so that Lightning draws a batch ahead, to know which is the last."""

    def __init__(self, count: int) -> None:
        self.held = samples(count)

    def __iter__(self) -> Any:
        return iter([self.held[number] for number in range(len(self.held.tensors[0]))])


def test_of_a_stream_each_step_is_told_the_batch_that_it_was_made_of():
    path = "memory://lightning/stream"
    with barograph.attach(to=path, watch=False, strict=True, budget=None):
        trainer(val_check_interval=2).fit(small(), DataLoader(Stream(18), 5), DataLoader(Stream(10), 5))
    told = barograph.open(path).trace()
    assert [[(batch.pass_number, batch.first, len(batch.samples)) for batch in told.at(step)] for step in range(8)] == [
        [(0, 0, 5)], [(0, 5, 5)], [(0, 10, 5)], [(0, 15, 3)], [(1, 0, 5)], [(1, 5, 5)], [(1, 10, 5)], [(1, 15, 3)]]


def test_of_a_stream_the_step_that_is_held_is_kept_with_its_own_batch(tmp_path: Path):
    fed = Stream(18)
    fed.held.tensors[0][7] = torch.nan
    with (pytest.raises(TrainingStopped, match="step 1 was withheld"),
          barograph.attach(to=tmp_path / "held", watch=False, strict=True, budget=None, recorder=True)):
        trainer().fit(small(), DataLoader(fed, 5))
    held = read_capsule(store_from_url(str(tmp_path / "held"))).content
    assert [(batch["first"], batch["samples"]) for batch in held["samples"]] == [(5, 5)]


def test_of_a_stream_that_is_recorded_from_its_middle_on_each_step_is_told_its_own_batch():
    held: list[AttachedRun] = []

    class Attaches(lightning().Callback):  # type: ignore[misc]
        def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, number: int) -> None:
            if not held:
                held.append(barograph.attach(to="memory://lightning/middle", watch=False, strict=True, budget=None))

    trainer(callbacks=[Attaches()], max_epochs=1).fit(small(), DataLoader(Stream(28), 5))
    held[0].close()
    told = barograph.open("memory://lightning/middle").trace()
    # The batch of its first step was drawn before anybody listened; the last is the one of three samples.
    with pytest.raises(UnknownStep, match="Recorded steps: 1 to 4"):
        told.at(0)
    assert [[len(batch.samples) for batch in told.at(step)] for step in range(1, 5)] == [[5], [5], [5], [3]]


def test_a_fault_of_ours_in_what_is_drawn_ahead_reaches_no_training(monkeypatch: pytest.MonkeyPatch):
    def fails(*args: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("barograph.capture.trainers.drawn_ahead.deque", fails)
    trained = trainer(max_epochs=1)
    with (warnings.catch_warnings(),
          barograph.attach(to="memory://lightning/fault", watch=False, strict=False, budget=None)):
        warnings.simplefilter("ignore")
        trained.fit(small(), DataLoader(Stream(18), 5))
    assert trained.global_step == 4


def test_half_precision_and_clipping_are_seen_through():
    run = recorded("bf16", precision="bf16-mixed", gradient_clip_val=0.01)
    assert run.series("loss:total").steps.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    clipped = run.series("scalar:gradient_norm_before_clip").values
    assert (clipped > 0.01).all()
    np.testing.assert_allclose(np.sqrt(sum(
        run.series(f"gradient:{name}", "l2").values[0] ** 2 for name in (
            "hidden.weight", "hidden.bias", "out.weight", "out.bias"))), clipped[0], rtol=1e-3)


def test_a_stop_tears_lightning_down_and_evaluates_no_more():
    heard: list[str] = []

    class Hears(lightning().Callback):  # type: ignore[misc]
        def on_exception(self, trainer: Any, module: Any, exception: BaseException) -> None:
            heard.append(type(exception).__name__)

        def on_train_batch_end(self, trainer: Any, *args: Any) -> None:
            if trainer.global_step == 2:
                recording = current()
                assert recording is not None
                recording.session.steering.request_stop("the test asks")

        def teardown(self, trainer: Any, module: Any, stage: str) -> None:
            heard.append("teardown")

    with pytest.raises(TrainingStopped, match="the test asks"):
        recorded("stopped", callbacks=[Hears()])
    run = barograph.open("memory://lightning/stopped")
    assert heard[0] == "TrainingStopped"
    assert run.series("loss:total").steps.tolist() == [0, 1, 2]
    assert run.series("loss:cross_entropy", mode=Mode.EVAL).steps.tolist() == []


def test_the_callback_begins_a_run_and_nothing_where_there_is_one():
    from barograph.lightning import Callback

    alone = Callback(to="memory://lightning/callback", watch=False, strict=True, budget=None)
    trainer(callbacks=[alone]).fit(small(), batches(4))
    assert alone.run is not None
    alone.run.close()
    run = barograph.open("memory://lightning/callback")
    assert run.series("loss:total").steps.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    assert len(run.series("scalar:train_loss").steps) == 8
    second = Callback(to="memory://lightning/never", watch=False)
    recorded("callback-second", callbacks=[second])
    assert second.run is None
