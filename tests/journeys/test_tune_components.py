"""Studies of jobs with real components: a bucket, PostgreSQL, spot instances, a Ray cluster, every algorithm."""

from __future__ import annotations

import csv
import json
import random
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from sqlalchemy import create_engine, text

from barograph.experiments.database import CATALOG_VARIABLE
from barograph.jobs.algorithms.registry import algorithms
from barograph.jobs.home import JobsHome
from barograph.jobs.interruptions.file import write_notice
from barograph.jobs.interruptions.notice import Notice
from barograph.jobs.job_log import EVENTS, EventLog, instance_folder
from barograph.jobs.job_report import view_of
from barograph.machine.marked import kill_marked
from barograph.store.urls import store_from_url
from barograph.tune.study import Study

BOWL = """
import os
x = float(os.environ["SM_HP_X"])
print(f"score: {1 - (x - 0.5) ** 2}", flush=True)
with open(os.environ["SM_MODEL_DIR"] + "/model.txt", "w") as file:
    file.write(str(x))
"""
METRIC = ("--maximize", "score", "--metric", r"score=score: ([0-9.]+)")


@pytest.fixture
def jobs(desk: Any) -> Iterator[Any]:
    desk.environment["BAROGRAPH_HOME"] = str(desk.folder / "home")
    yield desk
    kill_marked("BAROGRAPH_HOME", str(desk.folder))


def shown(jobs: Any, name: str) -> Any:
    return json.loads(jobs.end(jobs.start("barograph", "tune", "show", name, "--json")).out)


def test_a_study_in_a_bucket_with_a_catalog_in_postgresql(
    jobs: Any, s3_url: str, postgresql: str, tmp_path: Path
) -> None:
    engine = create_engine(postgresql)
    with engine.begin() as connection:
        connection.execute(text("DROP SCHEMA public CASCADE"))
        connection.execute(text("CREATE SCHEMA public"))
    engine.dispose()
    jobs.environment[CATALOG_VARIABLE] = postgresql
    jobs.write("train.py", BOWL)
    ended = jobs.end(jobs.start("barograph", "tune", "train.py", "--vary", "x=0.1,0.4,0.8", *METRIC, "--strategy",
                                "grid", "--parallel", "2", "--name", "far", "--to", s3_url))
    assert ended.code == 0, ended.err
    best = Study.open(f"{s3_url}/studies/far").best
    assert best.parameters == {"x": 0.4}
    assert "score 0.99 with x=0.4" in ended.text
    fetched = jobs.end(jobs.start("barograph", "wait", best.job, "--model", tmp_path / "model"))
    assert fetched.code == 0, fetched.err
    assert (tmp_path / "model/model.txt").read_text("utf-8") == "0.4"
    found = jobs.end(jobs.start("barograph", "experiments", "far", "--root", s3_url))
    assert found.code == 0, found.err
    assert all(f"far-{number:03d}" in found.text for number in range(3))
    assert not (jobs.folder / "barograph-runs").exists()


def test_a_trial_on_a_spot_instance_that_is_taken_away_goes_on(jobs: Any) -> None:
    jobs.write("train.py", """
import os, pathlib, time
saved = pathlib.Path(os.environ["SM_CHECKPOINT_DIR"], "attempts", "count.txt")
count = int(saved.read_text()) if saved.exists() else 0
saved.parent.mkdir(exist_ok=True)
saved.write_text(str(count + 1))
print(f"score: 0.{count + 1}", flush=True)
if count == 0:
    print("saved", flush=True)
    time.sleep(3600)
""")
    tuner = jobs.start("barograph", "tune", "train.py", "--spot", "--vary", "x=0.1,0.4", *METRIC, "--jobs", "1",
                       "--strategy", "grid", "--name", "spot", "--to", "runs")
    home = JobsHome(jobs.environment["BAROGRAPH_HOME"])
    jobs.wait_until(lambda: "spot-000" in [record.name for record in home.all()], "the trial was submitted")
    run = store_from_url((jobs.folder / "runs/spot-000").as_uri())
    jobs.wait_until(lambda: "saved" in jobs.end(jobs.start("barograph", "logs", "spot-000")).text, "it has saved")
    (handle,) = [event.data["handle"] for event in EventLog(run, EVENTS).new() if event.kind == "started"]
    write_notice(Path(handle["work"]), Notice("file", "a test", None))
    ended = jobs.end(tuner)
    assert ended.code == 0, ended.err
    (trial,) = shown(jobs, "spot")["trials"]
    assert (trial["state"], trial["values"], trial["curve"]) == ("finished", [0.2], {"1": 0.1, "2": 0.2})
    assert view_of("spot-000", home).report().interruptions == 1


def test_a_study_is_interrupted_resumed_and_stopped_from_another_shell(jobs: Any) -> None:
    jobs.write("train.py", 'import time\nprint("score: 0.5", flush=True)\ntime.sleep(3600)\n')
    tuner = jobs.start("barograph", "tune", "train.py", "--vary", "x=0.1..0.4", *METRIC, "--parallel", "2", "--name",
                       "long")
    home = JobsHome(jobs.environment["BAROGRAPH_HOME"])
    jobs.wait_until(lambda: len([1 for record in home.all() if view_of(record.name, home).report().doing == "training"]
                                ) == 2, "two trials train")
    tuner.send_signal(signal.SIGINT)
    interrupted = jobs.end(tuner)
    assert interrupted.code == 130
    assert "to continue the study:  barograph tune resume long" in interrupted.err
    tuner = jobs.start("barograph", "tune", "resume", "long", stderr=subprocess.PIPE)
    jobs.read_until(tuner.stderr, b"trial 1 started")
    said = jobs.end(jobs.start("barograph", "tune", "stop", "long"))
    assert "Stopping long and 2 jobs." in said.text
    assert jobs.end(tuner).code == 1
    trials = shown(jobs, "long")["trials"]
    assert [(trial["state"], trial["cause"]) for trial in trials] == [("stopped", "user")] * 2


def test_a_study_ends_at_its_cost(jobs: Any) -> None:
    jobs.write("train.py", BOWL)
    ended = jobs.end(jobs.start("barograph", "tune", "train.py", "--vary", "x=0.1..0.4", *METRIC, "--price", "1000000",
                                "--max-cost", "1", "--jobs", "9", "--name", "dear"))
    assert ended.code == 0, ended.err
    found = shown(jobs, "dear")
    assert len(found["trials"]) == 1
    assert found["trials"][0]["cost"] > 1
    assert "(limit 1)" in found["over"]
    store = store_from_url((jobs.folder / "barograph-runs/dear-000").as_uri())
    (stored,) = [event for event in EventLog(store, instance_folder(0, 0)).new() if event.kind == "uploading"]
    assert stored.data["cores"] is None or 0 < stored.data["cores"] < 2, "for packing; None on a busy machine"


DIVERGES = """
import argparse
import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
options = parser.parse_args()
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=options.lr)
inputs = torch.randn(64, 8)
targets = inputs.sum(1, keepdim=True)
for step in range(100000 if options.lr > 1 else 300):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
"""


def test_a_trial_that_breaks_is_stopped_and_the_table_says_why(jobs: Any) -> None:
    jobs.write("train.py", DIVERGES)
    ended = jobs.end(jobs.start("barograph", "tune", "train.py", "--vary", "lr=0.05,0.1,1000,2000", "--minimize",
                                "loss", "--strategy", "grid", "--seed", "1", "--parallel", "2", "--name", "broken"))
    assert ended.code == 0, ended.err
    found = shown(jobs, "broken")
    states = {trial["parameters"]["lr"]: (trial["state"], trial["cause"]) for trial in found["trials"]}
    assert states == {0.05: ("finished", None), 0.1: ("finished", None), 1000: ("stopped", "finding"),
                      2000: ("stopped", "finding")}
    reasons = [trial["reason"] for trial in found["trials"] if trial["reason"]]
    assert all("since step" in reason for reason in reasons), reasons
    assert all(f"stopped. {reason}" in ended.err for reason in reasons), ended.err


def houses(path: Path, *, classes: bool) -> Path:
    draws = random.Random(3)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["rooms", "age", "price"])
        for _ in range(120):
            rooms, age = draws.random(), draws.random()
            price = 3 * rooms - age + 0.1 * draws.random()
            rows.writerow([rooms, age, int(price > 1) if classes else price])
    return path


def pictures(folder: Path) -> Path:
    draws = np.random.default_rng(3)
    for name, low in (("dark", 0), ("light", 128)):
        (folder / name).mkdir(parents=True)
        for number in range(12):
            Image.fromarray(draws.integers(low, low + 128, (16, 16, 3), dtype=np.uint8)).save(
                folder / name / f"{number}.png")
    return folder


@pytest.mark.parametrize("algorithm", [algorithm.name for algorithm in algorithms()])
def test_every_algorithm_is_tuned_without_a_search_space(jobs: Any, algorithm: str) -> None:
    if algorithm == "image-classifier":
        words = [f"train={pictures(jobs.folder / 'pictures')}", "epochs=2"]
    else:
        table = houses(jobs.folder / "houses.csv", classes=algorithm in ("linear", "mlp"))
        words = [f"train={table}", "--target", "price"]
    if algorithm == "linear":
        words.append("task=classification")
    ended = jobs.end(jobs.start("barograph", "tune", "--algorithm", algorithm, "--data", *words, "--jobs", "2",
                                "--parallel", "2", "--name", "auto", "--seed", "1"))
    assert ended.code == 0, ended.err
    assert "best     trial" in ended.text
    assert "; refitted on all " in ended.text
    assert [trial["state"] for trial in shown(jobs, "auto")["trials"]].count("finished") >= 1
