"""The `Trainer` of Transformers: the suite of every integration, and what the trainer itself says of a training."""

from __future__ import annotations

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

import barograph
from barograph.attached import AttachedRun
from barograph.capture.recording import current
from barograph.errors import TrainingStopped
from barograph.model.step import Mode
from barograph.runs.reading.reader import RunReader
from barograph.runs.state.capsules import read_capsule
from barograph.store.urls import store_from_url
from barograph.testing.frameworks import FrameworkConformance, Task

for name in ("transformers", "accelerate"):
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore:::(transformers|accelerate)")


@pytest.fixture(scope="module", autouse=True)
def loaded() -> None:
    """Import it for these tests alone, and keep what that makes out of the searches that a recording begins with."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module("transformers.trainer")
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a trainer make its directory, which it does where nothing is saved, too, where it is in nobody's way."""
    monkeypatch.chdir(tmp_path)


class Small(nn.Module):
    """A network of the kind that a trainer takes: it returns its loss."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.out = nn.Linear(4, 6), nn.Linear(6, 2)

    def forward(self, x: Any, labels: Any = None) -> Any:
        scores = self.out(torch.relu(self.hidden(x)))
        return {"loss": nn.functional.cross_entropy(scores, labels), "logits": scores}


def small() -> Small:
    torch.manual_seed(0)
    return Small()


def samples(count: int, seed: int = 0) -> list[dict[str, Any]]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 4, generator=generator)
    return [{"x": row, "labels": int(row[0] > 0)} for row in x]


def trainer(model: nn.Module, data: Any, *, callbacks: Any = (), compute_metrics: Any = None, in_order: bool = False,
            **options: Any) -> Any:
    import transformers

    can_say = "train_sampling_strategy" in transformers.TrainingArguments.__dataclass_fields__
    if in_order and can_say:
        options["train_sampling_strategy"] = "sequential"
    arguments = transformers.TrainingArguments(**{
        "output_dir": "never-written", "per_device_train_batch_size": 5, "logging_steps": 1, "save_strategy": "no",
        "report_to": [], "use_cpu": True, "disable_tqdm": True, "num_train_epochs": 2, "optim": "sgd",
        "learning_rate": 0.1, "lr_scheduler_type": "constant", "remove_unused_columns": False, **options})
    made = transformers.Trainer(model=model, args=arguments, train_dataset=data, eval_dataset=samples(10, seed=1),
                                callbacks=list(callbacks), compute_metrics=compute_metrics)
    made.remove_callback(transformers.trainer_callback.PrinterCallback)
    if in_order and not can_say:
        made._get_train_sampler = lambda *_: torch.utils.data.SequentialSampler(data)
    return made


def recorded(place: str, model: nn.Module | None = None, **options: Any) -> RunReader:
    """Return the run of two epochs of four steps."""
    path = f"memory://transformers/{place}"
    with barograph.attach(to=path, watch=False, strict=True, budget=None):
        trainer(model or small(), samples(20), **options).train()
    return barograph.open(path)


class TestTransformers(FrameworkConformance):
    """The suite of every integration."""

    framework = "transformers"
    many_steps = 60

    def train(self, task: Task, run: AttachedRun | None) -> Mapping[str, Any]:
        data = samples(task.steps * task.accumulate * 5, task.seed)
        if task.nan_at is not None:
            data[task.nan_at * 5]["x"][0] = torch.nan
        torch.manual_seed(task.seed)
        model = Small()
        evaluation = {"eval_strategy": "steps", "eval_steps": task.evaluate_every} if task.evaluate_every else {}
        trainer(model, data, num_train_epochs=1, gradient_accumulation_steps=task.accumulate, logging_steps=4,
                in_order=True, seed=task.seed, **evaluation).train()
        return {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}


def test_what_is_logged_is_recorded_in_its_mode_and_where_the_trainer_is():
    run = recorded("logged", eval_strategy="epoch",
                   compute_metrics=lambda answers: {"right": float((answers[0].argmax(1) == answers[1]).mean())})
    assert run.series("scalar:loss").steps.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    np.testing.assert_allclose(run.series("scalar:loss").values, run.series("loss:total").values, atol=1e-4)
    assert run.series("scalar:eval_right", mode=Mode.EVAL).steps.tolist() == [4, 8]
    assert run.series("scalar:eval_loss", mode=Mode.EVAL).steps.tolist() == [4, 8]
    assert run.series("scalar:global_step").values.tolist() == [0, 4]
    assert run.series("scalar:epoch").values.tolist()[-1] == 2


def test_a_nan_that_the_trainer_keeps_out_of_its_log_is_found():
    data = samples(20)
    data[12]["x"][0] = torch.nan
    with barograph.attach(to="memory://transformers/filtered", watch=False, strict=True, budget=None):
        trainer(small(), data, num_train_epochs=1, logging_nan_inf_filter=True,
                in_order=True).train()
    run = barograph.open("memory://transformers/filtered")
    assert np.isfinite(run.series("scalar:loss").values).all()
    assert np.isfinite(run.series("loss:total").values).tolist() == [True, True, False, False]


def test_a_training_without_counts_of_its_own_goes_on_from_its_checkpoint(tmp_path: Path):
    kept = {"output_dir": str(tmp_path), "save_strategy": "steps", "save_steps": 3, "max_steps": 8}
    trainer(small(), samples(20), **kept).train()
    with barograph.attach(to="memory://transformers/onward", watch=False, strict=True, budget=None):
        trainer(small(), samples(20), **kept).train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    run = barograph.open("memory://transformers/onward")
    assert run.series("loss:total").steps.tolist() == [3, 4, 5, 6, 7]


def test_a_prediction_is_no_evaluation():
    with barograph.attach(to="memory://transformers/predicted", watch=False, strict=True, budget=None):
        made = trainer(small(), samples(20))
        made.train()
        made.predict(samples(10, seed=1))
    modes = {view.step.mode for view in barograph.open("memory://transformers/predicted").views()}
    assert Mode.EVAL not in modes
    assert Mode.PREDICT in modes


def test_the_steps_of_its_schedulers_are_counted():
    run = recorded("schedule", lr_scheduler_type="linear", max_steps=12)
    assert run.series("fact:scheduler_steps").values.max() >= 10


def test_a_training_that_is_stopped_ends_as_the_trainer_ends_one_and_saves_no_more(tmp_path: Path):
    from transformers import TrainerCallback

    heard: list[str] = []

    class Hears(TrainerCallback):
        def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            heard.append("step")
            if state.global_step == 2:
                recording = current()
                assert recording is not None
                recording.session.steering.request_stop("the test asks")

        def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            heard.append("end")

    with pytest.raises(TrainingStopped, match="the test asks"):
        recorded("stopped", callbacks=[Hears()], eval_strategy="epoch", save_strategy="steps", save_steps=3,
                 output_dir=str(tmp_path))
    assert heard == ["step", "step", "step", "end"]
    run = barograph.open("memory://transformers/stopped")
    assert run.series("loss:total").steps.tolist() == [0, 1, 2]
    assert run.series("scalar:train_runtime").steps.tolist() == [3]
    assert run.series("loss:cross_entropy", mode=Mode.EVAL).steps.tolist() == []
    assert not list(tmp_path.glob("checkpoint-*"))


def test_the_callback_begins_a_run_and_nothing_where_there_is_one():
    from barograph.transformers import Callback

    alone = Callback(to="memory://transformers/callback", watch=False, strict=True, budget=None)
    trainer(small(), samples(20), callbacks=[alone]).train()
    assert alone.run is not None
    alone.run.close()
    run = barograph.open("memory://transformers/callback")
    assert run.series("loss:total").steps.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    assert run.series("scalar:global_step").steps.tolist() == [0, 4]
    second = Callback(to="memory://transformers/never", watch=False)
    recorded("callback-second", callbacks=[second])
    assert second.run is None


def accelerated(**options: Any) -> Any:
    """Return what Accelerate calls itself by, as in a process that is new to it."""
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, GradientState, PartialState

    for state in (AcceleratorState, GradientState, PartialState):
        state._reset_state()
    return Accelerator(cpu=True, **options)


class TestAccelerate(FrameworkConformance):
    """The suite of every integration, for a loop that Accelerate prepares."""

    framework = "accelerate"

    def train(self, task: Task, run: AttachedRun | None) -> Mapping[str, Any]:
        torch.manual_seed(task.seed)
        accelerator = accelerated(gradient_accumulation_steps=task.accumulate)
        data = samples(5 * task.steps * task.accumulate, seed=task.seed)
        if task.nan_at is not None:
            data[5 * task.nan_at]["x"] = torch.full((4,), float("nan"))
        model = Small()
        model, optimizer, loader = accelerator.prepare(
            model, torch.optim.SGD(model.parameters(), 0.1), torch.utils.data.DataLoader(data, 5))
        for number, batch in enumerate(loader):
            with accelerator.accumulate(model):
                accelerator.backward(model(**batch)["loss"])
                optimizer.step()
                optimizer.zero_grad()
            if task.evaluate_every and (number + 1) % (task.evaluate_every * task.accumulate) == 0:
                model.eval()
                with torch.no_grad():
                    model(**batch)
                model.train()
        return {name: value.detach().numpy().copy() for name, value in model.named_parameters()}


def test_what_accelerate_logs_is_recorded_and_its_micro_batches_make_one_step():
    with barograph.attach(to="memory://transformers/accelerate", watch=False, strict=True, budget=None):
        accelerator = accelerated(gradient_accumulation_steps=2)
        model = small()
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        loader = torch.utils.data.DataLoader(samples(40), 5)
        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        for batch in loader:
            with accelerator.accumulate(model):
                loss = model(**batch)["loss"]
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            accelerator.log({"mine": loss, "part": {"of": 2}, "text": "no number"})
    run = barograph.open("memory://transformers/accelerate")
    assert run.series("loss:total").steps.tolist() == [0, 1, 2, 3]
    assert run.series("scalar:mine").steps.tolist() == [0, 1, 1, 2, 2, 3, 3, 4]
    assert run.series("scalar:part.of").values.tolist() == [2] * 8
    assert not [key for key in run.keys(kind="scalar") if key.path == "text"]


def fed(loader: Any, accelerator: Any, path: str, **options: Any) -> None:
    """Train a pass over what Accelerate has prepared, and evaluate after each step."""
    with barograph.attach(to=path, watch=False, strict=True, budget=None, **options):
        model = small()
        model, optimizer, held_out = accelerator.prepare(
            model, torch.optim.SGD(model.parameters(), 0.1), torch.utils.data.DataLoader(samples(10, seed=1), 5))
        for batch in loader:
            accelerator.backward(model(**batch)["loss"])
            optimizer.step()
            optimizer.zero_grad()
            with torch.no_grad():
                for other in held_out:
                    model(**other)


def told(path: str) -> list[list[tuple[int, int]]]:
    """Return the place in the pass and the number of samples of what each step was fed."""
    trace = barograph.open(path).trace()
    return [[(batch.first, batch.count) for batch in trace.at(step)] for step in trace.steps]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("dispatched", [False, True])
def test_under_accelerate_each_step_is_told_the_batch_that_it_was_made_of(dispatched, workers):
    from accelerate import DataLoaderConfiguration

    path = f"memory://transformers/fed-{dispatched}-{workers}"
    accelerator = accelerated(dataloader_config=DataLoaderConfiguration(dispatch_batches=dispatched))
    loader = accelerator.prepare(torch.utils.data.DataLoader(samples(18), 5, num_workers=workers))
    fed(loader, accelerator, path)
    assert told(path) == [[(0, 5)], [(5, 5)], [(10, 5)], [(15, 3)]]


def test_batches_that_accelerate_skips_are_of_no_step():
    from accelerate.data_loader import DataLoaderShard

    path = "memory://transformers/skipped"
    accelerator = accelerated()
    loader = DataLoaderShard(samples(18), skip_batches=2,
                             batch_sampler=torch.utils.data.BatchSampler(range(18), 5, drop_last=False))
    fed(loader, accelerator, path)
    assert told(path) == [[(10, 5)], [(15, 3)]]


def test_under_accelerate_the_step_that_is_held_is_kept_with_its_own_batch(tmp_path: Path):
    data = samples(18)
    data[7]["x"][0] = torch.nan
    accelerator, path = accelerated(), str(tmp_path / "held")
    loader = accelerator.prepare(torch.utils.data.DataLoader(data, 5))
    with pytest.raises(TrainingStopped, match="step 1 was withheld"):
        fed(loader, accelerator, path, recorder=True)
    held = read_capsule(store_from_url(path)).content
    assert [(batch["first"], batch["samples"]) for batch in held["samples"]] == [(5, 5)]
    assert held["samples"][0]["indices"] == [5, 6, 7, 8, 9]


def test_of_the_trainer_each_step_has_the_micro_batches_that_it_was_made_of():
    path = "memory://transformers/micro"
    with barograph.attach(to=path, watch=False, strict=True, budget=None):
        trainer(small(), samples(20), num_train_epochs=1, gradient_accumulation_steps=2, eval_strategy="epoch",
                in_order=True).train()
    assert told(path) == [[(0, 5), (5, 5)], [(10, 5), (15, 5)]]
