"""A sampled histogram looks at an eighth of the elements, and at no pattern of the tensor more than at another."""

from __future__ import annotations

import numpy as np
import pytest

from barograph.measures.sampling import RUN, SAMPLED_FROM, STRIDE, sampled_indices


@pytest.mark.parametrize("numel", [0, 1, 7, SAMPLED_FROM - 1])
def test_a_small_tensor_is_looked_at_whole(numel):
    assert sampled_indices(numel).tolist() == list(range(numel))


@pytest.mark.parametrize("numel", [SAMPLED_FROM, SAMPLED_FROM + 1, 100_003])
def test_each_eight_neighbours_give_one(numel):
    indices = sampled_indices(numel)
    whole_groups = np.bincount(indices // STRIDE)[: numel // STRIDE]
    assert whole_groups.tolist() == [1] * (numel // STRIDE)
    assert indices.max() < numel
    assert (np.diff(indices) > 0).all()


def test_a_longer_tensor_is_sampled_as_a_shorter_one_and_then_on():
    assert sampled_indices(10_000).tolist() == [index for index in sampled_indices(50_000).tolist() if index < 10_000]


@pytest.mark.parametrize("width", [8, 16, 48, 64, 100, 256, 768, 1000, 1024, 4096, 39_040])
def test_every_column_of_a_matrix_gets_its_eighth(width):
    rows = 4096
    looked_at = np.bincount(sampled_indices(rows * width) % width, minlength=width) / rows
    draws = rows if width >= RUN else rows * width / RUN
    assert np.abs(looked_at - 1 / STRIDE).max() < 6 * np.sqrt(1 / STRIDE * (1 - 1 / STRIDE) / draws)


def test_a_column_that_alone_is_large_is_seen_in_its_share():
    matrix = np.zeros((2048, 512))
    matrix[:, 200] = 1
    assert matrix.reshape(-1)[sampled_indices(matrix.size)].mean() == pytest.approx(1 / 512, rel=0.25)


def test_the_places_are_as_written_down():
    first = [(1 * 0x85EBCA6B) % 2**32]
    first.append(((first[0] ^ (first[0] >> 15)) * 0xC2B2AE35) % 2**32 >> 29)
    assert sampled_indices(SAMPLED_FROM)[0] == first[-1]
