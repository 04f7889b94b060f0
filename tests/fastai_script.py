"""A training by fastai's Learner with its own optimizer, which is none of torch's; writes weights.npz.

With --wrapped by one of torch's, in fastai's wrapper of these.
"""

import sys
from functools import partial

import fastai.callback.progress  # noqa: F401 - gives a Learner no_bar
import numpy as np
import torch
from fastai.callback.fp16 import MixedPrecision
from fastai.data.core import DataLoaders
from fastai.learner import Learner
from fastai.optimizer import Adam, OptimWrapper
from torch.utils.data import DataLoader, TensorDataset


class MixedOnCPU(MixedPrecision):
    """fastai turns its scaler off where there is no GPU."""

    def before_fit(self):
        self.autocast, self.scales = torch.amp.autocast("cpu", dtype=torch.bfloat16), []
        # Low, as after many steps that it had to skip.
        self.learn.scaler = torch.amp.GradScaler("cpu", init_scale=1.0 if "--low" in sys.argv else 65536.0)


torch.manual_seed(0)
inputs = torch.randn(40, 4)
samples = TensorDataset(inputs, (inputs[:, 0] > 0).long())
if "--nan" in sys.argv:
    inputs[12] = torch.nan
model = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 2))
made_by = partial(OptimWrapper, opt=torch.optim.Adam) if "--wrapped" in sys.argv else Adam
learner = Learner(DataLoaders(DataLoader(samples, 5), DataLoader(samples, 10)), model, opt_func=made_by, lr=0.01,
                  loss_func=torch.nn.CrossEntropyLoss())
if "--half" in sys.argv:
    learner.add_cb(MixedOnCPU())
with learner.no_bar(), learner.no_logging():
    learner.fit(2)
np.savez("weights.npz", *[parameter.detach().numpy() for parameter in model.parameters()])
