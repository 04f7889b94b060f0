"""An experiment is exported on one desk, imported on another, and its code checked out there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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
def desks(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two folders: one with a repository and two runs of an experiment, the other empty."""
    here, there = tmp_path_factory.mktemp("here"), tmp_path_factory.mktemp("there")
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "first"]):
        if words[0] == "add":
            (here / "train.py").write_text(SCRIPT)
            (here / ".gitignore").write_text("barograph-runs\nmodel.txt\n")
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words], cwd=here, check=True)
    (here / "train.py").write_text(SCRIPT + "# not committed\n")
    for width in ("16", "64"):
        barograph(here, "run", "--experiment", "widths", "--trial", f"width {width}", "--to",
                  f"barograph-runs/w{width}", "train.py", "--width", width)
    barograph(here, "mark", "w64", "--note", "the **best**", "--tag", "keep=yes")
    return here, there


def barograph(folder: Path, *words: str | Path, code: int = 0) -> str:
    done = subprocess.run([sys.executable, "-m", "barograph", *map(str, words)], cwd=folder, capture_output=True,
                          text=True, timeout=600, env={**os.environ, "BAROGRAPH_ROOT": ""})
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr * (code != 0)


def test_an_archive_is_complete_on_the_other_machine(desks: tuple[Path, Path]) -> None:
    here, there = desks
    packed = json.loads(barograph(here, "export", "archive", "widths", "-o", there / "widths.zip", "--json"))
    assert ([run["name"] for run in sorted(packed["runs"], key=lambda run: run["name"])], packed["damage"]) == (
        ["w16", "w64"], [])
    assert json.loads(barograph(there, "import", "archive", "widths.zip", "--check", "--json"))["members"] > 10
    assert not (there / "barograph-runs").exists()

    together = [subprocess.Popen([sys.executable, "-m", "barograph", "import", "archive", "widths.zip", "--json"],
                                 cwd=there, stdout=subprocess.PIPE, env={**os.environ, "BAROGRAPH_ROOT": ""})
                for _ in range(2)]
    outs = [process.communicate(timeout=600)[0] for process in together]
    assert [process.returncode for process in together] == [0, 0]
    assert {run["name"] for run in json.loads(outs[0])["runs"]} == {"w16", "w64"}

    found = json.loads(barograph(there, "search", "tags.keep = 'yes' and metrics.acc.max > 0.6", "--json"))
    assert [(row["name"], row["trials"]) for row in found] == [("w64", "width 64")]
    known = json.loads(barograph(there, "mark", "w64", "--json"))
    assert [note["text"] for note in known["notes"]] == ["the **best**"]
    assert "scalar:acc" in barograph(there, "keys", "barograph-runs/w64")
    assert "barograph-runs/w64" in barograph(there, "show", "barograph-runs/w64")
    assert "acc.max" in barograph(there, "compare", "w16", "w64", "--html", "both.html")
    assert (there / "both.html").read_text().startswith("<!DOCTYPE html>")
    assert "the <strong>best</strong>" in _report(there)
    assert barograph(there, "doctor", "barograph-runs/w64")

    again = json.loads(barograph(there, "export", "archive", "widths", "-o", "again.zip", "--json"))
    assert again["file_bytes"] == packed["file_bytes"]
    assert (there / "again.zip").read_bytes() == (there / "widths.zip").read_bytes()


def test_the_code_of_an_imported_run_is_checked_out(desks: tuple[Path, Path]) -> None:
    here, there = desks
    barograph(here, "export", "archive", "w16", "-o", there / "w16.zip")
    barograph(there, "import", "archive", "w16.zip", "--root", "third")
    place = barograph(there, "checkout", "third/w16", "--out", "code").strip()
    assert (Path(there / place) / "train.py").read_text() == SCRIPT + "# not committed\n"


def test_wrong_arguments_are_errors_that_help(desks: tuple[Path, Path]) -> None:
    here, there = desks
    assert 'Did you mean "widths"' in barograph(here, "export", "archive", "width", "-o", "x.zip", code=2)
    assert "no directory" in barograph(here, "export", "archive", "widths", "-o", "no/x.zip", code=2)
    assert "is a directory" in barograph(here, "export", "archive", "widths", "-o", ".", code=2)
    assert "file does not exist" in barograph(there, "import", "archive", "x.zip", code=2)
    assert "Not an archive" in barograph(here, "import", "archive", "train.py", code=2)
    assert list(here.glob(".*.part")) == []


def _report(folder: Path) -> str:
    barograph(folder, "report", "barograph-runs/w64", "--out", "w64.html")
    return (folder / "w64.html").read_text()
