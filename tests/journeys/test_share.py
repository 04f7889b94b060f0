"""An experiment is exported on one desk, imported on another, and its code checked out there."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forking import TORCH

FORKED = TORCH

SCRIPT = """
import sys
from barograph.tracking import load_run

width = int(sys.argv[sys.argv.index("--width") + 1])
with load_run() as run:
    for step in range(20):
        run.log_metric("acc", width / 100 + step / 1000)
    with open("model.txt", "w") as file:
        file.write("weights " * width)
    run.log_artifact("model.txt")
    print("width", width, "done")
"""


@pytest.fixture(scope="module")
def desks(make_desk: Callable[[str], Any]) -> tuple[Any, Any]:
    """Two folders: one with a repository and two runs of an experiment, the other empty."""
    here, there = make_desk("here"), make_desk("there")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "first"]):
        if words[0] == "add":
            here.write("train.py", SCRIPT)
            here.write(".gitignore", "barograph-runs\nmodel.txt\n")
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words], cwd=here.folder, check=True)
    here.write("train.py", SCRIPT + "# not committed\n")
    for width in ("16", "64"):
        barograph(here, "run", "--experiment", "widths", "--trial", f"width {width}", "--to",
                  f"barograph-runs/w{width}", "train.py", "--width", width)
    barograph(here, "mark", "w64", "--note", "the **best**", "--tag", "keep=yes")
    return here, there


def barograph(desk: Any, *words: str | Path, code: int = 0) -> str:
    done = desk.end(desk.start("barograph", *words))
    assert done.code == code, done.text + done.err
    return str(done.text + done.err * (code != 0))


def test_an_archive_is_complete_on_the_other_machine(desks: tuple[Any, Any]) -> None:
    here, there = desks
    packed = json.loads(barograph(here, "export", "archive", "widths", "-o", there.folder / "widths.zip", "--json"))
    assert ([run["name"] for run in sorted(packed["runs"], key=lambda run: run["name"])], packed["damage"]) == (
        ["w16", "w64"], [])
    assert json.loads(barograph(there, "import", "archive", "widths.zip", "--check", "--json"))["members"] > 10
    assert not (there.folder / "barograph-runs").exists()

    together = [there.start("barograph", "import", "archive", "widths.zip", "--json") for _ in range(2)]
    both = [there.end(process) for process in together]
    assert [ended.code for ended in both] == [0, 0]
    assert {run["name"] for run in json.loads(both[0].out)["runs"]} == {"w16", "w64"}

    found = json.loads(barograph(there, "search", "tags.keep = 'yes' and metrics.acc.max > 0.6", "--json"))
    assert [(row["name"], row["trials"]) for row in found] == [("w64", "width 64")]
    known = json.loads(barograph(there, "mark", "w64", "--json"))
    assert [note["text"] for note in known["notes"]] == ["the **best**"]
    assert "scalar:acc" in barograph(there, "keys", "barograph-runs/w64")
    assert "barograph-runs/w64" in barograph(there, "show", "barograph-runs/w64")
    assert "acc.max" in barograph(there, "compare", "w16", "w64", "--html", "both.html")
    assert (there.folder / "both.html").read_text().startswith("<!DOCTYPE html>")
    assert "the <strong>best</strong>" in _report(there)
    assert barograph(there, "doctor", "barograph-runs/w64")

    again = json.loads(barograph(there, "export", "archive", "widths", "-o", "again.zip", "--json"))
    assert again["file_bytes"] == packed["file_bytes"]
    assert (there.folder / "again.zip").read_bytes() == (there.folder / "widths.zip").read_bytes()


def test_the_code_of_an_imported_run_is_checked_out(desks: tuple[Any, Any]) -> None:
    here, there = desks
    barograph(here, "export", "archive", "w16", "-o", there.folder / "w16.zip")
    barograph(there, "import", "archive", "w16.zip", "--root", "third")
    place = barograph(there, "checkout", "third/w16", "--out", "code").strip()
    assert ((there.folder / place) / "train.py").read_text() == SCRIPT + "# not committed\n"


def test_wrong_arguments_are_errors_that_help(desks: tuple[Any, Any]) -> None:
    here, there = desks
    assert 'Did you mean "widths"' in barograph(here, "export", "archive", "width", "-o", "x.zip", code=2)
    assert "no directory" in barograph(here, "export", "archive", "widths", "-o", "no/x.zip", code=2)
    assert "is a directory" in barograph(here, "export", "archive", "widths", "-o", ".", code=2)
    assert "file does not exist" in barograph(there, "import", "archive", "x.zip", code=2)
    assert "Not an archive" in barograph(here, "import", "archive", "train.py", code=2)
    assert list(here.folder.glob(".*.part")) == []


def _report(desk: Any) -> str:
    barograph(desk, "report", "barograph-runs/w64", "--out", "w64.html")
    return str((desk.folder / "w64.html").read_text())
