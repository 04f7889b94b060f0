"""A notebook is executed in a kernel, and the output of its cells is checked."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

import barograph
from barograph.tracking import list_runs

SETUP = """\
import torch
from torch import nn
%load_ext barograph
"""
MODEL = """\
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
with torch.no_grad():
    model[0].bias.fill_(-100)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
inputs, labels = torch.randn(32, 8), torch.randint(0, 3, (32,))
"""
TRAINING = """\
%%barograph run --experiment digits --to runs/first --budget off --rules frozen-parameter --no-origin --as run
for step in range(80):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
run.log({"accuracy": 0.5})
"""
CUT = """\
%%barograph run --to runs/cut --budget off --rules none --no-origin
for step in range(5):
    optimizer.zero_grad()
    nn.functional.cross_entropy(model(inputs), labels).backward()
    optimizer.step()
raise KeyboardInterrupt
"""
SHOWN = """\
from barograph.tracking import load_run
with load_run("first", root="runs") as run:
    matrix = run.log_confusion_matrix(labels, model(inputs).argmax(1))
matrix
"""
WATCHED = """\
import barograph
from barograph.notebook import watch
watch("runs/first", "loss").wait(60)
"""
ASKED = """\
barograph.open("runs/first")
"""


class Notebook:
    """An executed notebook in its folder."""

    def __init__(self, folder: Path, sources: list[str]) -> None:
        import nbformat
        from nbclient import NotebookClient

        self.folder = folder
        book = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, sources)))
        NotebookClient(book, timeout=600, allow_errors=True, resources={"metadata": {"path": str(folder)}}).execute()
        self.cells: list[Any] = book.cells

    def html(self, at: int) -> str:
        """Return the HTML output of a cell, without its style."""
        pages = [output.data.get("text/html", "") for output in self.cells[at].outputs if "data" in output]
        return re.sub(r"<style>.*?</style>", "", "".join(pages), flags=re.DOTALL)

    def text(self, at: int) -> str:
        """Return the printed output of a cell."""
        return "".join(output.text for output in self.cells[at].outputs if output.output_type == "stream")

    def error(self, at: int) -> str:
        """Return the error of a cell; "" if it raised none."""
        return "".join(output.ename for output in self.cells[at].outputs if output.output_type == "error")


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Notebook:
    pytest.importorskip("nbclient", reason="nbclient is not installed here")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed here")
    folder = tmp_path_factory.mktemp("notebook")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("BAROGRAPH")]:
            patch.delenv(name)
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("IPYTHONDIR", str(folder / "ipython"))
        patch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
        return Notebook(folder, [
            SETUP, MODEL, TRAINING, "%barograph runs runs", CUT, SHOWN, WATCHED, ASKED, "%barograph show runs/none",
        ])


def test_a_cell_that_trains_shows_its_losses_and_findings(notebook: Notebook) -> None:
    html = notebook.html(2)
    assert notebook.error(2) == ""
    assert "finished" in html
    assert "loss:total" in html
    assert "<svg" in html
    assert "W104 frozen-parameter" in html
    assert "<b>Fix: </b>" in html
    [finding] = barograph.open(notebook.folder / "runs/first").findings
    assert finding.code == "W104"


def test_the_run_is_one_like_any_other(notebook: Notebook) -> None:
    assert len(barograph.open(notebook.folder / "runs/first").series("loss:total")) == 80
    [run] = list_runs("experiment = 'digits'", root=notebook.folder / "runs")
    assert run.metrics["accuracy"].last == 0.5
    assert "first" in notebook.text(3)


def test_an_interrupted_cell_is_a_failed_run_and_the_next_cell_runs(notebook: Notebook) -> None:
    assert notebook.error(4) == "KeyboardInterrupt"
    assert "failed" in notebook.html(4)
    assert len(barograph.open(notebook.folder / "runs/cut").series("loss:total")) == 5


def test_logged_objects_are_rendered(notebook: Notebook) -> None:
    assert "targets in rows, predictions in columns" in notebook.html(5)


def test_a_watched_run_is_rendered(notebook: Notebook) -> None:
    assert "loss:total" in notebook.html(6)
    assert "W104 frozen-parameter" in notebook.html(7)
    assert "confusion matrix" in notebook.html(7)


def test_a_wrong_place_fails_its_cell_in_one_sentence(notebook: Notebook) -> None:
    assert notebook.text(8).strip().startswith("UsageError: No run at runs/none: no such directory.")
