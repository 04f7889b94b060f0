"""Commands that ask a catalog, where something is wrong: a place that is none, a damaged file, a change of mind."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barograph.experiments import handle
from barograph.experiments.catalog import Catalog
from barograph.tracking import Component, Experiment, Run
from experiments_entries import component

Call = Callable[..., Any]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A root with an experiment, a trial and a run in it."""
    with Run("first", experiment="the digits", trial="wide", to=tmp_path / "runs" / "first", root=tmp_path / "runs"):
        pass
    return tmp_path / "runs"


@pytest.mark.parametrize("words", [["search"], ["experiments"], ["mark", "x"], ["compare", "a", "b"], ["gc"],
                                   ["reindex"], ["lineage", "x"], ["curves", "loss", "x"],
                                   ["export", "archive", "x", "-o", "a.zip"]], ids=lambda words: words[0])
def test_a_root_that_is_not_there_is_named_and_not_made(call: Call, root: Path, words: list[str]) -> None:
    wrong = root.parent / "rnus"
    said = call(*words, "--root", wrong)
    assert (said.code, said.err) == (
        2, f"barograph: No runs at {wrong}: no such directory. Did you mean {root}?\n")
    assert not wrong.exists()


def test_what_was_deleted_together_comes_back_together(call: Call, root: Path) -> None:
    shared = Component.create("data", root=root)
    Experiment.load("the digits", root=root).trial("wide").add_component(shared)
    alone = Component.create("alone", root=root)
    alone.delete()
    refused = call("mark", "the digits", "--delete", "--root", root)
    assert (refused.code, 'trial "wide", run "first", component "data"' in refused.err) == (2, True)
    gone = call("mark", "the digits", "--delete", "--cascade", "--root", root).out
    assert gone.startswith("Deleted: experiment the digits, trial wide, ")
    assert call("search", "--root", root, "--json").json == []
    back = call("mark", "the digits", "--restore", "--root", root).out
    assert back.startswith("Restored: experiment the digits, trial wide, component data, run first.")
    assert sorted(row["name"] for row in call("search", "--root", root, "--json").json) == ["data", "first"]


def test_of_a_trial_that_is_restored_its_experiment_stays_deleted(call: Call, root: Path) -> None:
    call("mark", "the digits", "--delete", "--cascade", "--root", root)
    assert call("mark", "wide", "--restore", "--root", root).out.startswith("Restored: trial wide, run first.")
    assert call("experiments", "--root", root, "--json").json == []


def in_other_processes() -> None:
    """Let go of the catalogs that this process has open, as a command that has ended does."""
    while handle._open:
        handle._open.popitem()[1].close()


@pytest.mark.parametrize("damage", [b"nothing that SQLite knows" * 1000, None], ids=["none", "pages"])
def test_a_damaged_catalog_is_made_again_by_one_command(call: Call, root: Path, damage: bytes | None) -> None:
    call("mark", "first", "--note", "kept", "--root", root)
    in_other_processes()
    file = root / ".catalog" / "catalog.sqlite"
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    whole = file.read_bytes()
    file.write_bytes(damage if damage is not None else whole[:4096] + bytes(len(whole) - 4096))
    said = call("reindex", "--root", root, "--json")
    assert (said.code, said.json["runs"], said.json["set_aside"]) == (0, 1, f"{file}.damaged")
    in_other_processes()
    assert call("search", "notes contains 'kept'", "--root", root, "--json").json[0]["name"] == "first"
    assert call("reindex", "--root", root, "--json").json["set_aside"] == ""


def test_what_is_to_be_typed_next_can_be_typed_so(call: Call, root: Path) -> None:
    Experiment.create("a 'new' one", root=root)
    assert """--experiment 'a '"'"'new'"'"' one' train.py""" in call("experiments", "a 'new' one", "--root", root).out


def test_a_search_for_what_nothing_has_says_what_was_meant(call: Call, root: Path) -> None:
    with Run("second", root=root, tags={"team": "vision"}) as run:
        run.log_parameters({"learning_rate": 0.1, "model.depth": 3})
        run.log_metric("val/loss", 1.0)
    for search, expected in (
        ("params.learning_rat < 1", 'a parameter "learning_rat". Did you mean "learning_rate"?'),
        ('metrics."val/los".min < 1 and not params.lr = 1', 'a metric "val/los". Did you mean "val/loss"?'),
        ("tags.taem = 'x' or params.model.depht = 1", 'a tag "taem". Did you mean "team"?'),
        ("params.x = 1", 'a parameter "x". There are: learning_rate, model.depth.'),
        ("params.team = 'vision'", 'a parameter "team". There are: learning_rate, model.depth.'),
    ):
        said = call("search", search, "--root", root)
        assert said.code == 0
        assert f"barograph: Nothing here has {expected}" in said.err
    for search in ("params.learning_rate > 5", "name = 'third'", "finding('overfit')"):
        assert call("search", search, "--root", root).err == ""
    assert call("search", "not params.lr = 1", "--root", root).err == ""


def test_of_very_many_metrics_the_commonest_are_printed_and_the_rest_counted(call: Call, root: Path) -> None:
    with Catalog(root) as catalog:
        catalog.tell(component("wide", metrics={f"layer.{number:04}": 1.0 for number in range(2_000)}))
        catalog.tell(component("first", metrics={"zoo": 0.25}))
        catalog.tell(component("second", metrics={"zoo": 0.75}))
    found = call("search", "kind = 'component'", "--root", root)
    assert "zoo" in found.out
    assert "0.75" in found.out
    assert "1,971 more columns: --columns NAME,… or --json" in found.err
    assert "layer.1999" not in found.out
    assert "layer.1999" in call("search", "name = 'wide'", "--columns", "name,metrics.layer.1999", "--root", root).out
    assert len(call("search", "name = 'wide'", "--root", root, "--json").json[0]) > 2_000


def test_a_name_of_several_is_refused_and_they_are_listed(call: Call, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    for _ in range(3):
        with Run("same", root=root):
            pass
    uids = [row["uid"] for row in call("search", "--root", root, "--json").json]
    for words in (["mark", "same", "--delete"], ["compare", "same", "same"], ["curves", "acc", "same"],
                  ["lineage", "same"], ["export", "archive", "same", "-o", tmp_path / "a.zip"]):
        said = call(*words, "--root", root)
        assert said.code == 2, words
        assert '3 items are named "same"' in said.err
        assert [uid for uid in uids if uid in said.err] == uids
    assert len(call("search", "--root", root, "--json").json) == 3
    assert call("mark", uids[0], "--delete", "--root", root).code == 0
    call("mark", uids[1], "--delete", "--root", root)
    assert call("mark", "same", "--restore", "--root", root).code == 2
    assert call("mark", "same", "--root", root).code == 0


def test_a_run_shares_its_name_with_the_trial_that_was_made_for_it(call: Call, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    with Run("train", experiment="digits", root=root) as run:
        pass
    assert call("mark", "train", "--root", root, "--json").json["uid"] == run.uid


def test_runs_of_an_experiment_have_names_of_their_own_and_can_be_renamed(call: Call, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    for experiment in ("digits", "digits", "digits", "other"):
        with Run("train", experiment=experiment, root=root):
            pass
    assert sorted(row["name"] for row in call("search", "experiment = 'digits'", "--root", root, "--json").json) == [
        "train", "train-2", "train-3"]
    taken = call("mark", "train-2", "--rename", "train-3", "--root", root)
    assert (taken.code, 'already has a run "train-3"' in taken.err) == (2, True)
    assert call("mark", "train-2", "--rename", "wide", "--root", root).code == 0
    call("reindex", "--root", root)
    assert call("mark", "wide", "--root", root).code == 0
    refused = call("mark", "digits", "--rename", "numbers", "--root", root)
    assert (refused.code, "cannot be renamed" in refused.err) == (2, True)


def test_names_of_a_search_are_names_of_columns(call: Call, root: Path) -> None:
    named = "id,created,trial,experiment,code.commit,user,duration,parameters.lr,tags.team"
    words = ("--columns", named, "--root", root)
    said = call("search", "experiments = 'the digits' and uid != 'x' order by created_unix", *words)
    assert said.code == 0
    assert said.lines[0].split("\t") == [
        "uid", "created", "trials", "experiments", "commit", "by", "duration", "lr", "team"]
    assert said.lines[1].split("\t")[2:4] == ["wide", "the digits"]
    assert 'Nothing here has a tag "team".' in said.err
    assert 'Nothing here has a parameter "lr".' in said.err


def test_a_search_that_finds_nothing_says_what_there_is(call: Call, root: Path) -> None:
    with Run("second", root=root) as run:
        run.log_parameters({"epochs": 30, "model": "wide", "mixed": 1})
    for search, expected in (
        ("params.epochs = '30'", 'The parameter epochs is a number. Write it without quotes: '
                                 "params.epochs = 30"),
        ("params.epochs in ('30')", "params.epochs = 30"),
        ("params.model = 3", 'The parameter model is a string. Write it in quotes: params.model = '
                             "'3'"),
        ("experiment = 'the digts'", 'No experiment "the digts". Did you mean "the digits"?'),
        ("trial = 'wdie'", 'No trial "wdie". Did you mean "wide"?'),
        ("steps > 5 order by metrics.acc.max", 'Nothing here has a metric "acc".'),
    ):
        said = call("search", search, "--root", root)
        assert (said.code, expected in said.err) == (0, True), said.err
    assert call("search", "params.epochs = 31", "--root", root).err == ""


def test_one_loss_has_one_column_and_the_name_of_the_whole(call: Call, root: Path) -> None:
    with Catalog(root) as catalog:
        for name, loss in (("a", 1.0), ("b", 2.0)):
            catalog.tell(component(name, metrics={"loss": loss, "loss.mse": loss, "eval_loss": loss,
                                                  "eval_loss.mse": loss + 1}))
    said = call("search", "kind = 'component' order by metrics.eval_loss.last desc", "--root", root)
    assert said.lines[0].split("\t")[:5] == ["eval_loss", "name", "eval_loss.mse", "loss", "created"]
    assert [line.split("\t")[1] for line in said.lines[1:]] == ["b", "a"]


def test_what_a_name_hides_moves_no_cursor(call: Call, root: Path) -> None:
    with Run("x", root=root) as run:
        run.log_parameters({"a\x1b[31mb": 1})
    for words in (["search", "name = 'x'"], ["mark", "x"], ["mark", "y\x1b[31m"]):
        said = call(*words, "--root", root)
        assert "\x1b" not in said.out + said.err
        assert "\\x1b[31m" in said.out + said.err
