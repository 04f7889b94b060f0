"""A failing step is held, listed and replayed from the command line, with an unchanged script."""

from __future__ import annotations

import json
import shutil
import subprocess
import sysconfig
from typing import Any

import pytest

from barograph.runs.format.metadata import sealed
from forking import TORCH

FORKED = TORCH

SCRIPT = """
import sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(int(sys.argv[1]))
draw = torch.Generator().manual_seed(0)
inputs = torch.randn(512, 8, generator=draw)
labels = inputs[:, :3].argmax(1)
inputs[300, 2] = float(sys.argv[2])
model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
loader = DataLoader(TensorDataset(inputs, labels), batch_size=16, shuffle=True)
for epoch in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
print("to the end")
"""


@pytest.fixture(scope="module")
def held_once(make_desk: Any) -> Any:
    """A run with a held step, and the list of its capsules."""
    desk = make_desk()
    desk.write("train.py", SCRIPT)
    ended = desk.run("--record", "--rules", "none", "train.py", "0", "nan")
    assert ended.code == 79, ended.err
    assert "was withheld. The capsule is in " in ended.err
    assert b"to the end" not in ended.out
    (desk.capsule,) = listed(desk)
    return desk


@pytest.fixture
def held(held_once: Any, desk: Any) -> Any:
    """A copy of that run in a new folder."""
    shutil.copytree(held_once.folder, desk.folder, dirs_exist_ok=True)
    desk.capsule = held_once.capsule
    return desk


def listed(desk: Any) -> list[dict[str, Any]]:
    return json.loads(desk.end(desk.start("barograph", "capsules", "run", "--json")).out)


def replay(desk: Any, *words: Any, samples: str = "--no-samples") -> tuple[int, dict[str, Any], str]:
    ended = desk.end(desk.start("barograph", "replay", "--json", samples, *words))
    # What the script prints comes first.
    return ended.code, json.loads(ended.out[ended.out.index(b"{"):]) if b"{" in ended.out else {}, ended.err


def test_a_replay_is_bit_identical_whatever_the_script_does_first(held: Any) -> None:
    assert held.capsule["held"] == "not finite"
    for words in (["run"], [held.capsule["place"], "train.py", "7", "0.5"]):
        code, result, err = replay(held, *words)
        assert code == 0, err
        assert result["grade"] == "bitwise"
        assert result["notes"] == []


def test_the_operation_and_the_sample_are_named(held: Any) -> None:
    _, result, _ = replay(held, "run", samples="--samples")
    assert result["bad_operation"]["handed_in"] is True
    assert result["bad_operation"]["module"] == "batch[0]"
    assert len(result["bad_operation"]["rows"]) == 1
    assert result["guilty"]["rows"] == result["bad_operation"]["rows"]
    assert result["guilty"]["without_them"] is True
    assert [(item["index"], item["loader"]) for item in result["guilty"]["samples"]] == [("300", "TensorDataset")]


def test_the_failed_operation_becomes_a_script_a_notebook_and_a_debugger_session(held: Any) -> None:
    ended = held.end(held.start("barograph", "replay", "--no-samples", "--pdb", "--to-script", "bug.py", "--notebook",
                                "bug.ipynb", "run", stdin=subprocess.PIPE), b"p x.shape\np len(bad_inputs)\nc\n")
    assert ended.code == 0, ended.err
    assert "(Pdb) torch.Size([16, 8])\n(Pdb) " in ended.text
    assert "-> nn.functional.cross_entropy(model(x), y).backward()" in ended.text
    assert "written  bug.py" in ended.text
    assert held.python("bug.py").text.endswith("finite: False\n")
    cells = json.loads((held.folder / "bug.ipynb").read_text(encoding="utf-8"))["cells"]
    held.write("cells.py", "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"))
    told = held.python("cells.py")
    assert "0.weight" in told.text, told.err


@pytest.mark.parametrize(("options", "says"), [
    (["--pdb", "--json"], "cannot be combined"),
    (["--to-script", "nowhere/bug.py"], "Cannot write nowhere/bug.py"),
    (["--notebook", "."], "Cannot write ."),
])
def test_impossible_options_are_an_error_before_anything_runs(held: Any, options: list[str], says: str) -> None:
    ended = held.end(held.start("barograph", "replay", *options, "run"))
    assert (ended.code, ended.out) == (2, b"")
    assert says in ended.err


def test_remedies_are_tried_on_the_held_step(held: Any) -> None:
    code, result, err = replay(held, "--try", "lr=1e-5", "--try", "without-sample", "--steps", "0", "run")
    assert code == 0, err
    assert [(trial["remedy"], trial["finite"]) for trial in result["trials"]] == [
        ("lr=1e-5", False), ("without-sample", True)]
    assert 0 < result["trials"][1]["ratio"] < 1
    assert replay(held, "--try", "lrr=1", "run")[0] == 2


def test_a_capsule_that_was_copied_is_replayed_without_its_run(held: Any) -> None:
    shutil.move(held.folder / held.capsule["place"], held.folder / "copied")
    shutil.rmtree(held.folder / "run")
    assert replay(held, "copied")[1]["grade"] == "bitwise"


def test_a_second_replay_is_the_same_and_the_capsule_is_unchanged(held: Any) -> None:
    files = {path: path.read_bytes() for path in (held.folder / held.capsule["place"]).iterdir()}
    assert [replay(held, "run")[1]["grade"] for _ in range(2)] == ["bitwise"] * 2
    ended = held.run("--record", "barograph", "replay", "--json", "--no-samples", "run", to="again")
    assert ended.code == 0, ended.err
    assert json.loads(ended.out[ended.out.index(b"{"):])["grade"] == "bitwise"
    # What is made again is no training: nothing is recorded, and no step held once more.
    assert not (held.folder / "again" / "capsules").exists()
    assert {path: path.read_bytes() for path in files} == files


def test_replay_prints_its_result_as_text(held: Any) -> None:
    ended = held.end(held.start("barograph", "capsules", "run"))
    assert "not finite" in ended.out.decode()
    assert "barograph replay run/capsules/0000-" in ended.out.decode()
    ended = held.end(held.start("barograph", "replay", "--no-samples", "run"))
    assert "first bad  the input of batch[0] is already not finite: float32 [16, 8]" in ended.out.decode()
    assert "bitwise    The loss and every gradient are bit-identical." in ended.out.decode()


def test_another_model_is_an_error_and_stays_unchanged(held: Any) -> None:
    held.write("train.py", SCRIPT.replace("nn.Linear(8, 16)", "nn.Linear(8, 32)").replace("16)", "32)").replace(
        "nn.Linear(16, 3)", "nn.Linear(32, 3)"))
    code, _, err = replay(held, "run")
    assert code == 2
    assert "The script's model Sequential differs from the capsule's: 0.weight is (32, 8), and was (16, 8)" in err


def test_a_changed_script_is_named(held: Any) -> None:
    held.write("train.py", SCRIPT + "# more\n")
    assert replay(held, "run")[1]["changed"] == ["train.py"]


@pytest.mark.parametrize(("words", "says"), [
    (["nowhere"], "No capsule"),
    (["run", "other.py"], "No script at other.py."),
    (["run", "python", "-c", "pass"], "The script exited with code 0 before its training started a step."),
])
def test_an_impossible_replay_says_why(held: Any, words: list[str], says: str) -> None:
    code, _, err = replay(held, *words)
    assert code == 2
    assert says in err


def resealed(held: Any, change: Any) -> None:
    file = held.folder / held.capsule["place"] / "capsule.json"
    metadata_file = json.loads(file.read_text())
    del metadata_file["sha256"]
    change(metadata_file["content"])
    file.write_bytes(sealed(metadata_file))


@pytest.mark.parametrize("program", ["/bin/sh", sysconfig.get_path("stdlib") + "/timeit.py", ".venv/run.py"])
def test_a_capsule_starts_only_a_script_in_the_current_folder(held: Any, program: str) -> None:
    held.write(".venv/run.py", "open('ran', 'w')")
    arguments = ["-c", "touch ran"] if program == "/bin/sh" else ["open('ran', 'w')"]
    resealed(held, lambda content: content["script"].update(argv=[program, *arguments]))
    code, _, err = replay(held, "run")
    assert (code, (held.folder / "ran").exists()) == (2, False), err
    assert "which is not a Python file in this directory" in err


@pytest.mark.parametrize(("change", "says"), [
    (lambda content: content.pop("machine"), "does not record its command and machine"),
    (lambda content: content.update(models=[]), "could not be restored: AttributeError"),
    (lambda content: content["seen"].update(losses=["none"]), "could not be restored: ValueError"),
    (lambda content: content.update(batches=[{"map": 3}]), "Unexpected entry"),
    (lambda content: content["settings"].update(threads="all"), "could not be restored: ValueError"),
], ids=["machine", "models", "losses", "batches", "threads"])
def test_a_capsule_with_forbidden_content_is_rejected_in_one_sentence(held: Any, change: Any, says: str) -> None:
    resealed(held, change)
    code, _, err = replay(held, "run")
    assert code == 2
    assert says in err
    assert "Traceback" not in err


PICKLED = """
import torch
from torch.utils.data import DataLoader

class Batch:
    def __init__(self, x):
        self.x = x

torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for batch in DataLoader([[float(n)] * 4 for n in range(-3, 3)], collate_fn=lambda rows: Batch(torch.tensor(rows))):
    optimizer.zero_grad()
    torch.sqrt(model(batch.x)).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("kept", "words", "says"), [
    ("false", ["--open-pickle"], "they were not stored: record with --set recorder.pickle=true"),
    ("true", [], "if you trust the capsule, add --open-pickle"),
    ("true", ["--open-pickle"], ""),
])
def test_pickled_objects_are_opened_if_the_user_allows_it(
    desk: Any, kept: str, words: list[str], says: str
) -> None:
    desk.write("train.py", PICKLED)
    ended = desk.run("--record", "--set", f"recorder.pickle={kept}", "--rules", "none", "train.py")
    assert ended.code == 79, ended.err
    code, result, err = replay(desk, *words, "run")
    assert says in err
    assert "Traceback" not in err
    assert (code, result.get("grade")) == ((2, None) if says else (0, "bitwise")), err


def test_a_step_held_by_the_users_function_is_replayed(desk: Any) -> None:
    desk.write("train.py", SCRIPT)
    desk.write("checks.py", "def seventh(update):\n    return update.step == 7 and f'a norm of {update.norm:.3g}, say'")
    ended = desk.run("--set", "recorder.when=checks:seventh", "--rules", "none", "train.py", "0", "0.5")
    assert ended.code == 79, ended.err
    assert listed(desk)[0]["held"] == "own"
    assert "say. The update of step 7 was withheld." in ended.err
    code, result, err = replay(desk, "run")
    assert (code, result["grade"], result["finite"]) == (0, "bitwise", True), err
    shutil.rmtree(desk.folder / "run" / "capsules")
    told = desk.end(desk.start("barograph", "capsules", "run")).out
    assert b"No capsules in this run" in told
    assert b"Run ended: " in told
    assert b"The update of step 7 was withheld" in told


def test_a_healthy_training_finishes_and_holds_no_step(desk: Any) -> None:
    desk.write("train.py", SCRIPT)
    ended = desk.run("--record", "--rules", "none", "train.py", "0", "0.5")
    assert (ended.code, ended.out) == (0, b"to the end\n")
    listed = desk.end(desk.start("barograph", "capsules", "run"))
    assert b"No capsules in this run. The flight recorder saves them:" in listed.out


COMPILED = """
import torch

def rounding(graph, inputs):
    shift = float(__import__("sys").argv[1])
    return lambda *args: [item * (1 + shift) for item in graph.forward(*args)]

torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
compiled = torch.compile(model, backend=rounding)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for step in range(3):
    optimizer.zero_grad()
    scale = 1e4 if step == 2 else 1.0
    (compiled(torch.randn(8, 4)).square().mean() * scale).backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("shift", "grade"), [("1e-5", "same event"), ("0", "bitwise")])
def test_a_replay_with_other_bits_names_the_compiled_model(desk: Any, shift: str, grade: str) -> None:
    desk.write("train.py", COMPILED)
    (desk.folder / "barograph.toml").write_text("[recorder]\nnorm_above = 1000.0\n", encoding="utf-8")
    assert desk.run("--record", "--rules", "none", "train.py", shift).code == 79
    told = json.loads(desk.end(desk.start("barograph", "replay", "run", "--no-samples", "--json")).out)
    assert told["grade"] == grade
    assert any("The step had used torch.compile" in note for note in told["notes"]) is (grade == "same event")
