"""`barograph import tensorboard` and `barograph export tensorboard`, as a person calls them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barograph.cli.main import EXIT_ERROR
from barograph.wire.framing import framed_all
from barograph.wire.writing import first_event, scalar, summary_event, tagged

Call = Callable[..., Any]

SCRIPT = """
import torch
from torch.utils.tensorboard import SummaryWriter

torch.manual_seed(0)
inputs, truth = torch.randn(256, 8), torch.randn(256, 1)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=3.0)
with SummaryWriter("logs") as writer:
    for step in range(150):
        loss = torch.nn.functional.mse_loss(model(inputs), truth)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        writer.add_scalar("Loss/train", loss, step)
        writer.add_scalar("lr", 3.0, step)
        if step < 3:  # PyTorch refuses histograms of NaN
            writer.add_histogram("fc.weight", model.weight, step)
"""


def test_from_a_script_with_a_summary_writer_to_its_findings(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT, encoding="utf-8")
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run([sys.executable, "train.py"], capture_output=True, text=True, timeout=600, env=environment)
    assert done.returncode == 0, done.stderr

    said = call("import", "tensorboard", "logs", "-o", "run")
    assert said.code == 0
    assert "Loss/train → train loss:total" in said.out
    assert "lr → train learning_rate:group0" in said.out
    assert call("watch", "run", "--once").code == 0
    findings = {item["code"]: item for item in call("show", "run", "--json").json["findings"]}
    # A rate of 3 makes this loss grow until it is no number any more.
    assert "N101" in findings
    assert findings["N101"]["mode"] == "train"

    assert call("export", "tensorboard", "run").code == 0
    told = call("export", "tensorboard", "run", "--json").json
    assert told["folders"].keys() == {"train"}
    assert told["texts"] == len(findings)
    # And back: what TensorBoard is shown of a run is a run again.
    again = call("import", "tensorboard", "tensorboard", "-o", "again", "--json").json
    assert [run["name"] for run in again["runs"]] == ["run"]
    assert again["runs"][0]["losses"] == {"train:loss/total": "train loss:total"}
    assert again["runs"][0]["texts"] == len(findings)


def put(path: Path, *, cut: int = 0) -> None:
    path.parent.mkdir(parents=True)
    events = [first_event(1e9), *(summary_event(1e9, step, [scalar(tagged("loss", "scalars"), 1.0)])
                                  for step in range(3))]
    path.write_bytes(framed_all(events)[: -cut or None])


def test_damage_is_named_and_counts(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "logs" / "events.out.tfevents.1.host", cut=3)
    said = call("import", "tensorboard", "logs/events.out.tfevents.1.host", "-o", "run")
    assert said.code == 1
    assert "imported in part: 1 run with 2 numbers." in said.out
    assert "events.out.tfevents.1.host: at byte" in said.out


def test_names_cannot_steer_the_terminal(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "logs").mkdir()
    event = summary_event(1e9, 0, [scalar(tagged("\x1b[2Jtag", "scalars"), 1.0)])
    (tmp_path / "logs" / "events.out.tfevents.1.host").write_bytes(framed_all([event]))
    said = call("import", "tensorboard", "logs", "-o", "run")
    assert "tag" in said.out
    assert "\x1b[2J" not in said.out


def test_several_runs_are_told_one_by_one(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        put(tmp_path / "logs" / name / "events.out.tfevents.1.host")
    assert "imported: 2 runs with 6 numbers." in call("import", "tensorboard", "logs", "-o", "runs").out
    assert call("show", "runs/b", "--json").json["numbers"][0]["key"] == "loss:total"


@pytest.mark.parametrize(("words", "said"), [
    (["import", "tensorboard", "nowhere", "-o", "run"], "No event files"),
    (["export", "tensorboard", "nowhere"], "No run at nowhere"),
])
def test_where_there_is_nothing_it_says_so(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = call(*words)
    assert ended.code == EXIT_ERROR
    assert said in ended.err
    assert list(tmp_path.iterdir()) == []


def test_events_of_others_are_not_overwritten(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "logs" / "events.out.tfevents.1.host")
    call("import", "tensorboard", "logs", "-o", "run")
    ended = call("export", "tensorboard", "run", "-o", "logs")
    assert ended.code == EXIT_ERROR
    assert "The directory has events of something else" in ended.err
    assert [path.name for path in (tmp_path / "logs").rglob("*")] == ["events.out.tfevents.1.host"]
