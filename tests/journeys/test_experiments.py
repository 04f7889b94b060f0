"""Experiments on the command line: search, compare, mark and delete runs; rebuild the catalog."""

import json
import shutil
from pathlib import Path
from typing import Any

from barograph.runs.reading.one_worker import workers_in
from barograph.runs.reading.reader import open as open_run
from forking import TORCH

FORKED = TORCH

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


def barograph(desk: Any, *words: str | Path, code: int = 0) -> str:
    done = desk.end(desk.start("barograph", *words))
    assert done.code == code, done.text + done.err
    return str(done.text + done.err * (code != 0))


def test_from_a_hypothesis_to_its_result(desk: Any) -> None:
    desk.write("train.py", SCRIPT)  # which does not import Barograph
    barograph(desk, "experiments", "widths", "--create", "--hypothesis", "wide nets learn faster")
    for width, seed in ((2, 0), (64, 0), (64, 1)):
        barograph(desk, "run", "--experiment", "widths", "--trial", f"width {width}", "--tag", f"seed={seed}",
                  "train.py", f"{width}", f"{seed}")
    [listed] = json.loads(barograph(desk, "experiments", "--json"))
    assert (listed["hypothesis"], listed["trials"], listed["components"]) == ("wide nets learn faster", 2, 3)
    best = json.loads(barograph(desk, "search", "experiment = 'widths' order by metrics.loss.last limit 1", "--json"))
    assert [(row["trials"], row["state"], row["metrics.loss.count"]) for row in best] == [("width 64", "finished", 60)]
    judged = json.loads(barograph(desk, "compare", "--by", "trial", "--metric", "loss.last", "--search",
                                  "experiment = 'widths'", "--json"))
    assert judged["verdict"]["outcome"] == "undecided"
    assert [(group["name"], len(group["values"])) for group in judged["groups"]] == [("width 64", 2), ("width 2", 1)]

    run = best[0]["place"]
    barograph(desk, "mark", run, "--note", "the **best**", "--star", "--tag", "keep=yes")
    for file in (desk.folder / "barograph-runs" / ".catalog").glob("catalog.sqlite*"):
        file.unlink()
    assert json.loads(barograph(desk, "reindex", "--json"))["runs"] == 3
    known = json.loads(barograph(desk, "mark", run, "--json"))
    assert ([note["text"] for note in known["notes"]], known["starred"], known["tags"]["keep"]) == (
        ["the **best**"], True, "yes")

    assert "cannot be deleted" in barograph(desk, "mark", "widths", "--delete", code=2)
    barograph(desk, "mark", run, "--delete")
    assert len(json.loads(barograph(desk, "search", "--json"))) == 2
    barograph(desk, "mark", run, "--restore")
    assert len(json.loads(barograph(desk, "search", "--json"))) == 3
    assert (Path(run) / "run.json").is_file()

    wrong = barograph(desk, "search", "metrics.loss.last < < 1", code=2)
    assert wrong.splitlines()[-1].index("^") == wrong.splitlines()[-2].index("< 1")
    shutil.rmtree(run)
    assert [row["state"] for row in json.loads(barograph(desk, "search", "tags.keep = 'yes'", "--json"))] == ["gone"]


def test_a_script_that_loads_its_run_is_one_worker(desk: Any) -> None:
    (desk.folder / "logs.py").write_text("""
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
    barograph(desk, "run", "--to", "run", "logs.py")
    run = open_run(desk.folder / "run")
    assert (workers_in(run), len(run.series("loss:total").steps)) == (["p0"], 5)
    assert run.series("scalar:acc").steps.tolist() == [1, 2, 3, 4, 5]
    assert "loss:total" in barograph(desk, "keys", "run")
    [found] = json.loads(barograph(desk, "search", "--root", ".", "params.width = 4", "--json"))
    assert found["metrics.acc.last"] == 0.4
