"""The reduction with torch's own operations, which serves every device: run here on the CPU's."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from barograph.capture.buffer import StepBuffer
from barograph.capture.torch import parameters as torch_parameters
from barograph.capture.torch import read as torch_read
from barograph.capture.torch.device import (
    fetch_later,
    fetch_number_later,
    fetch_units_later,
    reduce_exponents,
    reduce_moments,
)
from barograph.capture.torch.read import Reader
from barograph.measures import native, plain
from barograph.measures.sampling import SAMPLED_FROM
from barograph.measures.summary import row_from_summary, summarize
from barograph.model.selection import Histogram
from barograph.model.summary import UNIT_FIELDS

EDGES = torch.tensor([0.0, -0.0, 1.0, -2.5, 1e-42, -3e38, float("nan"), float("inf"), -float("inf"), 65504.0])


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool]
)
def test_agrees_with_the_plain_reference(dtype):
    torch.manual_seed(0)
    values = torch.cat([EDGES, torch.randn(500)])
    if not dtype.is_floating_point:
        values = values.nan_to_num(0, 3, -3).clamp(-5, 5)
    tensor = values.to(dtype)
    array = tensor.to(torch.float64).numpy() if dtype is torch.bfloat16 else tensor.numpy()
    expected = summarize(array, histogram=Histogram.EXACT)
    assert reduce_moments(tensor).numpy() == pytest.approx(row_from_summary(expected)[0], rel=1e-9)
    bins = reduce_exponents(tensor, Histogram.EXACT).numpy()
    assert {int(field): int(bins[field]) for field in np.flatnonzero(bins)} == dict(expected.exponents)


def test_an_empty_tensor_merges_nothing():
    row = reduce_moments(torch.zeros(0))
    assert row.tolist() == [0, 0, 0, 0, 0, float("inf"), -float("inf"), 0, 0, 0]


@pytest.mark.parametrize("numel", [0, 5, SAMPLED_FROM - 1, SAMPLED_FROM, SAMPLED_FROM + 1, 100_003])
def test_a_sampled_histogram_counts_the_same_elements_as_everywhere(numel):
    torch.manual_seed(0)
    values = torch.randn(numel) * 10
    expected = summarize(values.numpy(), histogram=Histogram.SAMPLED)
    bins = reduce_exponents(values, Histogram.SAMPLED).numpy()
    assert {int(field): int(bins[field]) for field in np.flatnonzero(bins)} == dict(expected.exponents)


def test_what_is_fetched_later_merges_into_the_buffer():
    buffer = StepBuffer()
    tensors = [torch.tensor([1.0, 2.0]), torch.tensor([4.0])]
    merge_in = fetch_later(tensors, [2, 5], [Histogram.NONE, Histogram.EXACT])
    tensors[0].zero_()
    merge_in(buffer)
    assert buffer.moments[2, :1].tolist() == [2]
    assert buffer.moments[2, 7] == 3.0
    assert buffer.exponents is not None
    assert buffer.exponents[5, 129] == 1
    assert buffer.exponents[2].sum() == 0


def test_a_number_is_handed_over_later():
    got = []
    fetch_number_later(torch.tensor(2.5), got.append)(StepBuffer())
    assert got == [2.5]


@pytest.mark.parametrize("bound", [1.0, float("nan")])
def test_units_agree_with_the_plain_reference(bound):
    torch.manual_seed(0)
    values = torch.randn(6, 5, 4)
    values[0, 1], values[2, 3, 0], values[1, 0, 0] = 0.0, float("nan"), -float("inf")
    values[:, 4] = float("nan")
    buffer, expected = StepBuffer(), np.zeros((5, len(UNIT_FIELDS)))
    expected[:, 3], expected[:, 4] = np.inf, -np.inf
    plain.units_into(values.data_ptr(), 6, 5, 4, native.DTYPE_CODES["float32"], bound, expected)
    fetch_units_later(values[:2], 0, bound)(buffer)
    fetch_units_later(values[2:], 0, bound)(buffer)
    columns = buffer.unit_columns(0, 5, 0, bound)
    assert columns == pytest.approx(expected, rel=1e-9)


class Away:
    """Hands on what is asked of a tensor in memory, and says that it lies on a device."""

    device = torch.device("xpu")

    def __init__(self, tensor):
        self.tensor = tensor

    def __getattr__(self, name):
        found = getattr(self.tensor, name)
        return (lambda *args, **kwargs: self._wrapped(found(*args, **kwargs))) if callable(found) else found

    def _wrapped(self, value):
        return Away(value) if isinstance(value, torch.Tensor) else value


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_the_units_of_a_tensor_on_a_device_are_read_later_and_are_the_same(memory_format, monkeypatch):
    torch.manual_seed(0)
    values = torch.randn(3, 5, 4, 2).contiguous(memory_format=memory_format)
    here, there = StepBuffer(), StepBuffer()
    Reader().read_units(values, 0, 1, 0.5, here)
    monkeypatch.setattr(torch_read, "local", Away)
    later = torch_read.fetch_units_later
    monkeypatch.setattr(torch_read, "fetch_units_later", lambda away, row, bound: later(away.tensor, row, bound))
    Reader().read_units(values, 0, 1, 0.5, there)
    assert len(there.deferred) == 1
    values.zero_()
    there.deferred[0](there)
    assert there.unit_columns(0, 5, 0, 0.5) == pytest.approx(here.unit_columns(0, 5, 0, 0.5), rel=1e-6)


def test_a_learning_rate_on_a_device_is_told_later(record, monkeypatch):
    tape = record()
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), torch.tensor(0.25))
    monkeypatch.setattr(torch_parameters, "_is_on_device", lambda rate: True)
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()
    assert tape.scalar("learning_rate:group0") == 0.25
