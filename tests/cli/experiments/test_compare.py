"""`barograph compare`, as typed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barograph.experiments.run import Run
from barograph.runs.state.journal import JOURNAL_OF_RUN

Call = Callable[..., Any]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with two runs of each of two models, and one run twice."""
    for model, seed, gain in (("a", 0, 1.0), ("a", 1, 1.1), ("b", 0, 2.0), ("b", 1, 2.1), ("b", 1, 2.3)):
        with Run(f"{model}{seed}", root=tmp_path / "runs") as run:
            run.log_parameters({"model": model, "seed": seed})
            for step in range(4):
                run.log_metric("acc", gain * (step - 5 * (step == 3)), 10 * step)
    return tmp_path / "runs"


def test_groups_are_compared_at_several_places(call: Call, root: Path) -> None:
    words = ("compare", "--by", "params.model", "--metric", "acc.max", "--at", "10,20,90", "--root", root)
    lines = call(*words).out.splitlines()
    assert [line.split() for line in lines[-4:]] == [
        ["step", "b", "a"], ["10", "2.13", "1.05"], ["20", "4.27", "2.1"], ["90", "4.27", "2.1"]]
    assert call(*words, "--json").json["reached"]["20.0"] == pytest.approx([4.2666667, 2.1])
    assert "numbers separated by commas" in call(*words[:-3], "x,y", "--root", root).err


def test_what_counts_once_and_what_differs_is_said(call: Call, root: Path) -> None:
    said = call("compare", "--by", "params.model", "--metric", "acc.max", "--root", root).out
    assert [line.split()[:3] for line in said.splitlines()[:3]] == [
        ["params.model", "runs", "mean"], ["b", "2", "of"], ["a", "2", "2.1"]]
    assert "(same seed: 1)" in said
    assert said.splitlines()[2].split()[-1] == "seed"


def test_a_parameter_that_nobody_has_is_named_with_the_nearest(call: Call, root: Path) -> None:
    said = call("compare", "--by", "params.modle", "--metric", "acc.max", "--root", root)
    assert (said.code, 'Did you mean "model"' in said.err) == (2, True)


@pytest.fixture
def damaged(root: Path) -> Path:
    """The root with three runs whose journals are damaged: a0 and those called b1."""
    for name in ("a0", "b1"):
        for batch in root.glob(f"*-{name}-*/{JOURNAL_OF_RUN}/*"):
            batch.write_bytes(batch.read_bytes().replace(b"seed", b"deed"))
    return root


def test_errors_of_runs_that_are_not_compared_are_one_line(call: Call, damaged: Path) -> None:
    said = call("compare", "a1", "b0", "--root", damaged)

    assert said.code == 0
    assert said.err.splitlines() == [
        "barograph: 3 runs have damaged parts, which are left out. To list them: barograph reindex"]


def test_errors_of_a_run_that_is_compared_are_printed(call: Call, damaged: Path) -> None:
    said = call("compare", "a0", "b0", "--root", damaged)

    first, second = said.err.splitlines()
    assert first.startswith(f"barograph: {next(damaged.glob('*-a0-*'))}: ")
    assert second == "barograph: 2 runs have damaged parts, which are left out. To list them: barograph reindex"


def test_a_search_counts_damaged_runs(call: Call, damaged: Path) -> None:
    assert call("search", "--root", damaged).err.splitlines() == [
        "barograph: 3 runs have damaged parts, which are left out. To list them: barograph reindex"]
