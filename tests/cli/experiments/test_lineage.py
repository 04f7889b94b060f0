"""`barograph lineage`: what came of what, as typed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barograph.experiments.run import Run
from barograph.tracking import list_runs

Call = Callable[..., Any]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with two runs: one made a model, which the other read."""
    (tmp_path / "model.bin").write_bytes(b"12345")
    with Run("train", experiment="digits", root=tmp_path / "runs") as run:
        run.log_artifact(tmp_path / "model.bin")
    with Run("test", root=tmp_path / "runs") as run:
        run.log_artifact(tmp_path / "model.bin", is_output=False)
    return tmp_path / "runs"


def test_the_steps_are_told_with_names(call: Call, root: Path) -> None:
    said = call("lineage", "test", "--direction", "up", "--root", root)
    assert said.code == 0
    assert [line.split() for line in said.out.splitlines()[:3]] == [
        ["distance", "item", "relation", "other"], ["1", "run", "test", "read", "artifact", "model.bin"],
        ["2", "artifact", "model.bin", "made", "by", "run", "train"]]


def test_an_artifact_is_named_by_what_it_was_logged_as(call: Call, root: Path) -> None:
    said = call("lineage", "model.bin", "--direction", "down", "--kind", "run", "--root", root, "--json").json
    assert [(edge["source_name"], edge["relation"], edge["depth"]) for edge in said] == [("run test", "read", 1)]
    (root.parent / "model.bin").write_bytes(b"others")
    with Run("third", root=root) as run:
        run.log_artifact(root.parent / "model.bin")
    two = call("lineage", "model.bin", "--root", root)
    assert two.code == 2
    assert 'There are 2 artifacts named "model.bin"' in two.err
    uid = two.err.split("IDs: ")[1].split(",")[0].strip()
    assert call("lineage", uid, "--root", root).code == 0


def test_wrong_words_are_said(call: Call, root: Path) -> None:
    for words, expected in (
        (["tset"], 'No experiment, trial, component or run "tset"'),
        (["test", "--direction", "left"], '"left" is not a direction; use "up", "down" or "both"'),
        (["test", "--kind", "runs"], '"runs" is not a kind of item. Did you mean "run"?'),
        (["test", "--since", "soon"], '--since is "soon"; it must be a time'),
    ):
        said = call("lineage", *words, "--root", root)
        assert (said.code, expected in said.err) == (2, True), said.err
    with Run("alone", root=root):
        pass
    assert "no recorded origins or results" in call("lineage", "alone", "--root", root).out
    assert call("lineage", "alone", "--root", root, "--json").json == []


def test_a_run_is_named_by_its_name_where_no_such_place_is(
    call: Call, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAROGRAPH_ROOT", str(root))
    monkeypatch.chdir(tmp_path)
    [run] = list_runs("name = 'train'", root=root)
    for command in ("show", "keys", "doctor"):
        assert call(command, "train").code == 0
    assert run.place in call("show", "train").out
    assert "No run at tarin" in call("show", "tarin").err
    (tmp_path / "train").mkdir()
    assert "the directory is empty" in call("show", "train").err


def test_to_look_for_a_name_makes_no_catalog(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BAROGRAPH_ROOT", raising=False)
    assert call("show", "nothing").code == 2
    assert list(tmp_path.iterdir()) == []
