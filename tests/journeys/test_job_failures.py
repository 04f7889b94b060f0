"""Jobs that fail: one sentence says why, the exit code says who is at fault, and nothing is left."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from barograph.machine.marked import marked_processes


@pytest.fixture
def jobs(desk: Any) -> Any:
    desk.environment["BAROGRAPH_HOME"] = str(desk.folder / "home")
    return desk


def submit(desk: Any, name: str, *words: str | Path) -> None:
    ended = desk.end(desk.start("barograph", "submit", "--name", name, *words))
    assert ended.code == 0, ended.err


def wait(desk: Any, name: str) -> tuple[int, str, str]:
    """Return exit code, phase and reason of a job at its end."""
    ended = desk.end(desk.start("barograph", "wait", name, "--json"))
    report: Mapping[str, Any] = json.loads(ended.out)
    return ended.code, report["phase"], report["reason"]


def is_nothing_left(desk: Any) -> bool:
    left = [path for folder in ("work", "secrets") for path in (desk.folder / "home" / folder).glob("*")]
    return not marked_processes("BAROGRAPH_HOME", str(desk.folder)) and not left


def test_every_failure_has_a_sentence_and_an_exit_code_that_says_who_is_at_fault(jobs: Any) -> None:
    jobs.write("never/train.py", "import time\nwhile True:\n    time.sleep(0.05)\n")
    jobs.write("worker/train.sh", "test $RANK = 0 || { echo 'KeyError: lr'; exit 3; }\n")
    jobs.write("packages/train.py", "")
    jobs.write("packages/requirements.txt", "nosuch==1\n")
    jobs.environment["UV_NO_INDEX"] = "1"
    top = jobs.folder
    for name, words in {
        "never": ("--max-runtime", "2s", "train.py"),
        "hurried": ("--max-wait", "0.001s", "true"),
        "worker": ("--processes", "2", "sh", "train.sh"),
        "packages": ("train.py",),
    }.items():
        jobs.folder = top / name
        jobs.folder.mkdir(exist_ok=True)
        submit(jobs, name, "--to", top / "runs" / name, *words)
    jobs.folder = top
    assert wait(jobs, "hurried") == (
        75, "failed", "Not finished within 1.0 ms (max-wait). Raise --max-wait to wait longer.")
    assert wait(jobs, "never") == (
        79, "stopped", "Stopped: it reached max-runtime (2.0 s); raise it to train longer.")
    assert wait(jobs, "worker") == (1, "failed", "The script ended with exit code 3: KeyError: lr")
    code, phase, reason = wait(jobs, "packages")
    assert (code, phase) == (1, "failed")
    assert reason.startswith("The requirements cannot be installed: Because nosuch was not found")
    jobs.wait_until(lambda: is_nothing_left(jobs), "nothing of the jobs is left")


def test_of_two_jobs_that_are_submitted_under_one_name_at_the_same_moment_one_runs(jobs: Any) -> None:
    for name in ("one", "two"):
        jobs.write(f"{name}.sh", f"echo {name}\n")
    started = {name: jobs.start("barograph", "submit", "--name", "digits", "sh", f"{name}.sh")
               for name in ("one", "two")}
    ended = {name: jobs.end(process) for name, process in started.items()}
    (won,) = [name for name, end in ended.items() if end.code == 0]
    (lost,) = [end for end in ended.values() if end.code != 0]
    assert lost.code == 2
    assert lost.err.startswith(('barograph: There is a job named "digits" already', "barograph: There is a job at "))
    assert lost.err.count("\n") == 1
    assert wait(jobs, "digits")[0] == 0
    assert jobs.end(jobs.start("barograph", "logs", "digits")).text == f"{won}\n"
    assert [path.name for path in (jobs.folder / "barograph-runs").iterdir() if path.is_dir()] == ["digits"]
    jobs.wait_until(lambda: is_nothing_left(jobs), "nothing of the jobs is left")


def test_everything_that_is_wrong_with_a_job_is_said_before_anything_is_started(jobs: Any) -> None:
    jobs.write("data/a.bin", "x")
    done = jobs.end(jobs.start(
        "barograph", "submit", "--instances", "2", "--cpus", "1000", "--memory", "100TiB", "--gpus", "100",
        "--data", "train=data:sharded", "--data", "val=dta", "--requirements", "needs.txt", "trian.py"))
    assert done.code == 2
    for problem in (
        "The job needs 2000 CPUs; this machine has ",
        "The job needs 200.0 TiB of memory; this machine has ",
        "The job needs 200 GPUs; this machine has ",
        "Channel train has 1 object for 2 instances, so 1 would get no data. Use 1 instance, or remove :sharded (",
        'Channel val does not exist: there is no "dta" in ',
        "The file with the requirements does not exist (",
        "No script at trian.py.",
    ):
        assert problem in done.err
    engine = jobs.end(jobs.start("barograph", "submit", "--engine", "lokal", "data/a.bin"))
    assert (engine.code, engine.err) == (2, 'barograph: There is no engine "lokal". Choose from local, ray.\n')
    assert not (jobs.folder / "barograph-runs").exists()
    jobs.wait_until(lambda: is_nothing_left(jobs), "nothing of the commands is left")
