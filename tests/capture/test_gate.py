"""What is fit for an update."""

from __future__ import annotations

import math

import pytest
import torch

from barograph.capture.torch_gate import Gate, norms_of
from barograph.capture.torch_optimizers import Slot
from barograph.model.capsule import Held
from barograph.model.recorder import RecorderSettings


def slots(*gradients: torch.Tensor | None) -> list[Slot]:
    found = []
    for number, gradient in enumerate(gradients):
        like = torch.zeros(1) if gradient is None else gradient.to_dense()
        parameter = torch.nn.Parameter(torch.zeros_like(like))
        parameter.grad = gradient
        found.append(Slot(parameter, f"p{number}", ""))
    return found


def looks(*gradients: torch.Tensor | None, losses: tuple[float, ...] = (), **settings: float):
    return Gate(RecorderSettings(**settings)).looks(slots(*gradients), losses)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64])
def test_one_bad_element_is_enough_and_its_parameter_is_named(bad, dtype):
    gradient = torch.ones(50, 40, dtype=dtype)
    gradient[31, 7] = bad
    verdict = looks(torch.ones(3), gradient, None)
    assert (verdict.held, verdict.text) == (Held.NOT_FINITE, "The gradient of p1 is not finite.")
    assert verdict.numbers["parameters"] == 1


def test_of_many_parameters_a_few_are_named():
    verdict = looks(*(torch.tensor([math.nan]) for _ in range(5)))
    assert verdict.text == "The gradient of p0, p1, p2 and 2 more is not finite."


def test_what_is_finite_passes():
    assert looks(torch.ones(3), None, torch.zeros(0), losses=(1.0, 2.0)) is None
    assert looks() is None


def test_squares_beyond_the_range_are_no_infinity():
    assert looks(torch.full((10,), 3e38)) is None
    assert looks(torch.full((1000,), 60000.0, dtype=torch.float16)) is None
    assert looks(torch.full((10,), 3e38), norm_above=1e9).held is Held.NORM


def test_a_sparse_gradient_is_looked_at():
    good = torch.sparse_coo_tensor([[0, 2]], [1.0, 2.0], (5,), check_invariants=True)
    bad = torch.sparse_coo_tensor([[0, 2]], [1.0, math.nan], (5,), check_invariants=True)
    assert looks(good) is None
    assert looks(good, bad).text == "The gradient of p1 is not finite."


def test_a_loss_that_is_not_finite_is_held_though_the_gradients_are():
    assert looks(torch.ones(2), losses=(1.0, math.inf)).text == "The loss is inf, and the gradients are finite."


def test_a_norm_beyond_the_bound_is_held():
    verdict = looks(torch.full((4,), 3.0), torch.full((4,), 4.0), losses=(0.5,), norm_above=9.9)
    assert verdict.held is Held.NORM
    assert verdict.text == "The norm of all gradients is 10, beyond the bound of 9.9."
    assert verdict.numbers == {"norm": 10.0, "loss": 0.5, "bound": 9.9}
    assert looks(torch.full((4,), 3.0), norm_above=6.1) is None


def test_norms_stand_in_the_order_of_their_gradients():
    assert norms_of([torch.full((4,), 2.0), torch.zeros(0), torch.tensor([3.0])]) == [4.0, 0.0, 3.0]
