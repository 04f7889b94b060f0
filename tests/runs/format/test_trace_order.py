"""The order of a pass as a few words."""

from __future__ import annotations

import pytest
import torch

from barograph.model.trace import OrderHint
from barograph.runs.format.trace_order import MOST_SAMPLES, Order, order_from_hint


def samples(hint, count):
    return Order(order_from_hint(hint)).part(0, count).tolist()


def test_a_seed_tells_a_whole_pass():
    drawn = torch.randperm(50, generator=torch.Generator().manual_seed(9)).tolist()
    assert samples(OrderHint("permutation", 50, seed=9), 50) == drawn


def test_a_state_tells_a_pass_of_a_large_data_set():
    generator = torch.Generator().manual_seed(9)
    hint = OrderHint("permutation", 5000, state=generator.get_state().numpy().tobytes())
    assert samples(hint, 5000) == torch.randperm(5000, generator=generator).tolist()


def test_a_state_is_not_worth_it_for_a_small_one():
    state = torch.Generator().get_state().numpy().tobytes()
    assert order_from_hint(OrderHint("permutation", 4095, state=state)) == ""


def test_draws_with_replacement_are_told_with_their_number():
    drawn = torch.randint(50, (32,), generator=torch.Generator().manual_seed(9)).tolist()
    assert samples(OrderHint("draws", 50, seed=9, count=30), 99) == drawn[:30]


def test_what_is_dealt_out_is_told():
    assert samples(OrderHint("range", 6, deal=(1, 2, False)), 9) == [1, 3, 5]


@pytest.mark.parametrize("hint", [
    OrderHint("range", 0), OrderHint("range", MOST_SAMPLES + 1), OrderHint("permutation", 5000, state=b"no state"),
])
def test_what_cannot_be_told_is_not(hint):
    assert order_from_hint(hint) == ""


@pytest.mark.parametrize("text", [
    "{}", '{"drawn":"sideways","size":5,"seed":1}', '{"drawn":"range","size":0}', '{"drawn":"range","size":1e99}',
    '{"drawn":"permutation","size":5}', "no words",
])
def test_an_order_that_says_nothing_known_is_refused(text):
    with pytest.raises(ValueError, match=r"known|not a valid|supported|Expecting"):
        Order(text)
