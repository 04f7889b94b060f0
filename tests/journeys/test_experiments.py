"""Experiments on the command line: search, compare, mark and delete runs; rebuild the catalog."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from barograph.runs.reading.one_worker import workers_in
from barograph.runs.reading.reader import open as open_run

SCRIPT = """
import sys
import torch

width, seed = int(sys.argv[1]), int(sys.argv[2])
torch.manual_seed(seed)
x = torch.randn(64, 8)
y = x.sum(1, keepdim=True)
model = torch.nn.Sequential(torch.nn.Linear(8, width), torch.nn.ReLU(), torch.nn.Linear(width, 1))
optimizer = torch.optim.Adam(model.parameters(), 0.01)
for step in range(60):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a script that does not import Barograph."""
    (tmp_path / "train.py").write_text(SCRIPT)
    return tmp_path


def barograph(folder: Path, *words: str, code: int = 0) -> str:
    done = subprocess.run([sys.executable, "-m", "barograph", *words], cwd=folder, capture_output=True, text=True,
                          timeout=600, env={**os.environ, "BAROGRAPH_ROOT": ""})
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr * (code != 0)


def test_from_a_hypothesis_to_its_result(folder: Path) -> None:
    barograph(folder, "experiments", "widths", "--create", "--hypothesis", "wide nets learn faster")
    for width, seed in ((2, 0), (64, 0), (64, 1)):
        barograph(folder, "run", "--experiment", "widths", "--trial", f"width {width}", "--tag", f"seed={seed}",
                  "train.py", f"{width}", f"{seed}")
    [listed] = json.loads(barograph(folder, "experiments", "--json"))
    assert (listed["hypothesis"], listed["trials"], listed["components"]) == ("wide nets learn faster", 2, 3)
    best = json.loads(barograph(folder, "search", "experiment = 'widths' order by metrics.loss.last limit 1", "--json"))
    assert [(row["trials"], row["state"], row["metrics.loss.count"]) for row in best] == [("width 64", "finished", 60)]
    judged = json.loads(barograph(folder, "compare", "--by", "trial", "--metric", "loss.last", "--search",
                                  "experiment = 'widths'", "--json"))
    assert judged["verdict"]["outcome"] == "undecided"
    assert [(group["name"], len(group["values"])) for group in judged["groups"]] == [("width 64", 2), ("width 2", 1)]

    run = best[0]["place"]
    barograph(folder, "mark", run, "--note", "the **best**", "--star", "--tag", "keep=yes")
    for file in (folder / "barograph-runs" / ".catalog").glob("catalog.sqlite*"):
        file.unlink()
    assert json.loads(barograph(folder, "reindex", "--json"))["runs"] == 3
    known = json.loads(barograph(folder, "mark", run, "--json"))
    assert ([note["text"] for note in known["notes"]], known["starred"], known["tags"]["keep"]) == (
        ["the **best**"], True, "yes")

    assert "cannot be deleted" in barograph(folder, "mark", "widths", "--delete", code=2)
    barograph(folder, "mark", run, "--delete")
    assert len(json.loads(barograph(folder, "search", "--json"))) == 2
    barograph(folder, "mark", run, "--restore")
    assert len(json.loads(barograph(folder, "search", "--json"))) == 3
    assert (Path(run) / "run.json").is_file()

    wrong = barograph(folder, "search", "metrics.loss.last < < 1", code=2)
    assert wrong.splitlines()[-1].index("^") == wrong.splitlines()[-2].index("< 1")
    shutil.rmtree(run)
    assert [row["state"] for row in json.loads(barograph(folder, "search", "tags.keep = 'yes'", "--json"))] == ["gone"]


def test_a_script_that_loads_its_run_is_one_worker(folder: Path) -> None:
    (folder / "logs.py").write_text("""
import torch
from barograph.tracking import load_run
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for step in range(5):
    optimizer.zero_grad()
    model(torch.ones(8, 4)).square().mean().backward()
    optimizer.step()
    load_run().log_metric("acc", step / 10)
load_run().log_parameters({"width": 4})
""")
    barograph(folder, "run", "--to", "run", "logs.py")
    run = open_run(folder / "run")
    assert (workers_in(run), len(run.series("loss:total").steps)) == (["p0"], 5)
    assert run.series("scalar:acc").steps.tolist() == [1, 2, 3, 4, 5]
    assert "loss:total" in barograph(folder, "keys", "run")
    [found] = json.loads(barograph(folder, "search", "--root", ".", "params.width = 4", "--json"))
    assert found["metrics.acc.last"] == 0.4
