"""The reduction with torch's own operations, which serves every device: run here on the CPU's."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from barograph.capture.buffer import StepBuffer
from barograph.capture.torch_device import fetch_later, fetch_number_later, reduce_exponents, reduce_moments
from barograph.measures.summary import row_from_summary, summarize
from barograph.model.selection import Histogram

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


def test_a_sampled_histogram_takes_one_element_in_eight():
    bins = reduce_exponents(torch.ones(6400), Histogram.SAMPLED)
    assert bins.sum().item() == 800


def test_a_sample_of_a_matrix_with_one_odd_column_of_eight_is_not_blind_to_it():
    matrix = torch.ones(1000, 8)
    matrix[:, 3] = 4.0
    bins = reduce_exponents(matrix, Histogram.SAMPLED)
    assert (bins[127].item(), bins[129].item()) == (875, 125)


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
