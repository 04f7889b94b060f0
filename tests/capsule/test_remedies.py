"""What can be tried on a held step."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from barograph.capsule.remedies import Remedy, Trial, remedy_from
from barograph.capsule.torch.trial import TorchTrial
from barograph.errors import SettingsError, UnknownName


@pytest.mark.parametrize(("text", "remedy"), [
    ("lr=1e-4", Remedy("lr", "1e-4")), (" clip = 1.0 ", Remedy("clip", "1.0")), ("dtype=bf16", Remedy("dtype", "bf16")),
    ("without_sample=3,7", Remedy("without-sample", "3,7")), ("without-sample", Remedy("without-sample", "")),
])
def test_remedies_are_read(text, remedy):
    assert remedy_from(text) == remedy
    assert remedy_from(str(remedy)) == remedy


@pytest.mark.parametrize(("text", "error", "says"), [
    ("clipp=1", UnknownName, 'Did you mean "clip"'), ("dtype=bf61", UnknownName, 'Did you mean "bf16"'),
    ("lr=-1", SettingsError, "must be a number above 0"), ("lr=inf", SettingsError, "above 0"),
    ("clip", SettingsError, "above"),
    ("lr=fast", SettingsError, "above 0"), ("without-sample=a", SettingsError, "row numbers"),
])
def test_what_is_no_remedy_is_refused(text, error, says):
    with pytest.raises(error, match=says):
        remedy_from(text)


def tried(remedy, steps=0, spoil=None):
    """Train a layer for a held step and some after it, with a remedy; return what came of it."""
    torch.manual_seed(0)
    model = nn.Linear(3, 2, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), 0.5)
    trial = TorchTrial(remedy_from(remedy), steps)
    trial.begin()
    try:
        for number in range(steps + 1):
            optimizer.zero_grad()
            loss = 100 * model(torch.ones(4, 3)).float().square().mean()
            if number == spoil:
                loss = loss * math.nan
            loss.backward()
            trial.before_update(optimizer, float(loss.detach()))
            optimizer.step()
            found = trial.after_update(optimizer)
            if found is not None:
                return found
    finally:
        torch.set_autocast_enabled("cpu", False)
    raise AssertionError("no end")


def test_a_clipped_update_is_smaller():
    clipped, small = tried("clip=0.01"), tried("lr=1e-6")
    assert clipped.norm == pytest.approx(0.01, rel=1e-3)
    assert small.norm > 1
    assert clipped.finite
    assert clipped.ratio < 0.1
    assert small.ratio < 1e-3


def test_the_steps_after_it_are_made_and_told():
    found = tried("lr=1e-3", steps=3)
    assert (found.finite, found.good_steps, len(found.losses)) == (True, 4, 4)
    assert found.losses == tuple(sorted(found.losses, reverse=True))


@pytest.mark.parametrize(("spoil", "good"), [(0, 0), (2, 2)])
def test_where_it_is_lost_it_ends(spoil, good):
    found = tried("lr=1e-3", steps=5, spoil=spoil)
    assert (found.finite, found.good_steps, len(found.losses)) == (False, good, spoil + 1)


def test_a_block_that_casts_by_itself_casts_to_the_type_that_is_tried(monkeypatch):
    monkeypatch.setattr(torch.autocast, "__enter__", torch.autocast.__enter__)  # what is wrapped is put back
    layer, x = nn.Linear(3, 2), torch.ones(4, 3)
    seen = []
    trial = TorchTrial(remedy_from("dtype=bf16"), 0)
    trial.begin()
    try:
        for enabled in (True, False):
            with torch.autocast("cpu", dtype=torch.float16, enabled=enabled):
                seen.append(layer(x).dtype)
        with trial.backward():
            seen.append(layer(x).dtype)
        seen.append(layer(x).dtype)
    finally:
        torch.set_autocast_enabled("cpu", False)
    assert seen == [torch.bfloat16, torch.float32, torch.float32, torch.bfloat16]


def test_another_type_is_cast_to():
    assert tried("dtype=bf16").losses != tried("dtype=fp32").losses
    assert isinstance(tried("dtype=bf16"), Trial)
