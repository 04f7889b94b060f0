"""Parts of a batch."""

from __future__ import annotations

import math
from collections import UserDict
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from barograph.capsule.torch.sameness import same
from barograph.capsule.torch.samples import bad_rows, part_of, rows_of


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
    assert bad_rows(tensor, 2) == (0, 1)
    assert bad_rows(torch.zeros(0, 3), 4) == ()
    assert bad_rows(torch.tensor(math.nan), 4) == ()
    assert rows_of(["no tensor"]) == 0


@dataclass(frozen=True)
class Batch:
    series: torch.Tensor
    names: list
    scale: float = 1.0


def test_a_dataclass_is_cut_and_its_own_stays_whole():
    whole = Batch(torch.arange(6).reshape(3, 2), ["a", "b", "c"])
    part = part_of({"batch": whole}, 3, [2])["batch"]
    assert (part.series.tolist(), part.names, part.scale) == ([[4, 5]], ["c"], 1.0)
    assert whole.names == ["a", "b", "c"]
    assert rows_of(whole) == 3


class Graphs:
    """As a library's batch: attributes, one of them an object with slots, and one that leads back to it."""

    def __init__(self, x: torch.Tensor) -> None:
        self.nodes = Nodes(x)
        self.sizes = {"each": np.arange(len(x))}
        self.encoder = torch.nn.Linear(2, 2)
        self.nodes.graphs = self
        self.title = "all"

    def __len__(self) -> int:
        return len(self.nodes.x)


class Nodes:
    __slots__ = ("graphs", "unset", "x")

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x


def test_objects_of_any_class_are_cut_where_they_hold_tensors():
    whole = Graphs(torch.arange(6.0).reshape(3, 2))
    assert rows_of(whole) == 3
    part, labels = part_of((whole, torch.arange(3)), 3, [2, 2])
    assert (part.nodes.x.tolist(), part.sizes["each"].tolist(), labels.tolist()) == ([[4, 5]] * 2, [2, 2], [2, 2])
    assert part.nodes.graphs is part
    assert part.encoder is whole.encoder
    assert (part.title, len(whole), whole.nodes.graphs is whole) == ("all", 3, True)


def test_a_dataclass_without_tensors_is_cut_with_those_beside_it():
    @dataclass
    class Texts:
        words: list

    part, labels = part_of((Texts(["a", "b", "c"]), torch.arange(3)), 3, [2])
    assert (part.words, labels.tolist()) == (["c"], [2])
    assert rows_of(Texts(["a", "b", "c"])) == 0


def test_a_mapping_that_is_no_dict_is_cut():
    whole = UserDict(words=torch.arange(6).reshape(3, 2), names=["a", "b", "c"])
    assert rows_of(whole) == 3
    part = part_of([whole], 3, [1])[0]
    assert (type(part), part["words"].tolist(), part["names"]) == (UserDict, [[2, 3]], ["b"])
    assert whole["names"] == ["a", "b", "c"]


@pytest.mark.parametrize("item", [
    torch.nn.Linear(3, 3), torch.Generator(), torch.distributions.Normal(torch.zeros(3), 1.0), type("Empty", (), {})(),
    Graphs, math, "text", None, 3.5])
def test_what_is_no_batch_is_left_as_it_is(item):
    assert part_of([item, torch.zeros(3)], 3, [0])[0] is item
    assert rows_of(item) == 0


def test_ragged_samples_are_a_list_of_tensors_of_different_lengths():
    clouds = [torch.zeros(2, 2), torch.zeros(0, 2), torch.zeros(5, 2)]
    batch = [tuple(clouds), ("a", "b", "c"), (1.0, 2.0, 3.0)]
    assert rows_of(batch) == 3
    points, names, sizes = part_of(batch, 3, [1, 1])
    assert ([len(item) for item in points], names, sizes) == ([0, 0], ("b", "b"), (2.0, 2.0))
    assert rows_of([torch.zeros(3, 2), torch.zeros(3)]) == 3


def test_what_most_agree_on_is_the_number_of_samples():
    assert rows_of((torch.zeros(57), torch.zeros(10), torch.zeros(10))) == 10


def test_a_ragged_sample_may_be_as_long_as_there_are_samples():
    series = [torch.full((length,), float(length)) for length in (3, 4, 5, 6, 7, 8)]
    assert rows_of(series) == 6
    assert [part.tolist() for part in part_of(series, 6, [0, 0])] == [[3.0] * 3] * 2
    columns = (torch.zeros(3, 2), torch.ones(3), torch.zeros(7))
    assert rows_of(columns) == 3
    assert part_of(columns, 3, [1])[1].tolist() == [1.0]


@pytest.mark.parametrize("layout", [torch.sparse_coo, torch.sparse_csr])
@pytest.mark.filterwarnings("ignore:Sparse CSR")
def test_rows_of_sparse_tensors_are_cut(layout):
    whole = torch.tensor([[0.0, 1.0], [2.0, 0.0], [0.0, 0.0]]).to_sparse(layout=layout)
    part = part_of({"x": whole}, 3, [1, 0, 1])["x"]
    assert (rows_of(whole), part.layout) == (3, layout)
    assert part.to_dense().tolist() == [[2.0, 0.0], [0.0, 1.0], [2.0, 0.0]]


@pytest.mark.parametrize("layout", [torch.strided, torch.jagged])
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_rows_of_nested_tensors_are_cut_and_compared(layout):
    rows = [torch.ones(2), torch.zeros(3)]
    whole = torch.nested.nested_tensor(rows, layout=layout)
    assert rows_of([whole]) == 2
    assert [row.tolist() for row in part_of(whole, 2, [1, 1]).unbind()] == [[0.0] * 3] * 2
    assert same(whole, torch.nested.nested_tensor(rows, layout=layout))
    assert not same(whole, torch.nested.nested_tensor([rows[0], rows[1] + 1], layout=layout))
