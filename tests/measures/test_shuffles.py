"""What torch's samplers draw, computed without torch: the twin is torch itself."""

from __future__ import annotations

import pytest
import torch
from torch.utils.data.distributed import DistributedSampler

from barograph.measures.shuffles import (
    Counting,
    Dealt,
    Draws,
    Permutation,
    state_of_torch,
    twister_from_seed,
    twister_from_state,
)

SEEDS = [0, 1, 2**32, -5, 2**40 + 3]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("size", [1, 2, 700, 5000])
def test_a_permutation_is_torchs(seed, size):
    drawn = torch.randperm(size, generator=torch.Generator().manual_seed(seed))
    assert Permutation(twister_from_seed(seed), size).part(0, size).tolist() == drawn.tolist()


def test_a_permutation_is_known_part_by_part_in_any_order():
    drawn = torch.randperm(10_000, generator=torch.Generator().manual_seed(7)).tolist()
    order = Permutation(twister_from_seed(7), 10_000)
    assert order.part(5000, 5003).tolist() == drawn[5000:5003]
    assert order.part(0, 2).tolist() == drawn[:2]
    assert order.part(9998, 10_050).tolist() == drawn[9998:]
    assert order.part(10_000, 10_001).tolist() == []


@pytest.mark.parametrize("draws_before", [0, 1, 623, 624, 1000])
def test_a_generator_goes_on_from_any_state(draws_before):
    generator = torch.Generator().manual_seed(3)
    torch.randint(10, (draws_before,), generator=generator)
    state = state_of_torch(generator.get_state().numpy().tobytes())
    drawn = torch.randperm(900, generator=generator)
    assert Permutation(twister_from_state(state), 900).part(0, 900).tolist() == drawn.tolist()


@pytest.mark.parametrize("size", [2, 1000, 2**20])
def test_draws_with_replacement_are_torchs_thirty_two_at_a_time(size):
    generator = torch.Generator().manual_seed(3)
    drawn = torch.cat([torch.randint(size, (32,), generator=generator) for _ in range(200)]).tolist()
    order = Draws(twister_from_seed(3), size, 6400)
    assert order.part(0, 10).tolist() == drawn[:10]
    assert order.part(6000, 7000).tolist() == drawn[6000:]


@pytest.mark.parametrize("size", [10, 11, 12])
@pytest.mark.parametrize("drop_last", [True, False])
@pytest.mark.parametrize("rank", [0, 2])
def test_what_a_worker_is_dealt_is_torchs(size, drop_last, rank):
    sampler = DistributedSampler(range(size), 3, rank, shuffle=True, seed=4, drop_last=drop_last)
    order = Dealt(Permutation(twister_from_seed(4), size), size, rank=rank, workers=3, drop_last=drop_last)
    assert order.part(0, size).tolist() == list(sampler)
    assert order.part(1, 3).tolist() == list(sampler)[1:3]


def test_counting_ends_with_the_data_set():
    assert Counting(5).part(3, 9).tolist() == [3, 4]
    assert Counting(5).part(7, 9).tolist() == []


@pytest.mark.parametrize("data", [b"", b"0" * 100])
def test_what_is_no_state_is_refused(data):
    with pytest.raises(ValueError, match=r"not (a|the) state"):
        state_of_torch(data)
    with pytest.raises(ValueError, match=r"not (a|the) state"):
        twister_from_state(data)
