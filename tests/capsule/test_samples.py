"""Parts of a batch."""

from __future__ import annotations

import math

import numpy as np
import torch

from barograph.capsule.torch_samples import bad_rows, part_of, rows_of


def test_whatever_has_a_row_for_each_sample_is_cut():
    batch = (torch.arange(6).reshape(3, 2), {"y": np.arange(3), "names": ["a", "b", "c"], "scale": torch.tensor(2.0)},
             torch.zeros(5, 3))
    x, more, other = part_of(batch, 3, [2, 0])
    assert x.tolist() == [[4, 5], [0, 1]]
    assert more["y"].tolist() == [2, 0]
    assert more["names"] == ["c", "a"]
    assert more["scale"] == 2.0
    assert other.shape == (5, 3)
    assert rows_of(batch) == 3


def test_a_sample_may_be_kept_twice():
    assert part_of([torch.tensor([1.0, 2.0])], 2, [1, 1])[0].tolist() == [2.0, 2.0]


def test_the_rows_of_what_is_not_finite_are_told():
    tensor = torch.ones(4, 3)
    tensor[1, 2], tensor[3, 0] = math.nan, math.inf
    assert bad_rows(tensor, 4) == (1, 3)
    assert bad_rows(tensor, 3) == ()
    assert bad_rows(torch.tensor(math.nan), 4) == ()
    assert rows_of(["no tensor"]) == 0
