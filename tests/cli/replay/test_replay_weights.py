"""Real steps are weighed: made again by the replayer itself, with each of their samples alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from barograph.capsule.order import ReplayOrder, ReplayResult, result_from_text
from barograph.capsule.weighing import Weighed
from barograph.cli.replay.replay_samples import guilty_of, heaviest_batch
from barograph.cli.replay.replay_weights import weights_of
from benchmarks.processes import clean_environment

SCRIPT = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
samples = {samples}
inputs = torch.randn(samples, 8)
targets = inputs[:, :1] + 0.3 * torch.randn(samples, 1)
{bad}
model = nn.Sequential(nn.Linear(8, 16), {layer}, nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), 1e-3)
for x, y in DataLoader(TensorDataset(inputs, targets), batch_size=samples):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    optimizer.step()
"""
CHECKS = "def always(update):\n    return True\n\n\ndef steep(update):\n    return update.norm > 20\n"


class Forks:
    """Records and makes steps again in forks of one process, so that torch is loaded once."""

    def __init__(self, folder: Path) -> None:
        self._server = subprocess.Popen([sys.executable, "-m", "benchmarks.replay.fork_server"], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=clean_environment(folder))

    def close(self) -> None:
        self._server.communicate()

    def ask(self, folder: Path, **request: Any) -> None:
        said = {"folder": str(folder), "script": str(folder / "train.py"), "said": str(folder / "said.txt")}
        self._server.stdin.write(json.dumps({**said, **request}) + "\n")
        self._server.stdin.flush()
        self._server.stdout.readline()


class Step:
    """A step that was held whatever it was."""

    def __init__(self, forks: Forks, folder: Path, script: str) -> None:
        self._forks, self._folder = forks, folder
        (folder / "train.py").write_text(script, encoding="utf-8")
        (folder / "checks.py").write_text(CHECKS, encoding="utf-8")
        forks.ask(folder, what="record", run=str(folder / "run"), recorder={"when": "checks:always"})
        self.order = ReplayOrder(str(folder / "run"), "", str(folder / "result.json"))
        self.order = replace(self.order, as_made=self.made_again(self.order).as_made)

    def made_again(self, order: ReplayOrder, *, quiet: bool = True) -> ReplayResult:
        Path(order.result).unlink(missing_ok=True)
        self._forks.ask(self._folder, what="replay", order=order.to_text())
        return result_from_text(Path(order.result).read_text(encoding="utf-8"))

    def weighed(self) -> Weighed:
        result = self.made_again(self.order)
        return weights_of(self.made_again, self.order, result, heaviest_batch(result))


@pytest.fixture(scope="module")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    made = Forks(tmp_path_factory.mktemp("home"))
    yield made
    made.close()


def step(forks: Forks, folder: Path, *, samples: int, bad: str = "", layer: str = "nn.Identity()") -> Step:
    return Step(forks, folder, SCRIPT.format(samples=samples, bad=bad, layer=layer))


def test_a_label_far_off_is_found(forks: Forks, tmp_path: Path) -> None:
    found = step(forks, tmp_path, samples=9, bad="targets[6] = 90.0", layer="nn.LayerNorm(16)").weighed()
    assert (found.outliers, found.alone[0].row) == ((6,), 6)
    # Of gradients as they were before the script clipped them.
    assert found.whole.norm > 5 * found.without.norm > 0.05


def test_where_nothing_is_wrong_no_sample_is_named(forks: Forks, tmp_path: Path) -> None:
    found = step(forks, tmp_path, samples=8, layer="nn.BatchNorm1d(16)").weighed()
    assert (found.outliers, len(found.alone), found.by is not None) == ((), 8, True)


def test_the_users_function_is_asked_about_each_part_with_norms_from_before_clipping(
    forks: Forks, tmp_path: Path
) -> None:
    held = step(forks, tmp_path, samples=3, bad="targets[1] = 90.0")
    order = replace(held.order, when="checks:steep")
    result = held.made_again(order)
    assert (result.own.holds, result.own.failure) == (True, "")

    def fails(again: ReplayResult) -> bool:
        return again.own is not None and again.own.holds

    assert guilty_of(held.made_again, order, result, 0, fails).rows == (1,)
    answer = held.made_again(replace(order, when="checks:missing")).own
    assert (answer.holds, "which cannot be imported" in answer.failure) == (False, True)
