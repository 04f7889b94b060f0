"""fastai with its own optimizer under `barograph run`, with unchanged scripts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import barograph
from barograph.errors import EXIT_STOPPED
from barograph.model.step import Mode
from forking import AVAILABLE, TORCH
from real_fastai import Unavailable, folder_with_fastai

SCRIPT = Path(__file__).parent.parent / "fastai_script.py"
INTEGRATION = SCRIPT.with_name("fastai_integration.py")
SECS = 1800.0


Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def variables() -> dict[str, str]:
    """What the environment of a process with fastai needs."""
    try:
        paths = [str(folder_with_fastai()), *filter(None, [os.environ.get("PYTHONPATH")])]
    except Unavailable as error:
        pytest.skip(str(error))
    return {"PYTHONPATH": os.pathsep.join(paths), "PYTHONWARNINGS": "ignore"}


@pytest.fixture
def ended(variables: dict[str, str], fork_servers: Callable[..., Any]) -> Command:
    """Run a command of Python in the environment with fastai, and check its exit code."""
    programs = fork_servers(*TORCH, **variables).programs if AVAILABLE else Path(sys.executable).parent
    environment = {**os.environ, **variables, "PATH": os.pathsep.join([str(programs), os.environ["PATH"]])}

    def run(folder: Path, *words: str | Path, code: int = 0) -> subprocess.CompletedProcess[str]:
        folder.mkdir(exist_ok=True)
        done = subprocess.run([programs / "python", *words], cwd=folder, env=environment, capture_output=True,
                              text=True, check=False, timeout=SECS)
        assert done.returncode == code, done.stderr[-2000:]
        return done

    return run


def test_fastai_passes_the_conformance_suite(variables: dict[str, str], tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", INTEGRATION], cwd=tmp_path,
        env={**os.environ, **variables}, capture_output=True, text=True, check=False, timeout=SECS)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def test_steps_of_fastais_own_optimizer_are_recorded_and_change_no_bit(tmp_path: Path, ended: Command) -> None:
    ended(tmp_path / "plain", SCRIPT)
    ended(tmp_path / "seen", "-m", "barograph", "run", "--to", "run", "--budget", "off", "--preset", "everything",
          "--rules", "none", SCRIPT)
    plain, seen = (np.load(tmp_path / name / "weights.npz") for name in ("plain", "seen"))
    assert all(np.array_equal(plain[name], seen[name]) for name in plain.files)

    run = barograph.open(tmp_path / "seen" / "run")
    steps = list(range(16))
    assert run.series("loss:total", optimizer="").steps.tolist() == steps
    assert run.series("learning_rate:group0").values.tolist() == [0.01] * 16
    for key in ("weight:0.weight", "gradient:2.bias", "update:0.weight", "optimizer_state:0.weight[sqr_avg]"):
        assert run.series(key, "l2").steps.tolist() == steps, key
    assert sum(run.series(f"label:cross_entropy[{label}]").values.sum() for label in range(2)) == 80
    assert run.series("loss:cross_entropy", mode=Mode.EVAL).steps.tolist() == [8, 16]
    # What fastai shows of an epoch, in its own words.
    np.testing.assert_allclose(run.series("scalar:valid_loss").values,
                               run.series("loss:cross_entropy", mode=Mode.EVAL).values, rtol=1e-5)
    assert run.series("scalar:epoch").values.tolist() == [0, 1]


def test_a_nan_is_found_at_its_step(tmp_path: Path, ended: Command) -> None:
    ended(tmp_path / "nan", "-m", "barograph", "run", "--to", "run", "--budget", "off", "--rules", "N101", SCRIPT,
          "--nan")
    (found,) = barograph.open(tmp_path / "nan" / "run").findings
    assert (found.code, found.since_step) == ("N101", 2)


@pytest.mark.parametrize("optimizer", [[], ["--wrapped"]], ids=["of fastai", "of torch"])
def test_a_step_that_the_scaler_of_mixed_precision_skips_counts(
    optimizer: list[str], tmp_path: Path, ended: Command
) -> None:
    ended(tmp_path, "-m", "barograph", "run", "--to", "run", "--budget", "off", "--rules", "none", SCRIPT, "--nan",
          "--half", *optimizer)
    run = barograph.open(tmp_path / "run")
    losses = run.series("loss:total")
    assert losses.steps.tolist() == list(range(16))
    assert losses.steps[~np.isfinite(losses.values)].tolist() == [2, 10]
    # Not read where the update was skipped; and what is read has no scale.
    gradients = run.series("gradient:0.weight", "l2")
    assert gradients.steps.tolist() == [0, 1, *range(3, 10), *range(11, 16)]
    assert gradients.values.max() < 1.0


@pytest.mark.parametrize("optimizer", [[], ["--wrapped", "--half", "--low"]], ids=["of fastai", "of torch, skipped"])
def test_a_held_step_is_replayed(optimizer: list[str], tmp_path: Path, ended: Command) -> None:
    ended(tmp_path, "-m", "barograph", "run", "--record", "--to", "run", "--rules", "none", SCRIPT, "--nan", *optimizer,
          code=EXIT_STOPPED)
    again = ended(tmp_path, "-m", "barograph", "replay", "run", "--no-samples", "--json", SCRIPT, "--nan", *optimizer)
    assert json.loads(again.stdout)["grade"] == "bitwise"


OWN_LOADER = """
import json
import random
import sys
from pathlib import Path

import fastai.callback.progress
import torch
from fastai.callback.core import Callback
from fastai.data.core import DataLoaders
from fastai.data.load import DataLoader, SkipItemException
from fastai.learner import Learner
from fastai.optimizer import Adam

random.seed(0)
torch.manual_seed(0)
inputs, fed = torch.randn(22, 4), []


class Pictures:
    items = [Path("pictures") / f"{index}.png" for index in range(22)]

    def __len__(self):
        return 22

    def __getitem__(self, index):
        if index == 7 and sys.argv[2] == "skips":
            raise SkipItemException
        return inputs[index], int(inputs[index, 0] > 0)


class Notes(Callback):
    def before_step(self):
        fed.append([int((inputs == row).all(1).nonzero()) for row in self.x])


model = torch.nn.Linear(4, 2)
loaders = DataLoaders(DataLoader(Pictures(), bs=5, shuffle=sys.argv[2] != "skips", num_workers=int(sys.argv[1])),
                      DataLoader(Pictures(), bs=10))
learner = Learner(loaders, model, opt_func=Adam, loss_func=torch.nn.CrossEntropyLoss(), cbs=Notes())
loaders.one_batch()
with learner.no_bar(), learner.no_logging():
    learner.fit(2)
Path("fed.json").write_text(json.dumps(fed))
"""


@pytest.mark.parametrize("workers", ["0", "2"])
def test_the_samples_and_files_of_fastai_loaders_are_recorded(workers: str, tmp_path: Path, ended: Command) -> None:
    (tmp_path / "train.py").write_text(OWN_LOADER)
    ended(tmp_path, "-m", "barograph", "run", "--to", "run", "--budget", "off", "--strict", "--rules", "none",
          "train.py", workers, "all")
    trace = barograph.open(tmp_path / "run").trace()
    told = [batch for step in range(10) for batch in trace.at(step)]
    assert [batch.indices.tolist() for batch in told] == json.loads((tmp_path / "fed.json").read_text())
    assert told[0].loader == "Pictures"
    assert told[0].names[0] == str(Path("pictures") / f"{told[0].indices[0]}.png")


def test_no_wrong_samples_are_recorded_if_a_fastai_loader_skips_some(tmp_path: Path, ended: Command) -> None:
    (tmp_path / "train.py").write_text(OWN_LOADER)
    ended(tmp_path, "-m", "barograph", "run", "--to", "run", "--budget", "off", "--strict", "--rules", "none",
          "train.py", "0", "skips")
    trace = barograph.open(tmp_path / "run").trace()
    fed = json.loads((tmp_path / "fed.json").read_text())
    assert trace.steps.tolist() == [0, 5]
    assert {step: [batch.indices.tolist() for batch in trace.at(step)] for step in trace.steps} == {
        step: [fed[step]] for step in trace.steps}
