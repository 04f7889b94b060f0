"""A job whose instance is taken away after a notice repeats no step and computes what it would have computed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from barograph.jobs.interruptions.file import write_notice
from barograph.jobs.interruptions.notice import Notice
from barograph.jobs.job_log import EVENTS, EventLog
from barograph.store.urls import store_from_url

TRAIN = """
import os, sys, time
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(inputs, labels), batch_size=8, shuffle=True)
for epoch in range(6):
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    print("epoch", epoch, flush=True)
    while os.path.exists(sys.argv[1]) and epoch == 2:
        time.sleep(0.05)
"""

COMPARE = """
    with torch.no_grad():
        predictions = torch.cat([model(x) for x, _ in DataLoader(loader.dataset, batch_size=8)])
        print("accuracy", (predictions.argmax(1) == labels).float().mean().item())
"""


@pytest.fixture
def jobs(desk: Any) -> Any:
    desk.environment["BAROGRAPH_HOME"] = str(desk.folder / "home")
    desk.script(TRAIN)
    desk.write("hold", "")
    return desk


def submit(desk: Any, name: str) -> str:
    words = ("--name", name, "--spot", "--price", "3", "--spot-price", "1", "train.py", str(desk.folder / "hold"))
    ended = desk.end(desk.start("barograph", "submit", *words))
    assert ended.code == 0, ended.err
    return name


def wait(desk: Any, name: str) -> Mapping[str, Any]:
    ended = desk.end(desk.start("barograph", "wait", name, "--json"))
    assert ended.code == 0, ended.out
    found: Mapping[str, Any] = json.loads(ended.out)
    return found


def events(desk: Any, name: str) -> list[Any]:
    return EventLog(store_from_url(str(desk.folder / "barograph-runs" / name)), EVENTS).new()


def test_a_notice_that_comes_twice_loses_no_step(jobs: Any) -> None:
    name = submit(jobs, "warned")
    jobs.wait_until(lambda: "epoch 2" in jobs.end(jobs.start("barograph", "logs", name)).text, "it has trained")
    (started,) = [event for event in events(jobs, name) if event.kind == "started"]
    work = Path(started.data["handle"]["work"])
    for deadline_unix in (started.time_unix + 7200, started.time_unix + 3600):
        write_notice(work, Notice("file", "a test", deadline_unix))
    jobs.wait_until(lambda: any(event.kind == "notice" for event in events(jobs, name)), "the notice has come")
    (jobs.folder / "hold").unlink()
    warned = wait(jobs, name)
    assert (warned["phase"], warned["attempt"], warned["interruptions"]) == ("finished", 1, 1)
    assert warned["repeated_steps"] == 0
    requeued = [event.data["reason"] for event in events(jobs, name) if event.kind == "requeued"]
    assert requeued == ["The instance was taken away: a test."]
    assert warned["bill"]["interruptions"] == 1
    assert warned["bill"]["savings_percent"] == pytest.approx(200 / 3)
    whole = submit(jobs, "whole")
    assert wait(jobs, whole)["interruptions"] == 0
    losses = [jobs.open(f"barograph-runs/{job}").series("loss:cross_entropy").values.tolist() for job in (name, whole)]
    assert len(losses[0]) == 24
    assert losses[0] == losses[1]


def test_a_script_that_compares_whole_evaluations_is_resumed_by_the_attempt_after_the_next(jobs: Any) -> None:
    jobs.script(TRAIN.replace("    while", f"{COMPARE}    while"))
    name = submit(jobs, "comparing")
    jobs.wait_until(lambda: "epoch 2" in jobs.end(jobs.start("barograph", "logs", name)).text, "it has trained")
    (started,) = [event for event in events(jobs, name) if event.kind == "started"]
    write_notice(Path(started.data["handle"]["work"]), Notice("file", "a test", started.time_unix + 3600))
    jobs.wait_until(lambda: any(event.kind == "notice" for event in events(jobs, name)), "the notice has come")
    (jobs.folder / "hold").unlink()
    report = wait(jobs, name)
    assert (report["phase"], report["attempt"], report["interruptions"]) == ("finished", 2, 1)
    requeued = [event.data["reason"] for event in events(jobs, name) if event.kind == "requeued"]
    assert requeued[1].startswith("The script ended with exit code 1: The script ended before it reached the position "
                                  "of the checkpoint: RuntimeError: The size of tensor a (8) must match")
    assert requeued[1].endswith("Evaluations were shortened; the next attempt repeats them in full.")
    whole = submit(jobs, "whole")
    assert wait(jobs, whole)["interruptions"] == 0
    losses = [jobs.open(f"barograph-runs/{job}").series("loss:cross_entropy").values.tolist() for job in (name, whole)]
    assert losses[0] == losses[1]
