"""Tensors whose memory was given back are not read."""

from __future__ import annotations

import torch

from barograph.capture.torch.bad_operation import bad_operations
from barograph.capture.torch.memory import in_memory


def test_what_lies_in_memory_is_returned_whatever_its_form() -> None:
    whole = torch.arange(12.0)
    for tensor in (whole, whole[3:], whole.view(3, 4).T, whole[::5], whole[:1].expand(7), whole[:0], torch.tensor(1.0)):
        part = in_memory(tensor)
        assert part is not None
        assert torch.equal(part, tensor)
    sparse = torch.eye(3).to_sparse()
    assert in_memory(sparse) is not None


def test_a_tensor_whose_memory_was_given_back_is_not_there() -> None:
    freed, cut = torch.ones(8), torch.ones(8)
    views = [freed[2:], cut[4:], cut[:4]]
    freed.untyped_storage().resize_(0)
    cut.untyped_storage().resize_(4 * 4)
    assert in_memory(freed) is None
    assert [in_memory(view) is None for view in views] == [True, True, False]


def test_the_graph_of_freed_weights_is_walked_without_reading_them() -> None:
    weight = torch.ones(3, 3, requires_grad=True)
    inputs = torch.ones(2, 3, requires_grad=True)
    loss = ((inputs - 1.0).log() @ weight).sum()
    weight.untyped_storage().resize_(0)
    assert bad_operations([loss.grad_fn]) == {"log": 1.0}
