"""One operation as a program of its own."""

from __future__ import annotations

import json
import sys

import pytest
import torch
from safetensors.torch import save_file

from barograph.capsule.standalone import OperationText, TensorText, notebook_of, script_of

SMALL = OperationText("torch.ops.aten.log.default(x0)", (TensorText("x0", "float32", (2,), ("0.0", "2.0")),),
                      ('Found in C:\\new\\train.py, """here""".',))
LARGE = OperationText("torch.ops.aten.log.default(x0)", (TensorText("x0", "float32", (64,)),), ("Found.",), parts=True)


def test_a_script_runs_by_itself_and_says_whether_the_result_is_finite(capsys):
    exec(compile(script_of(SMALL, ""), "bug.py", "exec"), {})
    assert capsys.readouterr().out == "x0: tensor([0., 2.])\nresult: tensor([  -inf, 0.6931])\nfinite: False\n"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool, torch.complex64])
def test_large_tensors_are_read_from_the_file_beside_it_by_torch_alone(tmp_path, monkeypatch, dtype):
    wanted = (torch.arange(64.0) - 3).to(dtype).reshape(4, 16)
    save_file({"other": torch.zeros(3), "x0": wanted}, tmp_path / "bug.safetensors")
    name = str(dtype).removeprefix("torch.")
    large = OperationText("torch.ops.aten.neg.default(x0)" if dtype is not torch.bool else "x0.logical_not()",
                          (TensorText("x0", name, (4, 16)),), ("Found.",), parts=True)
    text = script_of(large, "bug.safetensors")
    assert "It is called with the smallest part of its inputs" in text
    for module in ("safetensors", "safetensors.torch"):
        monkeypatch.setitem(sys.modules, module, None)
    run = {"__file__": str(tmp_path / "bug.py")}
    exec(compile(text, "bug.py", "exec"), run)
    assert run["x0"].dtype is dtype
    assert torch.equal(run["x0"], wanted)
    assert "frombuffer" not in script_of(SMALL, "bug.safetensors")


@pytest.mark.parametrize(("shape", "ends"), [((), ".reshape(())"), ((2,), "float32)"), ((2, 1), ".reshape(2, 1)")])
def test_a_tensor_has_its_shape(shape, ends):
    assert TensorText("x0", "float32", shape, ("1.0",)).line.endswith(ends)


def test_a_notebook_has_cells_as_its_format_asks_for():
    data = json.loads(notebook_of(LARGE, "bug.safetensors", "run/capsules/one", "tensors.1.safetensors"))
    assert (data["nbformat"], data["nbformat_minor"]) == (4, 5)
    assert [cell["cell_type"] for cell in data["cells"]] == ["markdown", "markdown", "code", "markdown", "code"]
    assert len({cell["id"] for cell in data["cells"]}) == 5
    for cell in data["cells"]:
        assert ("outputs" in cell) is (cell["cell_type"] == "code")
        compile("".join(cell["source"]), "cell", "exec") if cell["cell_type"] == "code" else None
