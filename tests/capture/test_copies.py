"""A model that is being recorded can be copied, pickled, saved and scripted as one that is not."""

from __future__ import annotations

import copy
import io
import pickle
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn


def saved_and_loaded(item):
    file = io.BytesIO()
    torch.save(item, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def pickled(item):
    return pickle.loads(pickle.dumps(item))


def scripted(model):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer versions of torch warn of TorchScript itself
        return torch.jit.script(model)


def exported(model):
    return torch.export.export(model, (torch.ones(1, 3),)).module()


def step(model, optimizer):
    F.mse_loss(model(torch.ones(2, 3)), torch.zeros(2, 1)).backward()
    optimizer.step()
    optimizer.zero_grad()


@pytest.mark.parametrize("copied", [copy.deepcopy, saved_and_loaded, pickled, scripted, exported])
@pytest.mark.parametrize("preset", ["free", "everything"])
def test_a_model_between_two_steps(record, copied, preset):
    tape, model = record(preset=preset), nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    optimizer = torch.optim.Adam(model.parameters())
    step(model, optimizer)
    other = copied(model)
    assert torch.equal(other(torch.ones(1, 3)), model(torch.ones(1, 3)))
    step(model, optimizer)
    tape.close()
    assert tape.numbers() == [0, 1]


@pytest.mark.parametrize("copied", [copy.deepcopy, saved_and_loaded, pickled])
def test_an_optimizer_between_two_steps(record, copied):
    tape, model = record(), nn.Linear(3, 1)
    optimizer = torch.optim.Adam(model.parameters())
    step(model, optimizer)
    assert copied(optimizer).state_dict()["state"][0]["step"] == 1
    tape.close()
