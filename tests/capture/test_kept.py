"""What is kept of a step while it runs."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from barograph.capture.torch import kept


class Shared(nn.Module):
    """One whose buffers and modules are there more than once, or not at all."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.blocks = nn.ModuleList([nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)), nn.Identity()])
        self.blocks.append(self.blocks[0])
        self.same = self.norm
        self.register_buffer("mask", torch.ones(2, 2, dtype=torch.bool))
        self.register_buffer("none", None)
        self.register_buffer("passing", torch.arange(3.0), persistent=False)
        self.blocks[1].register_buffer("mask", self.mask)
        self.absent = nn.Identity()
        self.register_module("nobody", None)


@pytest.mark.parametrize("model", [
    Shared(), nn.Identity(), nn.BatchNorm2d(4, track_running_stats=False), nn.Sequential(Shared(), Shared())])
def test_buffers_are_those_that_torch_names(model):
    found, expected = kept.buffers_of(model), dict(model.named_buffers())
    assert list(found) == list(expected)
    assert all(found[name] is buffer for name, buffer in expected.items())


@pytest.mark.parametrize("all_at_once", [False, True])
def test_copies_keep_their_values_while_the_buffers_move(all_at_once, monkeypatch):
    if not all_at_once:
        monkeypatch.setattr(kept, "_clones", None)
    buffers = {
        "float": torch.tensor([1.0, float("nan")]), "double": torch.ones(2, 2, dtype=torch.float64),
        "count": torch.tensor(7), "mask": torch.tensor([True, False]), "empty": torch.zeros(0),
        "turned": torch.arange(6.0).reshape(2, 3).t(), "of_parameter": nn.Parameter(torch.ones(3)),
        "sparse": torch.eye(2).to_sparse(), "float_again": torch.full((5,), 2.0),
    }
    before = {name: buffer.detach().to_dense().tolist() for name, buffer in buffers.items()}
    copies = kept._copied(buffers)
    assert list(copies) == list(buffers)
    with torch.no_grad():
        for buffer in buffers.values():
            buffer.zero_()
    for name, copy in copies.items():
        assert repr(copy.to_dense().tolist()) == repr(before[name])
        assert (copy.dtype, copy.layout, copy.requires_grad) == (buffers[name].dtype, buffers[name].layout, False)


def test_a_buffer_under_a_gradient_is_copied_without_its_graph():
    weight = torch.ones(2, requires_grad=True)
    assert not any(copy.requires_grad for copy in kept._copied({"a": weight * 2, "b": weight * 3}).values())
