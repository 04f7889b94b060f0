"""The integration of fastai: run by pytest where fastai is at hand, by `journeys/test_fastai.py`."""

from __future__ import annotations

import random
import warnings
from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import nn

from barograph.attached import AttachedRun
from barograph.testing.frameworks import FrameworkConformance, Task

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of pandas and of torch, of what fastai still uses
    import fastai.callback.progress  # noqa: F401 - gives a Learner no_bar
    from fastai.callback.training import GradientAccumulation
    from fastai.data.core import DataLoaders
    from fastai.data.load import DataLoader
    from fastai.learner import Learner
    from fastai.optimizer import Adam

pytestmark = pytest.mark.filterwarnings("ignore:::fastai")


class TestFastai(FrameworkConformance):
    """The suite of every integration, with fastai's own optimizer and its own loaders."""

    framework = "fastai"
    many_steps = 60

    def train(self, task: Task, run: AttachedRun | None) -> Mapping[str, Any]:
        random.seed(task.seed)
        torch.manual_seed(task.seed)
        x = torch.randn(5 * task.steps * task.accumulate, 4)
        labels = (x[:, 0] > 0).long()
        if task.nan_at is not None:
            x[5 * task.nan_at] = torch.nan
        samples = list(zip(x, labels, strict=True))
        # fastai evaluates after an epoch, and not where there is nothing to evaluate on.
        epochs = task.steps // task.evaluate_every if task.evaluate_every else 1
        loaders = DataLoaders(DataLoader(samples[:len(samples) // epochs], bs=5),
                              DataLoader(samples[:10] if task.evaluate_every else [], bs=5))
        model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
        learner = Learner(loaders, model, opt_func=Adam, lr=0.01, loss_func=nn.CrossEntropyLoss(),
                          cbs=[GradientAccumulation(5 * task.accumulate)] if task.accumulate > 1 else [])
        with learner.no_bar(), learner.no_logging():
            learner.fit(epochs)
        return {name: parameter.detach().numpy().copy() for name, parameter in model.named_parameters()}
