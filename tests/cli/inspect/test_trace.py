"""`barograph trace`: what the model was fed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import barograph

Call = Callable[..., Any]


class Pictures(Dataset[torch.Tensor]):
    def __init__(self, names: list[str]) -> None:
        self.names = names

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.ones(2)

    def source(self, index: int) -> str:
        return self.names[index]


def trained(place: Path, *, order: list[int] | None = None, **more: Any) -> Path:
    """A run of one pass over six pictures, two at a time."""
    data = Pictures([f"cats/{letter}.png" for letter in "abcdef"])
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    with barograph.attach(model, optimizer, to=place, watch=False, preset="free", strict=True, **more):
        for batch in DataLoader(data, batch_size=2, sampler=order):
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()
    return place


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return trained(tmp_path_factory.mktemp("runs") / "first")


def test_without_an_option_it_tells_what_is_known(call: Call, run: Path) -> None:
    said = call("trace", run)
    assert said.code == 0
    assert said.row("Pictures") == ["Pictures", "p0", "6", "1", "3", "0", "to", "2", "6"]
    assert "--step 2" in said.out


def test_a_step_tells_its_samples_and_their_names(call: Call, run: Path) -> None:
    said = call("trace", run, "--step", "1", "--before", "1")
    assert said.row("0")[-2:] == ["0,", "1"]
    assert said.lines[-1].split()[-3:] == ["1", "3", "cats/d.png"]
    told = call("trace", run, "--step", "1", "--json").json
    assert [batch["step"] for batch in told] == [0, 1]
    assert told[1]["samples"] == ["2", "3"]
    assert told[1]["names"] == ["cats/c.png", "cats/d.png"]


@pytest.mark.parametrize("words", [["--sample", "5"], ["--file", "f.png"], ["--file", "cats/f*"]])
def test_a_sample_and_a_file_tell_their_steps(call: Call, run: Path, words: list[str]) -> None:
    said = call("trace", run, *words)
    assert said.lines[1].split() == ["2", "-", "p0", "0", "Pictures", "1", "5", "cats/f.png"]
    (batch,) = call("trace", run, *words, "--json").json
    assert (batch["step"], batch["rows"]) == (2, [1])


def test_a_sample_that_never_came_is_told(call: Call, run: Path) -> None:
    assert call("trace", run, "--sample", "77").out == "No recorded step used sample 77.\n"
    assert call("trace", run, "--sample", "f.png").out == (
        "No recorded step used sample f.png. To search by name: --file f.png\n")


def test_two_runs_are_the_same_or_part(call: Call, run: Path, tmp_path: Path) -> None:
    other = trained(tmp_path / "other", order=[0, 1, 3, 2])
    same = call("trace", run, run)
    assert (same.code, same.out) == (0, "The data of the two runs is the same in all 3 common steps.\n")
    said = call("trace", run, other)
    assert said.code == 1
    assert said.lines[0] == "The data of the two runs first differs at step 1. 1 step before it used the same data."
    assert said.row(str(other))[-2:] == ["3,", "2"]
    told = call("trace", run, other, "--json").json
    assert (told["step"], told["same_steps"]) == (1, 1)


@pytest.mark.parametrize(("words", "code", "part"), [
    (["--step", "9"], 2, "Recorded steps: 0 to 2"),
    (["--file", "g.png"], 2, "There is no sample"),
    (["--step", "1", "--sample", "1"], 2, "choose one of"),
])
def test_what_cannot_be_told_is_said(call: Call, run: Path, words: list[str], code: int, part: str) -> None:
    said = call("trace", run, *words)
    assert said.code == code
    assert part in said.err


def test_a_run_that_is_not_traced_says_so(call: Call, tmp_path: Path) -> None:
    said = call("trace", trained(tmp_path / "off", trace=False))
    assert said.code == 0
    assert "has no data trace" in said.out


def test_a_function_of_the_script_names_samples(call: Call, tmp_path: Path) -> None:
    place = trained(tmp_path / "mine", source=lambda index: f"number {index}")
    assert call("trace", place, "--step", "0", "--json").json[0]["names"] == ["number 0", "number 1"]
