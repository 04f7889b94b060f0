"""Tuning scripts with jobs: from the command line, killed and continued, with trials that fail."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from barograph.machine.marked import kill_marked

SCRIPT = """
import argparse, pathlib, time
parser = argparse.ArgumentParser()
parser.add_argument("--x", type=float, required=True)
parser.add_argument("--hold", default="")
parser.add_argument("--seed", type=int, default=0)
options = parser.parse_args()
with open("FOLDER/starts.txt", "a") as file:
    file.write(f"{options.x}\\n")
while options.hold and pathlib.Path(options.hold).exists():
    time.sleep(0.05)
if options.x > 0.9:
    raise SystemExit("x is too large")
for epoch in (1, 2):
    print(f"epoch {epoch} score: {1 - (options.x - 0.5) ** 2 + 0.001 * options.seed}", flush=True)
"""
METRIC = ("--maximize", "score", "--metric", r"score=score: ([0-9.]+)")


@pytest.fixture
def jobs(desk: Any) -> Any:
    desk.environment |= {"BAROGRAPH_HOME": str(desk.folder / "home"), "BAROGRAPH_ROOT": str(desk.folder / "runs")}
    yield desk
    kill_marked("BAROGRAPH_HOME", str(desk.folder))  # nothing of a failed test may disturb others


def script(desk: Any) -> str:
    # Jobs run a copy of the folder, so what trials share has an absolute path.
    return SCRIPT.replace("FOLDER", str(desk.folder))


def test_a_study_finds_the_best_trial_and_says_how_to_rerun_it(jobs: Any) -> None:
    jobs.write("train.py", script(jobs))
    ended = jobs.end(jobs.start("barograph", "tune", "train.py", "--vary", "x=0.1,0.4,0.95", "--maximize", "score",
                                "--strategy", "grid", "--parallel", "2", "--name", "grid", "--seed", "1"))
    assert ended.code == 0, ended.err
    out = ended.out.decode()
    assert ended.err.startswith("barograph: starting study grid: 1 parameter, up to 20 trials, 2 at a time\n")
    assert "a seed does not make the study reproducible" in ended.err
    assert "best     trial" in out
    assert "score 0.99 with x=0.4" in out
    assert "command  python train.py --x 0.4" in out
    assert "barograph resubmit grid-00" in out
    shown = json.loads(jobs.end(jobs.start("barograph", "tune", "show", "grid", "--json")).out)
    assert {trial["parameters"]["x"]: trial["state"] for trial in shown["trials"]} == {
        0.1: "finished", 0.4: "finished", 0.95: "failed"}
    failed = next(trial for trial in shown["trials"] if trial["state"] == "failed")
    assert failed["reason"] == "x is too large"
    assert all(list(trial["curve"]) == ["1", "2"] for trial in shown["trials"] if trial["state"] == "finished")
    again = jobs.end(jobs.start("barograph", "tune", "train.py", "--vary", "x=0.1,0.4", *METRIC, "--name", "grid"))
    assert again.code == 2
    assert "There is a study named" in again.err


def test_a_killed_tuner_neither_loses_nor_repeats_a_trial(jobs: Any) -> None:
    jobs.write("train.py", script(jobs))
    hold = jobs.write("hold", "")
    tuner = jobs.start("barograph", "tune", "train.py", "--hold", hold, "--vary", "x=0..0.8", *METRIC,
                       "--jobs", "3", "--parallel", "2", "--strategy", "random", "--name", "killed")
    starts = jobs.folder / "starts.txt"
    jobs.wait_until(lambda: starts.exists() and len(starts.read_text().split()) == 2, "two trials have started")
    tuner.send_signal(signal.SIGKILL)
    tuner.wait()
    hold.unlink()
    ended = jobs.end(jobs.start("barograph", "tune", "resume", "killed", "--json"))
    assert ended.code == 0, ended.err
    trials = json.loads(ended.out)["trials"]
    assert [trial["state"] for trial in trials] == ["finished"] * 3
    assert sorted(map(float, starts.read_text().split())) == sorted(trial["parameters"]["x"] for trial in trials)


def test_a_study_whose_trials_all_fail_gives_up_and_names_the_cause(jobs: Any) -> None:
    jobs.write("train.py", script(jobs))
    ended = jobs.end(jobs.start("barograph", "tune", "train.py", "--vary", "speed=0..1", "--vary", "x=0..0.5", *METRIC,
                                "--jobs", "30", "--parallel", "2"))
    assert ended.code == 1
    out = ended.out.decode()
    assert "unrecognized arguments: --speed {speed}" in out
    assert out.count("trials (") == 1
    assert "30 trials" not in out
    jobs.write("silent.py", script(jobs).replace("score:", "result:"))
    ended = jobs.end(jobs.start("barograph", "tune", "silent.py", "--vary", "x=0.1,0.2", "--strategy", "grid", *METRIC))
    assert ended.code == 1
    assert "score was never reported: no line of the output matches" in ended.out.decode()


def test_a_job_is_tuned_and_stopped_from_python(jobs: Any) -> None:
    jobs.write("train.py", script(jobs))
    jobs.write("tune.py", """
from barograph.jobs import Job
from barograph.tune import tune_job
study = tune_job(Job(["train.py"]), {"x": [0.2, 0.6, 0.4]}, name="python", maximize=["score"], trials=2,
                 patterns={"score": "score: ([0-9.]+)"}, strategy="grid", parallel=2)
more = tune_job(Job(["train.py"]), {"x": [0.2, 0.6, 0.4]}, name="python", trials=3)
print(len(study.trials), len(more.trials), more.over)
""")
    done = jobs.python("tune.py")
    assert done.code == 0, done.err
    assert done.out.split()[:2] == [b"2", b"3"]
    stopped = jobs.end(jobs.start("barograph", "tune", "stop", "python"))
    assert b"has already ended" in stopped.out
    again = json.loads(jobs.end(jobs.start("barograph", "tune", "stop", "python", "--json")).out)
    assert again == {"name": "python", "over": "it reached its limit of 3 trials", "stopping": []}
    listed = json.loads(jobs.end(jobs.start("barograph", "tune", "list", "--json")).out)
    assert [study["name"] for study in listed] == ["python"]
    unknown = jobs.end(jobs.start("barograph", "tune", "show", "pyton"))
    assert unknown.code == 2
    assert 'There is no study named "pyton"' in unknown.err


def test_the_winner_is_confirmed_with_other_seeds(jobs: Any) -> None:
    jobs.write("train.py", script(jobs))
    ended = jobs.end(jobs.start("barograph", "tune", "train.py", "--vary", "x=0.1,0.5", *METRIC, "--strategy", "grid",
                                "--parallel", "2", "--confirm", "2", "--name", "sure"))
    assert ended.code == 0, ended.err
    assert "is better than trial" in ended.out.decode()
    confirmation = json.loads(jobs.end(jobs.start("barograph", "tune", "show", "sure", "--json")).out)["confirmation"]
    assert [round(value, 3) for value in confirmation["repeated"][0]["values"]] == [1.001, 1.002]


LATE_LOSER = """
import pathlib, sys, time
starts = pathlib.Path("FOLDER/starts.txt")
with starts.open("a") as file:
    file.write(sys.argv[-1] + chr(10))
is_good = len(starts.read_text().split()) <= GOOD
for epoch in (1, 2):
    print(f"score: {0.9 if is_good else 0.1}", flush=True)
while not is_good:
    time.sleep(0.05)
"""


@pytest.mark.parametrize(("rule", "good", "reason"), [
    ("median", 5, "worse than the median of 5 trials, 0.9: the best score up to step 1 is 0.1"),
    ("asha", 1, "rank 2 of 2 at step 1, with score 0.1: the best 1/3 go on"),
])
def test_a_trial_that_falls_behind_is_stopped_and_says_why(jobs: Any, rule: str, good: int, reason: str) -> None:
    # The last trial would never end by itself.
    jobs.write("train.py", LATE_LOSER.replace("FOLDER", str(jobs.folder)).replace("GOOD", str(good)))
    given = () if rule == "median" else ("--stop-rule", rule)
    ended = jobs.end(jobs.start("barograph", "tune", "train.py", "--vary", "x=0..1", *METRIC, "--strategy", "random",
                                "--jobs", str(good + 1), *given, "--name", "race"))
    assert ended.code == 0, ended.err
    trials = json.loads(jobs.end(jobs.start("barograph", "tune", "show", "race", "--json")).out)["trials"]
    assert [trial["state"] for trial in trials] == ["finished"] * good + ["stopped"]
    assert (trials[-1]["reason"], trials[-1]["cause"]) == (reason, "rule")
    assert reason in ended.err


def test_a_study_ends_after_its_time_and_lets_running_trials_end(jobs: Any) -> None:
    jobs.write("train.py", script(jobs))
    ended = jobs.end(jobs.start("barograph", "tune", "train.py", "--vary", "x=0..0.8", *METRIC, "--strategy", "random",
                                "--jobs", "1000", "--max-time", "3s", "--name", "short"))
    assert ended.code == 0, ended.err
    shown = json.loads(jobs.end(jobs.start("barograph", "tune", "show", "short", "--json")).out)
    assert shown["over"] == "it reached its time limit of 3.0 s"
    assert {trial["state"] for trial in shown["trials"]} == {"finished"}


def test_a_running_trial_shows_its_latest_value(jobs: Any) -> None:
    jobs.write("train.py", LATE_LOSER.replace("FOLDER", str(jobs.folder)).replace("GOOD", "0"))
    tuner = jobs.start("barograph", "tune", "train.py", "--vary", "x=0..1", *METRIC, "--strategy", "random",
                       "--jobs", "1", "--name", "live")
    live = jobs.folder / "runs" / "studies" / "live" / "study" / "live" / "values.json"
    jobs.wait_until(live.exists, "the tuner has read a value")
    shown = jobs.end(jobs.start("barograph", "tune", "show", "live")).out.decode()
    assert "so far, at step 2" in shown or "so far, at step 1" in shown
    latest = json.loads(jobs.end(jobs.start("barograph", "tune", "show", "live", "--json")).out)["latest"]
    assert latest["0"]["value"] == 0.1
    jobs.end(jobs.start("barograph", "tune", "stop", "live"))
    jobs.end(tuner)
