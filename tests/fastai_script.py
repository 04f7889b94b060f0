"""A training by fastai's Learner with its own optimizer, which is none of torch's; writes weights.npz."""

import sys

import fastai.callback.progress  # noqa: F401 - gives a Learner no_bar
import numpy as np
import torch
from fastai.callback.fp16 import MixedPrecision
from fastai.data.core import DataLoaders
from fastai.learner import Learner
from fastai.optimizer import Adam
from torch.utils.data import DataLoader, TensorDataset


class MixedOnCPU(MixedPrecision):
    """fastai turns its scaler off where there is no GPU."""

    def before_fit(self):
        self.autocast, self.scales = torch.amp.autocast("cpu", dtype=torch.bfloat16), []
        self.learn.scaler = torch.amp.GradScaler("cpu")


torch.manual_seed(0)
inputs = torch.randn(40, 4)
samples = TensorDataset(inputs, (inputs[:, 0] > 0).long())
if "--nan" in sys.argv:
    inputs[12] = torch.nan
model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 2))
learner = Learner(DataLoaders(DataLoader(samples, 5), DataLoader(samples, 10)), model, opt_func=Adam, lr=0.01,
                  loss_func=torch.nn.CrossEntropyLoss())
if "--half" in sys.argv:
    learner.add_cb(MixedOnCPU())
with learner.no_bar(), learner.no_logging():
    learner.fit(2)
np.savez("weights.npz", *[parameter.detach().numpy() for parameter in model.parameters()])
