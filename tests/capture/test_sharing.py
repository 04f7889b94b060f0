"""Workers that train one model hold a step together."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from torch import distributed, nn

from barograph.capture.torch import sharing as torch_sharing
from barograph.capture.torch.flat import FlatPiece
from barograph.capture.torch.gate import Gate
from barograph.capture.torch.optimizer_entry import Slot
from barograph.capture.torch.sharing import sharing
from barograph.model.capsule import Held
from barograph.model.recorder import RecorderSettings

LOSS = [torch.tensor(1.0)]


def slots(*gradient):
    weight = nn.Parameter(torch.zeros(len(gradient)))
    weight.grad = torch.tensor(gradient)
    return [Slot(weight, "weight", "Linear")]


class Others:
    """Stands where the other workers stand."""

    def __init__(self, grave=0.0, norm=0.0):
        self.told = []
        self._grave, self._norm = grave, norm

    def __call__(self, grave, norm):
        self.told.append((grave, norm))
        return max(grave, self._grave), max(norm, self._norm)


def test_a_step_that_fails_elsewhere_is_held_here():
    verdict = Gate(RecorderSettings()).looks(slots(3.0, 4.0), LOSS, share=Others(grave=1024.0))
    assert verdict.held is Held.NOT_FINITE
    assert verdict.text == "Another worker's gradients, or its loss, are not finite."


def test_a_step_that_another_workers_function_holds_is_held_here():
    verdict = Gate(RecorderSettings()).looks(slots(3.0, 4.0), LOSS, share=Others(grave=1.0))
    assert (verdict.held, verdict.text) == (Held.OWN, "Another worker holds this step.")


def test_the_others_are_told_of_what_the_users_function_holds_and_do_not_wait_where_it_raises():
    others = Others()
    verdict = Gate(RecorderSettings(when=lambda _: "no")).looks(slots(3.0, 4.0), LOSS, share=others)
    assert (verdict.text, others.told) == ("no.", [(1.0, 5.0)])

    def fails(_):
        raise KeyError("of the user's")

    with pytest.raises(KeyError, match="of the user's"):
        Gate(RecorderSettings(when=fails)).looks(slots(3.0, 4.0), LOSS, share=others)
    assert others.told[1:] == [(0.0, 5.0)]


def test_the_others_are_told_once_whether_this_worker_fails_or_not():
    for gradient, told in (((3.0, 4.0), (0.0, 5.0)), ((math.inf, 0.0), (1024.0, math.inf))):
        others = Others()
        Gate(RecorderSettings()).looks(slots(*gradient), [], share=others)
        assert others.told == [told]


def test_the_norm_is_that_of_all():
    gate = Gate(RecorderSettings(norm_above=10.0))
    assert gate.looks(slots(3.0, 4.0), [], share=Others(norm=9.0)) is None
    verdict = gate.looks(slots(3.0, 4.0), [], share=Others(norm=12.0))
    assert (verdict.held, verdict.numbers["norm"]) == (Held.NORM, 12.0)


class DistributedDataParallel(nn.Module):
    process_group = "the group"


class FullyShardedDataParallel(nn.Module):
    process_group = "the group"


@pytest.fixture
def two_workers(monkeypatch):
    """Process groups in which the other worker has a gradient of norm 4, all of it finite."""
    calls = []

    def all_reduce(numbers, operation, group):
        calls.append((numbers.tolist(), operation, group))
        other = torch.tensor([0.0, 16.0 if operation is distributed.ReduceOp.SUM else 4.0])
        numbers.copy_(numbers + other if operation is distributed.ReduceOp.SUM else torch.maximum(numbers, other))

    monkeypatch.setattr(torch_sharing.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch_sharing.distributed, "get_world_size", lambda: 2)
    monkeypatch.setattr(torch_sharing.distributed, "all_reduce", all_reduce)
    return calls


@pytest.mark.parametrize(("model", "piece", "whole"), [
    (DistributedDataParallel, None, 4.0), (FullyShardedDataParallel, FlatPiece(4, 2), 5.0),
    (FullyShardedDataParallel, None, 4.0),  # one that splits nothing
])
def test_replicas_take_the_greatest_norm_and_parts_add_theirs_up(two_workers, model, piece, whole):
    share = sharing([model()], [replace(slot, piece=piece) for slot in slots(3.0, 4.0)])
    assert share(0.0, 3.0) == (0.0, whole)
    assert share(1024.0, math.nan)[0] == 1024.0
    assert len(two_workers) == 2
    assert two_workers[0][2] == "the group"


def test_a_model_that_no_others_train_is_nobody_elses(two_workers):
    assert sharing([nn.Linear(1, 1)], slots(3.0, 4.0)) is None


def test_one_process_alone_tells_nobody():
    assert sharing([DistributedDataParallel()], slots(3.0, 4.0)) is None
