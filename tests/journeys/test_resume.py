"""A killed training is resumed from the command line, with an unchanged script."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch

from forking import TORCH

FORKED = TORCH

SCRIPT = """
import os
import signal
import sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(3)
inputs = torch.randn(96, 8)
labels = inputs[:, :3].argmax(1)
model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters(), 1e-2)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.7)
loader = DataLoader(TensorDataset(inputs, labels), batch_size=8, shuffle=True)
total, history = 0, []
for epoch in range(4):
    running = 0.0
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        total += 1
        running += loss.item()
        if total == int(sys.argv[1]):
            os.kill(os.getpid(), signal.Signals[sys.argv[2]])
    scheduler.step()
    history.append(running / (i + 1))
    print(epoch, i, total, history)
torch.save(model.state_dict(), "last.pt")
"""


def weights(desk: Any) -> dict[str, torch.Tensor]:
    found: dict[str, torch.Tensor] = torch.load(desk.folder / "last.pt")
    return found


@pytest.fixture(scope="module")
def killed(make_desk: Callable[[str], Any]) -> Any:
    """A training that was killed in its third epoch, and the result of an undisturbed one."""
    desk = make_desk("killed")
    desk.write("train.py", SCRIPT)
    ended = desk.python("train.py", "0", "SIGKILL")
    assert ended.code == 0, ended.err
    desk.whole, desk.printed = weights(desk), ended.text
    ended = desk.run("--rules", "none", "--budget", "off", "--checkpoint", "every=5", "train.py", "33", "SIGKILL")
    assert ended.code == -9, ended.err
    (desk.folder / "last.pt").unlink()
    return desk


def test_a_killed_training_resumes_bit_for_bit(killed: Any) -> None:
    names = sorted(path.name for path in (killed.folder / "run" / "checkpoints").glob("*-pid*.json"))
    assert [name[:13] for name in names if "next" not in name] == ["0000-00000020", "0000-00000025", "0000-00000030"]

    ended = killed.end(killed.start("barograph", "resume", "run", "train.py", "0", "SIGKILL"))

    assert ended.code == 0, ended.err
    assert ("resumed from step 30: batch and loss of the next step are bit-identical"
            in ended.err)
    for name, tensor in weights(killed).items():
        assert torch.equal(tensor, killed.whole[name]), name
    # What it printed before is not printed again, and what it prints is what it would have printed.
    assert ended.text.splitlines() == killed.printed.splitlines()[2:]
    steps = killed.open().series("loss:total").steps.tolist()
    # What the killed process had not handed over yet is lost, and nothing else; nothing is there twice.
    assert steps == sorted(set(steps))
    before = [step for step in steps if step < 30]
    assert before == list(range(len(before)))
    assert steps[len(before):] == list(range(30, 48))
    assert json.loads((killed.folder / "run" / "attempts" / "0001.json").read_text())["attempt"] == 1


def test_a_terminated_training_saves_a_checkpoint_and_resumes(killed: Any) -> None:
    ended = killed.run("--rules", "none", "--checkpoint", "1h", "train.py", "21", "SIGTERM", to="asked")
    assert ended.code == 79, ended.err
    assert "Received SIGTERM. A checkpoint was saved in checkpoints/0000-00000021-" in ended.err
    assert f"resume    barograph resume {killed.folder / 'asked'}   (from step 21)" in ended.err

    ended = killed.end(killed.start("barograph", "resume", "asked", "train.py", "0", "SIGKILL"))

    assert ended.code == 0, ended.err
    for name, tensor in weights(killed).items():
        assert torch.equal(tensor, killed.whole[name]), name


def test_a_script_that_compares_whole_evaluations_resumes_at_the_second_time(make_desk: Callable[[str], Any]) -> None:
    desk = make_desk("comparing")
    desk.write("train.py", SCRIPT.replace("    scheduler.step()", """
    with torch.no_grad():
        predictions = torch.cat([model(x) for x, _ in DataLoader(loader.dataset, batch_size=8)])
        assert (predictions.argmax(1) == labels).numel() == 96
    scheduler.step()"""))
    assert desk.python("train.py", "0", "SIGKILL").code == 0
    whole = weights(desk)
    desk.run("--rules", "none", "--budget", "off", "--checkpoint", "every=5", "train.py", "33", "SIGKILL")
    (desk.folder / "last.pt").unlink()

    first, second = (desk.end(desk.start("barograph", "resume", "run", "train.py", "0", "SIGKILL")) for _ in range(2))

    assert first.code != 0
    assert ("The script ended before it reached the position of the checkpoint: RuntimeError: The size of tensor a (8) "
            "must match") in first.err
    assert "the next attempt repeats them in full. Start it: barograph resume run …" in first.err
    assert second.code == 0, second.err
    assert "resumed from step 30: batch and loss of the next step are bit-identical" in second.err
    for name, tensor in weights(desk).items():
        assert torch.equal(tensor, whole[name]), name
