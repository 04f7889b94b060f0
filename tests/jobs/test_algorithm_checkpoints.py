"""Trainers whose libraries save no checkpoints resume from their own, and end with the same model."""

from __future__ import annotations

import os
import signal
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
]


@pytest.mark.parametrize(("name", "data", "arguments"), CASES)
def test_a_resumed_training_ends_with_the_model_of_an_uninterrupted_one(
    bench: Bench, name: str, data: str, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    table = bench.folder / "table.csv"
    DATA[data](as_frame=True).frame.to_csv(table, index=False)
    bench.patch.setenv("SM_CHANNEL_TRAIN", str(table))
    whole = bench.train(name, "whole", *arguments)
    bench.interrupt(name, "taken", *arguments, after=3)
    bench.interrupt(name, "taken", *arguments, after=2)
    capsys.readouterr()
    resumed = bench.train(name, "taken", *arguments)
    assert "Resumed after 5 " in capsys.readouterr().out
    assert resumed.keys() == whole.keys()
    assert [file for file in whole if resumed[file] != whole[file]] == []


def test_without_a_directory_nothing_is_saved() -> None:
    with Checkpoints({}) as saved:
        assert (saved.due, saved.load()) == (False, None)


def test_a_state_comes_back(tmp_path: Path) -> None:
    environ = {"SM_CHECKPOINT_DIR": str(tmp_path / "checkpoints")}
    with Checkpoints(environ) as saved:
        assert saved.load() is None
        saved.save({"best": 0.25, "none": None}, {"weight/0": np.arange(3.0)})
    facts, arrays = Checkpoints(environ).load() or ({}, {})
    assert facts == {"best": 0.25, "none": None}
    assert list(arrays) == ["weight/0"]
    np.testing.assert_array_equal(arrays["weight/0"], [0.0, 1.0, 2.0])
    assert [file.name for file in (tmp_path / "checkpoints").iterdir()] == ["checkpoint.npz"]


def test_a_notice_saves_and_ends(tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Checkpoints({"SM_CHECKPOINT_DIR": str(tmp_path)}) as saved:
        assert not saved.due
        os.kill(os.getpid(), signal.SIGTERM)
        assert saved.due
        with pytest.raises(SystemExit) as ended:
            saved.save({"round": 7}, {})
    assert ended.value.code == 143
    assert (saved.load() or [None])[0] == {"round": 7}
    assert signal.getsignal(signal.SIGTERM) == before
