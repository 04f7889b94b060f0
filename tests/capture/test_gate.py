"""What is fit for an update."""

from __future__ import annotations

import math

import pytest
import torch

from barograph.capture.torch.gate import Gate
from barograph.capture.torch.norms import norms_of
from barograph.capture.torch.optimizer_entry import Slot
from barograph.errors import SettingsError
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


def roots(*losses: float) -> list[torch.Tensor]:
    return [torch.tensor(loss, dtype=torch.float64) for loss in losses]


def looks(*gradients: torch.Tensor | None, losses: tuple[float, ...] = (), **settings: float):
    return Gate(RecorderSettings(**settings)).looks(slots(*gradients), roots(*losses))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.complex64])
def test_one_bad_element_is_enough_and_its_parameter_is_named(bad, dtype):
    gradient = torch.ones(50, 40, dtype=dtype)
    gradient[31, 7] = bad
    verdict = looks(torch.ones(3), gradient, None)
    assert (verdict.held, verdict.text) == (Held.NOT_FINITE, "The gradient of p1 is not finite.")
    assert verdict.numbers["parameters"] == 1


@pytest.mark.parametrize("change", [
    lambda g: g.t(), lambda g: g[:, ::2], lambda g: g[:1].expand(50, 40), lambda g: torch.empty(0),
    lambda g: g.reshape(2, 5, 10, 20).contiguous(memory_format=torch.channels_last),
    lambda g: g.to(torch.float8_e5m2), lambda g: torch.complex(g, g).conj(), lambda g: torch._neg_view(g),
])
@pytest.mark.parametrize("measures", [False, True])
def test_however_it_lies_it_is_looked_at_with_and_without_a_norm(change, measures, monkeypatch):
    settings = {"norm_above": 1e30} if measures else {}
    good = torch.ones(50, 40)
    bad = good.clone()
    bad[0, :] = math.nan
    if not measures:
        monkeypatch.setattr("barograph.capture.torch.gate.stacked_norms", None)
    assert looks(change(good), **settings) is None
    monkeypatch.undo()
    assert (looks(change(bad), **settings) is None) == (change(bad).numel() == 0)


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


@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 2)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_a_loss_of_any_kind_and_shape_is_looked_at(shape, dtype):
    good, bad = torch.ones(shape, dtype=dtype), torch.ones(shape, dtype=dtype)
    bad.view(-1)[-1] = math.nan
    gate = Gate(RecorderSettings())
    assert gate.looks(slots(torch.ones(2)), [good, good]) is None
    for losses in ([bad], [good, bad], [bad, good]):
        assert gate.looks(slots(torch.ones(2)), losses).text == "The loss is nan, and the gradients are finite."


def test_a_norm_beyond_the_bound_is_held():
    verdict = looks(torch.full((4,), 3.0), torch.full((4,), 4.0), losses=(0.5,), norm_above=9.9)
    assert verdict.held is Held.NORM
    assert verdict.text == "The norm of all gradients is 10, above the bound 9.9."
    assert verdict.numbers == {"norm": 10.0, "loss": 0.5, "bound": 9.9}
    assert looks(torch.full((4,), 3.0), norm_above=6.1) is None


def test_norms_stand_in_the_order_of_their_gradients():
    assert norms_of([torch.full((4,), 2.0), torch.zeros(0), torch.tensor([3.0])]) == [4.0, 0.0, 3.0]


def test_a_loss_beyond_its_level_is_held_and_does_not_move_the_level():
    gate, ones = Gate(RecorderSettings(loss_above=5.0)), slots(torch.ones(2))
    usual = [1.0 + 0.1 * (-1) ** number for number in range(30)]
    assert [gate.looks(ones, roots(loss)) for loss in usual] == [None] * 30
    for _ in range(40):
        verdict = gate.looks(ones, roots(0.8, 0.9))
        assert verdict.held is Held.LOSS
        assert verdict.numbers["loss"] == pytest.approx(1.7)
        assert 1.4 < verdict.numbers["bound"] < 1.7
    assert verdict.text.startswith("The loss is 1.7, more than 5 spreads above its level (1.")
    assert gate.looks(ones, roots(1.1)) is None
    assert gate.looks(ones, roots(50.0), optimizer="other") is None


def test_the_first_twenty_losses_have_no_level():
    gate, ones = Gate(RecorderSettings(loss_above=1.0)), slots(torch.ones(2))
    assert [gate.looks(ones, roots(loss)) for loss in [*[1.0] * 19, 1e9]] == [None] * 20


def test_a_function_of_the_users_holds_a_step():
    seen = []

    def steep(update):
        seen.append(update)
        return update.norms["p1"] > 7 and "p1 is steep."

    assert looks(torch.full((4,), 3.0), torch.full((4,), 3.0), losses=(0.5,), when=steep) is None
    verdict = looks(torch.full((4,), 3.0), torch.full((4,), 4.0), when=steep)
    assert (verdict.held, verdict.text) == (Held.OWN, "p1 is steep.")
    assert (seen[0].losses, seen[1].norm, seen[0].norms) == ((0.5,), 10.0, {"p0": 6.0, "p1": 6.0})
    assert looks(torch.ones(2), when=lambda update: True).text.endswith("<lambda> held the step.")
    assert len(seen) == 2


def test_a_function_is_found_where_the_settings_say(tmp_path, monkeypatch):
    (tmp_path / "own_checks.py").write_text("class Steps:\n    @staticmethod\n    def first(update):\n"
                                            "        return update.step == 0\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    gate = Gate(RecorderSettings(when="own_checks:Steps.first"))
    assert gate.looks(slots(torch.ones(2)), ()).text == "The function own_checks:Steps.first held the step."
    assert gate.looks(slots(torch.ones(2)), (), step=1) is None


@pytest.mark.parametrize(("place", "message"), [
    ("no_such_module:check", "cannot be imported: No module named 'no_such_module'"),
    ("math:no_such_check", "cannot be imported: module 'math' has no attribute 'no_such_check'"),
    ("math:pi", "is not a function"),
    ("own_broken:check", "but importing its module failed: ZeroDivisionError: division by zero"),
])
def test_a_function_that_is_not_there_is_named(place, message, tmp_path, monkeypatch):
    (tmp_path / "own_broken.py").write_text("1 / 0", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(SettingsError, match=message):
        looks(torch.ones(2), when=place)


def test_a_norm_beyond_the_bound_is_held_also_where_the_users_function_fails():
    def broken(update):
        raise RuntimeError("mine")

    assert looks(torch.full((4,), 3.0), norm_above=1.0, when=broken).held is Held.NORM
    with pytest.raises(RuntimeError, match="mine"):
        looks(torch.full((4,), 3.0), norm_above=100.0, when=broken)
