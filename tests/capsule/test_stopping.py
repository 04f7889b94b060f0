"""At one operation something is done: the debugger opens, or it is written down."""

from __future__ import annotations

import io
import math
import sys

import pytest
import torch

from barograph.capsule.order import DEBUGGER, NOTEBOOK, SCRIPT, StopAt
from barograph.capsule.torch.blame import Blame
from barograph.capsule.torch.stopping import Stopping, smallest_part


def blamed(function, stop=None):
    watching = Blame(lambda: "", lambda _: "", lambda _: "", stopping=None if stop is None else Stopping(stop))
    with torch.autograd.set_detect_anomaly(True, check_nan=False), watching:
        function()
    return watching.verdict()


def written(function, tmp_path, what=SCRIPT):
    """Find what is to blame, write it down, and return the text."""
    file = tmp_path / "bug.py"
    blamed(function, StopAt(blamed(function).number, what, str(file), ("Found.",), "capsule", "tensors"))
    return file.read_text(encoding="utf-8")


def outcome(text, capsys, monkeypatch, folder):
    monkeypatch.chdir(folder)
    exec(compile(text, "bug.py", "exec"), {"__file__": str(folder / "bug.py")})
    return capsys.readouterr().out


def log_of_many():
    torch.log(torch.arange(1000.0).flip(0).reshape(20, 50))


def softmax_of_masked_rows():
    torch.softmax(torch.ones(40, 30).index_fill(0, torch.tensor([7]), -math.inf), 1)


def root_backward():
    values = torch.tensor([4.0, 0.0], requires_grad=True)
    values.sqrt().sum().backward()


def in_place():
    torch.ones(3).div_(torch.tensor([1.0, 0.0, 2.0]))


def complex_numbers():
    torch.log(torch.tensor([complex(0, 0), complex(1, 2)]))


def matrix_product():
    torch.full((30, 30), 1e30) @ torch.full((30, 30), 1e30)


@pytest.mark.parametrize("function", [log_of_many, softmax_of_masked_rows, root_backward, in_place, complex_numbers,
                                      matrix_product])
def test_the_script_shows_what_happened(function, tmp_path, capsys, monkeypatch):
    text = written(function, tmp_path)
    assert outcome(text, capsys, monkeypatch, tmp_path).endswith("finite: False\n")


def test_a_part_of_the_inputs_is_enough_where_it_shows_the_same(tmp_path):
    assert "x0 = torch.tensor([0.0], dtype=torch.float32).reshape(1, 1)" in written(log_of_many, tmp_path)
    args, _ = smallest_part(torch.ops.aten.div.Tensor, (torch.ones(5), torch.tensor(0.0)), {})
    assert [tuple(item.shape) for item in args] == [(1,), ()]


def test_all_inputs_stay_where_no_part_shows_it():
    assert smallest_part(torch.ops.aten.mm.default, (torch.full((1, 4), 1e30), torch.full((4, 1), 1e30)), {}) is None
    assert smallest_part(torch.ops.aten.log.default, (torch.ones(3),), {}) is None


def test_a_notebook_is_written_likewise(tmp_path):
    assert '"nbformat": 4' in written(log_of_many, tmp_path, NOTEBOOK)


def test_the_debugger_opens_in_the_users_line_with_the_tensors_at_hand(monkeypatch, capsys):
    typed = "p mine\np [tuple(item.shape) for item in bad_inputs]\nup\np bad_outputs[0].isinf().sum().item()\nc\n"

    def step():
        mine = "of the user"
        return torch.log(torch.zeros(2, 3)) if mine else None

    number = blamed(step).number
    # pytest's own frames count as the user's here, as do those of this file.
    monkeypatch.setattr(sys, "stdin", io.StringIO(typed))
    blamed(step, StopAt(number, DEBUGGER))
    out = capsys.readouterr().out
    assert "aten.log.default: its inputs are bad_inputs" in out
    assert "-> return torch.log(torch.zeros(2, 3))" in out
    assert "'of the user'" in out
    assert "[(2, 3)]" in out
    assert "(Pdb) 6\n" in out
    with pytest.raises(NameError):
        bad_inputs  # noqa: B018, F821 - they are gone with the debugger
