"""One operation as a program of its own."""

from __future__ import annotations

import json

import pytest

from barograph.capsule.standalone import OperationText, TensorText, notebook_of, script_of

SMALL = OperationText("torch.ops.aten.log.default(x0)", (TensorText("x0", "float32", (2,), ("0.0", "2.0")),),
                      ('Found in C:\\new\\train.py, """here""".',))
LARGE = OperationText("torch.ops.aten.log.default(x0)", (TensorText("x0", "float32", (64,)),), ("Found.",), parts=True)


def test_a_script_runs_by_itself_and_says_whether_the_result_is_finite(capsys):
    exec(compile(script_of(SMALL, ""), "bug.py", "exec"), {})
    assert capsys.readouterr().out == "x0: tensor([0., 2.])\nresult: tensor([  -inf, 0.6931])\nfinite: False\n"


def test_large_tensors_are_read_from_the_file_beside_it():
    text = script_of(LARGE, "bug.safetensors")
    assert "tensors = load_file('bug.safetensors')\nx0 = tensors[\"x0\"]" in text
    assert "It is called with the part of its inputs" in text
    assert "load_file" not in script_of(SMALL, "bug.safetensors")


@pytest.mark.parametrize(("shape", "ends"), [((), ".reshape(())"), ((2,), "float32)"), ((2, 1), ".reshape(2, 1)")])
def test_a_tensor_has_its_shape(shape, ends):
    assert TensorText("x0", "float32", shape, ("1.0",)).line("").endswith(ends)


def test_a_notebook_has_cells_as_its_format_asks_for():
    data = json.loads(notebook_of(LARGE, "bug.safetensors", "run/capsules/one", "tensors.1.safetensors"))
    assert (data["nbformat"], data["nbformat_minor"]) == (4, 5)
    assert [cell["cell_type"] for cell in data["cells"]] == ["markdown", "markdown", "code", "markdown", "code"]
    assert len({cell["id"] for cell in data["cells"]}) == 5
    for cell in data["cells"]:
        assert ("outputs" in cell) is (cell["cell_type"] == "code")
        compile("".join(cell["source"]), "cell", "exec") if cell["cell_type"] == "code" else None
