"""Two processes that train by themselves in one run: neither is hidden behind the other."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import barograph

Call = Callable[..., Any]

# Two trainings, one after the other, as a script that searches parameters has them.
TRAINING = '''
import sys
import torch

torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(int(sys.argv[1])):
    optimizer.zero_grad()
    model(torch.ones(3, 4)).square().mean().backward()
    optimizer.step()
'''


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of p0 with 6 steps and p1 with 9."""
    folder = tmp_path_factory.mktemp("workers")
    (folder / "train.py").write_text(TRAINING)
    (folder / "both.sh").write_text(f"set -e\n{sys.executable} train.py 6\n{sys.executable} train.py 9\n")
    command = [Path(sys.executable).parent / "barograph", "run", "--to", "run", "--budget", "off", "sh", "both.sh"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=600)
    return folder / "run"


def test_show_says_whose_figures_it_shows_and_who_else_there_is(call: Call, both: Path) -> None:
    said = call("show", both)

    assert "  figures   of p0; also p1: --worker p1" in said.lines
    assert call("show", both, "--all").row("loss:total")[3] == "6"
    assert call("show", both, "--json").json["worker"] == "p0"


def test_show_shows_the_worker_that_is_asked_for(call: Call, both: Path) -> None:
    said = call("show", both, "--worker", "p1")

    assert "  figures   of p1; also p0: --worker p0" in said.lines
    assert call("show", both, "--all", "--worker", "p1").row("loss:total")[3] == "9"
    assert "  recorded  15 steps" in "\n".join(said.lines)


def test_keys_are_those_of_one_worker_and_the_rows_stay_rows(call: Call, both: Path) -> None:
    first, second = call("keys", both, "--kind", "loss"), call("keys", both, "--kind", "loss", "--worker", "p1")

    assert (first.row("loss:total")[4], second.row("loss:total")[4]) == ("6", "9")
    assert first.err == "barograph: this is of p0; also p1: --worker p1\n"
    assert "also" not in first.out


def test_a_step_is_shown_of_the_first_that_recorded_it_or_of_the_one_asked_for(call: Call, both: Path) -> None:
    headings = [
        next(line for line in call("show", both, "--around", *words).lines if line.startswith("Steps around"))
        for words in (("3",), ("8",), ("3", "--worker", "p1"))
    ]

    assert [heading.split("  ")[1] for heading in headings] == [
        "of p0; also p1: --worker p1", "of p1; also p0: --worker p0", "of p1; also p0: --worker p0",
    ]


def test_a_step_that_the_worker_asked_for_did_not_make_is_not_shown_of_another(call: Call, both: Path) -> None:
    said = call("show", both, "--around", "8", "--worker", "p0")

    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("barograph: No records of step 8. The nearest recorded step is 5.")


@pytest.mark.parametrize("words", [("show",), ("keys",), ("show", "--around", "3")])
def test_a_worker_that_is_not_there_is_answered_with_those_that_are(
    call: Call, both: Path, words: tuple[str, ...]
) -> None:
    said = call(words[0], both, *words[1:], "--worker", "p7")

    assert (said.code, said.out) == (2, "")
    assert 'No worker "p7" has published records. ' in said.err


def test_of_one_training_nothing_of_workers_is_said(call: Call, healthy: Path) -> None:
    assert [state.worker.name for state in barograph.open(healthy).workers] == ["p0"]
    assert "figures" not in call("show", healthy).out
    assert call("keys", healthy).err == ""
