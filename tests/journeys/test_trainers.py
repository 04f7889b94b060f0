"""Unchanged scripts of Lightning and Transformers, with real images and a fault."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from barograph.model.step import Mode
from forking import DIGITS

FORKED = DIGITS

DATA = '''
import torch
from sklearn.datasets import load_digits

torch.manual_seed(0)
digits = load_digits()
images, labels = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)
images[32 * 6 + 5, 3] = torch.nan
'''

LIGHTNING = DATA + '''
import lightning
from torch.utils.data import DataLoader, TensorDataset


class Digits(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))

    def training_step(self, batch, number):
        return torch.nn.functional.cross_entropy(self.layers(batch[0]), batch[1])

    def validation_step(self, batch, number):
        self.log("held_out", torch.nn.functional.cross_entropy(self.layers(batch[0]), batch[1]))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 0.01)


trainer = lightning.Trainer(max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                            accelerator="cpu")
trainer.fit(Digits(), DataLoader(TensorDataset(images[:320], labels[:320]), 32),
            DataLoader(TensorDataset(images[640:704], labels[640:704]), 32))
'''

TRANSFORMERS = DATA + '''
from transformers import Trainer, TrainingArguments


class Digits(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))

    def forward(self, x, labels=None):
        scores = self.layers(x)
        return {"loss": torch.nn.functional.cross_entropy(scores, labels), "logits": scores}


def part(begin, end):
    return [{"x": image, "labels": label} for image, label in zip(images[begin:end], labels[begin:end])]


settings = TrainingArguments("never-written", num_train_epochs=1, per_device_train_batch_size=32, logging_steps=1,
                             save_strategy="no", eval_strategy="epoch", report_to=[], use_cpu=True,
                             train_sampling_strategy="sequential")
Trainer(model=Digits(), args=settings, train_dataset=part(0, 320), eval_dataset=part(640, 704)).train()
'''


@pytest.mark.parametrize(("library", "script", "logged"), [
    ("lightning", LIGHTNING, "held_out"), ("transformers", TRANSFORMERS, "eval_loss"),
])
def test_a_training_is_recorded_and_evaluated_and_its_held_step_replayed(desk, library, script, logged):
    if importlib.util.find_spec(library) is None or importlib.util.find_spec("sklearn") is None:
        pytest.skip(f"{library} or sklearn is not installed")
    desk.write("train.py", script)
    plain = desk.run("--budget", "off", "--strict", "train.py", to="plain")
    assert plain.code == 0, plain.err
    assert "NaN" in plain.err
    run = desk.open("plain")
    losses = run.series("loss:total")
    assert losses.steps.tolist() == list(range(10))
    assert losses.steps[~np.isfinite(losses.values)][0] == 6
    assert run.series(f"scalar:{logged}", mode=Mode.EVAL).steps.tolist() == [10]
    held = desk.run("--record", "--strict", "train.py", to="held")
    assert held.code == 79, held.err
    assert "The update of step 6 was withheld" in held.err
    replay = desk.end(desk.start("barograph", "replay", "--no-samples", "held"))
    assert "bitwise" in replay.text, replay.text + replay.err
    # What the loader gave then is what the step was made of.
    assert "first bad  the input of batch" in replay.text
    assert "taken from the capsule" not in replay.text


KILLED = '''
import os
import signal
import sys

import lightning
import torch
from torch.utils.data import DataLoader, IterableDataset

out = sys.argv[1]
draw = torch.Generator().manual_seed(1)
x = torch.randn(40, 4, generator=draw)


class Stream(IterableDataset):
    def __iter__(self):
        return iter(zip(x, (x[:, 0] > 0).long()))


class Small(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))

    def training_step(self, batch, number):
        if self.global_step == 12 and not os.path.exists(out + ".killed") and "cut" in out:
            open(out + ".killed", "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return torch.nn.functional.cross_entropy(self.layers(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 0.05)


lightning.seed_everything(0)
kept = lightning.pytorch.callbacks.ModelCheckpoint(out, save_last=True)
trainer = lightning.Trainer(max_epochs=3, logger=False, enable_progress_bar=False, accelerator="cpu", callbacks=[kept])
last, model = os.path.join(out, "last.ckpt"), Small()
trainer.fit(model, DataLoader(Stream(), 5), ckpt_path=last if os.path.exists(last) else None)
torch.save(model.state_dict(), out + ".pt")
'''


def test_a_killed_lightning_training_resumes_from_its_own_checkpoint_to_the_same_weights(desk):
    torch = pytest.importorskip("torch")
    pytest.importorskip("lightning")
    desk.write("train.py", KILLED)
    whole = desk.run("--budget", "off", "train.py", "whole", to="undisturbed")
    assert whole.code == 0, whole.err
    cut = desk.run("--budget", "off", "train.py", "cut", to="disturbed")
    assert cut.code == -9, cut.err
    onward = desk.end(desk.start("barograph", "resume", "--own", "disturbed"))
    assert onward.code == 0, onward.err
    ends = [torch.load(desk.folder / name) for name in ("whole.pt", "cut.pt")]
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])
    told = desk.open("disturbed").trace()
    # The end of the first attempt's epoch is where the second began: with the first batch of a pass.
    assert [(batch.first, batch.count) for step in range(8, 24) for batch in told.at(step)] == [
        (first, 5) for _ in range(2) for first in range(0, 40, 5)]
