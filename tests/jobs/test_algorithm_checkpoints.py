"""Trainers whose libraries save no checkpoints resume from their own, and end with the same model."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_wine

from barograph.jobs.algorithms import checkpoints
from barograph.jobs.algorithms.checkpoints import Checkpoints
from barograph.jobs.algorithms.trainers import lightgbm_trainer, mlp_trainer, xgboost_trainer

TRAINERS = {"xgboost": xgboost_trainer, "lightgbm": lightgbm_trainer, "mlp": mlp_trainer}
DATA = {"wine": load_wine, "diabetes": load_diabetes}


class Taken(Exception):
    """The instance was taken away."""


class Bench:
    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.folder, self.patch = folder, patch
        patch.setattr(checkpoints, "_EVERY_SECS", 0.0)

    def train(self, name: str, place: str, *arguments: str) -> dict[str, bytes]:
        """Train, and return the files that are left."""
        for variable, folder in (("MODEL", "model"), ("OUTPUT_DATA", "output"), ("CHECKPOINT", "checkpoints")):
            self.patch.setenv(f"SM_{variable}_DIR", str(self.folder / place / folder))
        threads = {"xgboost": ["--nthread", "1"], "lightgbm": ["--num_threads", "1"]}.get(name, [])
        TRAINERS[name].train(["--target", "target", *threads, *arguments])
        return {file.name: file.read_bytes() for folder in ("model", "output")
                for file in (self.folder / place / folder).iterdir() if not file.name.startswith("model.t")}

    def give(self, table: Any) -> None:
        """Make a table the data of the next trainings."""
        table.to_csv(self.folder / "table.csv", index=False)
        self.patch.setenv("SM_CHANNEL_TRAIN", str(self.folder / "table.csv"))

    def interrupt(self, name: str, place: str, *arguments: str, after: int) -> None:
        """Train until some checkpoints were saved."""
        saved, save = 0, Checkpoints.save

        def counted(self: Checkpoints, *state: Any) -> None:
            nonlocal saved
            save(self, *state)
            saved += 1
            if saved == after:
                raise Taken

        with self.patch.context() as patch:
            patch.setattr(Checkpoints, "save", counted)
            with pytest.raises(Taken):
                self.train(name, place, *arguments)


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(tmp_path, monkeypatch)


CASES = [
    ("xgboost", "wine", ("--num_round", "12")),
    ("xgboost", "diabetes", ("--num_round", "40", "--eta", "0.5", "--early_stopping_rounds", "4")),
    ("xgboost", "diabetes", ("--num_round", "40", "--booster", "gblinear", "--early_stopping_rounds", "4")),
    ("lightgbm", "wine", ("--num_iterations", "12")),
    ("lightgbm", "diabetes", ("--num_iterations", "40", "--learning_rate", "0.3", "--early_stopping_rounds", "4")),
    ("mlp", "wine", ("--max_iter", "12", "--hidden_layer_sizes", "8")),
    ("mlp", "diabetes", ("--max_iter", "12", "--solver", "sgd", "--learning_rate_init", "0.01")),
    ("xgboost", "wine", ("--folds", "3", "--num_round", "12")),
    ("xgboost", "diabetes", ("--folds", "3", "--num_round", "40", "--eta", "0.5", "--early_stopping_rounds", "4")),
    ("xgboost", "diabetes", ("--folds", "3", "--num_round", "12", "--booster", "gblinear")),
    ("mlp", "wine", ("--folds", "3", "--max_iter", "12", "--hidden_layer_sizes", "8")),
    ("mlp", "diabetes", ("--folds", "3", "--max_iter", "12", "--solver", "sgd", "--learning_rate_init", "0.01")),
]


@pytest.mark.parametrize(("name", "data", "arguments"), CASES)
def test_a_resumed_training_ends_with_the_model_of_an_uninterrupted_one(
    bench: Bench, name: str, data: str, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    bench.give(DATA[data](as_frame=True).frame)
    whole = bench.train(name, "whole", *arguments)
    bench.interrupt(name, "taken", *arguments, after=3)
    bench.interrupt(name, "taken", *arguments, after=2)
    capsys.readouterr()
    resumed = bench.train(name, "taken", *arguments)
    assert "Resumed after 5 " in capsys.readouterr().out
    assert resumed.keys() == whole.keys()
    assert [file for file in whole if resumed[file] != whole[file]] == []


AGAIN = "The checkpoint is from a training with other data, folds or parameters: starting again."


@pytest.mark.parametrize(("name", "before", "after"), [
    ("xgboost", "--folds 5 --num_round 12", "--folds 3 --num_round 12"),
    ("xgboost", "--folds 3 --num_round 12", "--folds 5 --num_round 12"),
    ("xgboost", "--folds 3 --num_round 12", "--num_round 12"),
    ("xgboost", "--num_round 12", "--folds 3 --num_round 12"),
    ("xgboost", "--folds 3 --num_round 12 --seed 1", "--folds 3 --num_round 12"),
    ("mlp", "--folds 5 --max_iter 12", "--folds 3 --max_iter 12"),
    ("mlp", "--folds 3 --max_iter 12", "--folds 5 --max_iter 12"),
    ("mlp", "--folds 3 --max_iter 12", "--max_iter 12"),
    ("xgboost", "--folds 3 --num_round 12 --eta 0.1", "--folds 3 --num_round 12"),
    ("lightgbm", "--num_iterations 12 --learning_rate 0.3", "--num_iterations 12"),
    ("lightgbm", "--num_iterations 12 --seed 1", "--num_iterations 12"),
])
def test_a_checkpoint_of_other_folds_or_parameters_is_not_used(
    bench: Bench, name: str, before: str, after: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.give(load_diabetes(as_frame=True).frame)
    fresh = bench.train(name, "fresh", *after.split())
    bench.interrupt(name, "taken", *before.split(), after=3)
    capsys.readouterr()
    assert bench.train(name, "taken", *after.split()) == fresh
    said = capsys.readouterr().out
    assert said.count(AGAIN) == 1
    assert "Resumed" not in said


@pytest.mark.parametrize(("name", "arguments"), [
    ("xgboost", ("--folds", "3", "--num_round", "12")), ("mlp", ("--folds", "3", "--max_iter", "12")),
    ("lightgbm", ("--num_iterations", "12")),
])
@pytest.mark.parametrize("change", [
    lambda table: table[:-20], lambda table: table.assign(bmi=table["bmi"].round(2)),
    lambda table: table.assign(target=table["target"] + 1),
], ids=["rows", "cells", "target"])
def test_a_checkpoint_of_other_data_is_not_used(
    bench: Bench, name: str, arguments: tuple[str, ...], change: Callable[[Any], Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    table = load_diabetes(as_frame=True).frame
    bench.give(table)
    fresh = bench.train(name, "fresh", *arguments)
    bench.give(change(table))
    bench.interrupt(name, "taken", *arguments, after=3)
    bench.give(table)
    assert bench.train(name, "taken", *arguments) == fresh
    assert AGAIN in capsys.readouterr().out


def test_a_checkpoint_that_does_not_say_of_what_it_is_is_not_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "checkpoint.npz", facts=np.array('{"best": 0.25}'))
    assert Checkpoints("digest", {"SM_CHECKPOINT_DIR": str(tmp_path)}).load() is None
    assert AGAIN in capsys.readouterr().out


def test_without_a_directory_nothing_is_saved() -> None:
    with Checkpoints("digest", {}) as saved:
        assert (saved.due, saved.load()) == (False, None)


def test_a_state_comes_back(tmp_path: Path) -> None:
    environ = {"SM_CHECKPOINT_DIR": str(tmp_path / "checkpoints")}
    with Checkpoints("digest", environ) as saved:
        assert saved.load() is None
        saved.save({"best": 0.25, "none": None}, {"weight/0": np.arange(3.0)})
    facts, arrays = Checkpoints("digest", environ).load() or ({}, {})
    assert facts == {"best": 0.25, "none": None}
    assert list(arrays) == ["weight/0"]
    np.testing.assert_array_equal(arrays["weight/0"], [0.0, 1.0, 2.0])
    assert [file.name for file in (tmp_path / "checkpoints").iterdir()] == ["checkpoint.npz"]


def test_a_notice_saves_and_ends(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Checkpoints("digest", {"SM_CHECKPOINT_DIR": str(tmp_path)}) as saved:
        assert not saved.due
        os.kill(os.getpid(), signal.SIGTERM)
        assert saved.due
        with pytest.raises(SystemExit) as ended:
            saved.save({"round": 7}, {})
    assert ended.value.code == 143
    assert (saved.load() or [None])[0] == {"round": 7}
    assert signal.getsignal(signal.SIGTERM) == before
