"""Training jobs on this machine: submitted, followed, stopped, killed and resumed."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from barograph.errors import BarographError
from barograph.jobs.job_log import EVENTS, EventLog
from barograph.machine.host import cpus_to_use
from barograph.machine.marked import kill_marked, marked_processes, program_of
from barograph.store.urls import store_from_url
from journeys.conftest import Ended

TRAIN = """
import os, sys, time
import torch
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(inputs, labels), batch_size=8, shuffle=True)
for epoch in range(int(sys.argv[1])):
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
    print("epoch", epoch, flush=True)
    while os.path.exists(sys.argv[2]) and epoch == 2:
        time.sleep(0.05)
torch.save(model.state_dict(), os.environ["SM_MODEL_DIR"] + "/weights.pt")
"""


@pytest.fixture
def jobs(desk: Any) -> Any:
    desk.environment["BAROGRAPH_HOME"] = str(desk.folder / "home")
    return desk


def submit(desk: Any, *words: str | Path, prefix: Sequence[str] = ()) -> str:
    ended: Ended = desk.end(desk.start(*prefix, "barograph", "submit", *words))
    assert ended.code == 0, ended.err
    return ended.text.strip()


def report(desk: Any, name: str) -> Mapping[str, Any]:
    listed: list[Mapping[str, Any]] = json.loads(desk.end(desk.start("barograph", "jobs", "--json")).out)
    return next(job for job in listed if job["name"] == name)


def wait(desk: Any, name: str) -> tuple[int, Mapping[str, Any]]:
    ended = desk.end(desk.start("barograph", "wait", name, "--json"))
    return ended.code, json.loads(ended.out)


def agents(desk: Any, name: str) -> list[Mapping[str, Any]]:
    """Return the handles of the instances that were started, of all attempts."""
    log = EventLog(store_from_url(str(desk.folder / "barograph-runs" / name)), EVENTS)
    return [event.data["handle"] for event in log.new() if event.kind == "started"]


def recorded_steps(desk: Any, name: str) -> int:
    """Return how many losses are in the store."""
    try:
        return len(desk.open(f"barograph-runs/{name}").series("loss:cross_entropy").values)
    except BarographError:
        return 0


def controllers(desk: Any) -> list[int]:
    return [pid for pid in marked_processes("BAROGRAPH_HOME", str(desk.folder))
            if (program := program_of(pid)) and "barograph.jobs.controller" in program.arguments]


def nothing_left(desk: Any) -> Callable[[], bool]:
    """Return what tells whether no process of the jobs and no directory of an instance is left."""
    def is_so() -> bool:
        work = desk.folder / "home" / "work"
        return not marked_processes("BAROGRAPH_HOME", str(desk.folder)) and not (work.exists() and any(work.iterdir()))

    return is_so


def test_a_script_becomes_a_model_with_one_command(jobs: Any) -> None:
    jobs.script(TRAIN)
    done = jobs.end(jobs.start("barograph", "submit", "--name", "digits", "--wait", "train.py", "3", "none"))
    assert done.code == 0, done.err
    assert done.text == "epoch 0\nepoch 1\nepoch 2\n" + done.text.partition("epoch 2\n")[2]
    assert "barograph: job digits finished." in done.err
    assert "  files   model/weights.pt\n" in done.err
    assert jobs.end(jobs.start("barograph", "logs", "digits")).text == done.text
    shown = json.loads(jobs.end(jobs.start("barograph", "show", "digits", "--json")).out)
    assert shown["state"] == "finished"
    jobs.wait_until(nothing_left(jobs), "nothing of the job is left")


def test_a_job_is_searchable_and_its_model_leads_back_to_its_data(jobs: Any) -> None:
    jobs.write("digits/a.csv", "1,2\n")
    jobs.write("read.py", "import os, sys\nwith open(os.environ['SM_MODEL_DIR'] + '/sum.txt', 'w') as file:\n"
                          "    file.write(open(sys.argv[1] + '/a.csv').read())\n")
    done = jobs.end(jobs.start("barograph", "submit", "--name", "sum", "--data", "train=digits", "--tag", "kind=demo",
                               "--wait", "read.py", "{data.train}", "--lr", "0.5"))
    assert done.code == 0, done.err
    steps = json.loads(jobs.end(jobs.start("barograph", "lineage", "model/sum.txt", "--direction", "up",
                                           "--json")).out)
    assert [(step["source_name"], step["relation"], step["target_name"]) for step in steps if
            step["relation"] != "part_of"] == [
        ("artifact model/sum.txt", "made_by", "run sum"), ("run sum", "read", "artifact train")]
    found = jobs.end(jobs.start("barograph", "search", "params.lr = 0.5 and tags.kind = 'demo'"))
    assert (found.code, found.text.splitlines()[1].split("\t")[0]) == (0, "sum"), found.text + found.err


def test_the_reason_and_the_exit_code_of_a_failed_script_are_told(jobs: Any) -> None:
    jobs.write("bad.py", "import sys\nprint('begin')\nraise ValueError('no data')\n")
    done = jobs.end(jobs.start("barograph", "submit", "--name", "bad", "--wait", "bad.py"))
    assert done.code == 1
    assert "barograph: job bad failed. The script ended with exit code 1: ValueError: no data\n" in done.err


def test_a_job_that_cannot_run_is_refused_before_it_starts(jobs: Any) -> None:
    jobs.write("train.py", "")
    many = jobs.end(jobs.start("barograph", "submit", "--cpus", "100000", "train.py"))
    assert many.code == 2
    assert "The job needs 100000 CPUs; this machine has" in many.err
    missing = jobs.end(jobs.start("barograph", "submit", "--dry-run", "trian.py", "{data.train}"))
    assert missing.code == 2
    assert "problem: No script at trian.py.\n" in missing.text
    assert 'problem: The command uses {data.train}, but the job has no channel "train": --data train=…\n' \
        in missing.text
    assert not (jobs.folder / "barograph-runs").exists()


def test_an_instance_that_is_killed_is_replaced_and_the_training_goes_on_where_it_was(jobs: Any) -> None:
    jobs.script(TRAIN)
    jobs.write("hold", "")
    words = ("--checkpoint-every", "every=1", "train.py", "6", str(jobs.folder / "hold"))
    killed = submit(jobs, "--name", "killed", *words)
    jobs.wait_until(lambda: recorded_steps(jobs, killed) == 12, "three epochs are recorded")
    handle = agents(jobs, killed)[0]
    # Losses reach the store up to two seconds after they were logged, checkpoints at once.
    records = jobs.folder / "barograph-runs" / killed / "records"
    jobs.wait_until(lambda: any(records.rglob("*.parquet")), "its losses are in the store")
    # While it holds: the losses of further steps might not have reached the store, and their checkpoints would.
    assert kill_marked("BAROGRAPH_INSTANCE", handle["mark"])
    (jobs.folder / "hold").unlink()
    code, after = wait(jobs, killed)
    assert (code, after["phase"], after["interruptions"], after["attempt"]) == (0, "finished", 1, 1)
    assert after["repeated_steps"] <= 1
    whole = submit(jobs, "--name", "whole", *words)
    assert wait(jobs, whole)[0] == 0
    losses = [jobs.open(f"barograph-runs/{name}").series("loss:cross_entropy").values.tolist()
              for name in (killed, whole)]
    assert len(losses[0]) == 24
    assert losses[0] == losses[1]


def without_controller(desk: Any, *prefix: str) -> str:
    """Submit a job that runs until the file `hold` is gone, and kill its controller once it runs; return its name.

    Args:
        desk: Gets the file `starts`, with a word for each start of the script.
        prefix: Program that runs the command.
    """
    desk.write("slow.py", "import os, sys, time\nopen(sys.argv[1], 'a').write('started ')\n"
                          "while os.path.exists(sys.argv[2]):\n    time.sleep(0.05)\n")
    desk.write("hold", "")
    name = submit(desk, "slow.py", desk.folder / "starts", desk.folder / "hold", prefix=prefix)
    desk.wait_until((desk.folder / "starts").exists, "the script has started")
    (controller,) = desk.wait_until(lambda: found if len(found := controllers(desk)) == 1 else (), "there is one")
    os.kill(controller, signal.SIGKILL)
    return name


def test_a_killed_controller_is_replaced_and_no_job_starts_twice(jobs: Any) -> None:
    name = without_controller(jobs)
    assert report(jobs, name)["phase"] == "running"
    (jobs.folder / "hold").unlink()
    assert wait(jobs, name)[0] == 0
    assert (jobs.folder / "starts").read_text() == "started "
    jobs.wait_until(nothing_left(jobs), "nothing of the job is left")


def test_jobs_of_a_killed_controller_are_adopted(jobs: Any) -> None:
    assert jobs.end(jobs.start("barograph", "jobs", "adopt")).text == "No open jobs.\n"
    name = without_controller(jobs)
    assert jobs.end(jobs.start("barograph", "jobs", "adopt")).text == f"A new controller manages 1 job: {name}\n"
    jobs.wait_until(lambda: controllers(jobs), "it runs")
    (jobs.folder / "hold").unlink()
    assert wait(jobs, name)[0] == 0
    assert (jobs.folder / "starts").read_text() == "started "
    wrong = jobs.end(jobs.start("barograph", "jobs", name))
    assert (wrong.code, f'"{name}" is not "adopt". To show a job:' in " ".join(wrong.err.split())) == (2, True)


def test_a_job_on_a_machine_that_shares_the_directory_is_stopped_from_another_one(jobs: Any) -> None:
    elsewhere = ("unshare", "--uts", "--map-root-user", "sh", "-c", 'hostname elsewhere && exec "$0" "$@"')
    if jobs.end(jobs.start(*elsewhere, "true")).code:
        pytest.skip("this machine has no namespaces for host names")
    name = without_controller(jobs, *elsewhere)
    assert agents(jobs, name)[0]["host"] == "elsewhere"
    assert jobs.end(jobs.start("barograph", "stop", name)).code == 0
    code, stopped = wait(jobs, name)
    assert (code, stopped["phase"], stopped["reason"]) == (79, "stopped", "Stopped: requested by the user.")
    jobs.wait_until(nothing_left(jobs), "nothing of the job is left")


def test_jobs_wait_for_their_turn_and_are_stopped_in_the_queue_and_while_they_run(jobs: Any) -> None:
    jobs.write("slow.py", "import time\nprint('begin', flush=True)\ntime.sleep(600)\n")
    cpus = f"{cpus_to_use():g}"
    first = submit(jobs, "--name", "first", "--cpus", cpus, "slow.py")
    second = submit(jobs, "--name", "second", "--cpus", cpus, "slow.py")
    jobs.wait_until(lambda: "begin" in jobs.end(jobs.start("barograph", "logs", first)).text, "it has begun")
    waiting = jobs.wait_until(lambda: found if (found := report(jobs, second))["reason"] else None, "it has a reason")
    assert (waiting["phase"], waiting["reason"]) == ("queued", f"Waits for {cpus} of {cpus} CPUs; 0 are free.")
    for name in (second, first):
        assert jobs.end(jobs.start("barograph", "stop", name)).code == 0
        code, ended = wait(jobs, name)
        assert (code, ended["phase"], ended["reason"]) == (79, "stopped", "Stopped: requested by the user.")
    jobs.wait_until(nothing_left(jobs), "nothing of the jobs is left")


def test_a_job_whose_files_are_gone_is_forgotten_and_leaves_its_place_to_the_next(jobs: Any) -> None:
    jobs.write("slow.py", "import time\nprint('begin', flush=True)\ntime.sleep(600)\n")
    cpus = f"{cpus_to_use():g}"
    gone = submit(jobs, "--name", "gone", "--cpus", cpus, "slow.py")
    jobs.wait_until(lambda: "begin" in jobs.end(jobs.start("barograph", "logs", gone)).text, "it has begun")
    after = submit(jobs, "--name", "after", "--cpus", cpus, "true")
    shutil.rmtree(jobs.folder / "barograph-runs" / gone, ignore_errors=True)
    assert report(jobs, gone)["reason"].startswith("Its files are gone. To forget the job:  barograph stop gone (")
    stopped = jobs.end(jobs.start("barograph", "stop", gone))
    assert (stopped.code, stopped.text) == (
        0, "The files of gone are gone. Barograph ends its processes and no longer lists it.\n")
    assert wait(jobs, after)[0] == 0
    jobs.wait_until(nothing_left(jobs), "nothing of the jobs is left")


def test_what_a_script_leaves_running_is_ended(jobs: Any) -> None:
    jobs.write("forks.py", "import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', 'import time; "
                           "time.sleep(600)'], start_new_session=True)\n")
    name = submit(jobs, "forks.py")
    assert wait(jobs, name)[0] == 0
    jobs.wait_until(nothing_left(jobs), "nothing of the job is left")


def test_two_jobs_of_one_name_are_refused(jobs: Any) -> None:
    jobs.write("train.py", "")
    submit(jobs, "--name", "digits", "train.py")
    second = jobs.end(jobs.start("barograph", "submit", "--name", "digits", "train.py"))
    assert second.code == 2
    assert second.err == 'barograph: There is a job named "digits" already. Use another --name.\n'
    assert wait(jobs, "digits")[0] == 0


def test_a_job_is_submitted_again_with_other_hyperparameters(jobs: Any) -> None:
    jobs.write("print.py", "import sys\nprint(sys.argv[1:])\n")
    jobs.write("job.toml", 'command = ["print.py", "--lr", "0.1"]\nname = "one"\n[hyperparameters]\nseed = 1\n')
    assert submit(jobs, "job.toml", "lr=0.2") == "one"
    assert wait(jobs, "one")[0] == 0
    assert jobs.end(jobs.start("barograph", "logs", "one")).text == "['--lr', '0.2', '--seed', '1']\n"
    again = jobs.end(jobs.start("barograph", "resubmit", "one", "seed=2", "--wait"))
    assert again.text == "['--lr', '0.2', '--seed', '2']\n"


def test_a_job_outside_git_is_rerun_with_the_code_that_it_was_sent(jobs: Any) -> None:
    jobs.write("helper.py", "LOSSES = [3.0, 2.0, 1.0]\n")
    script = jobs.write("steps.py", "import barograph, helper\nrun = barograph.attach(explicit_steps=True)\n"
                                    "for loss in helper.LOSSES:\n    run.step(loss)\n")
    done = jobs.end(jobs.start("barograph", "submit", "--name", "steps", "--wait", "steps.py"))
    assert done.code == 0, done.err
    script.unlink()
    again = jobs.end(jobs.start("barograph", "rerun", "barograph-runs/steps"))
    assert "barograph: identical. All " in again.err, again.err
    assert again.code == 0


def test_a_program_that_is_missing_and_a_directory_that_cannot_be_written_are_named(jobs: Any) -> None:
    missing = jobs.end(jobs.start("barograph", "submit", "nosuchprogram", "--lr", "1"))
    assert (missing.code, missing.err) == (2, 'barograph: Program not found: "nosuchprogram".\n')
    jobs.write("train.py", "")
    jobs.environment["BAROGRAPH_HOME"] = "/proc/jobs"
    refused = jobs.end(jobs.start("barograph", "submit", "train.py"))
    assert (refused.code, refused.err) == (
        2, "barograph: The directory of the jobs cannot be written: No such file or directory. Set BAROGRAPH_HOME to "
           "another one (/proc/jobs).\n")
    assert not (jobs.folder / "barograph-runs").exists()


def test_unknown_jobs_name_the_nearest(jobs: Any) -> None:
    none = jobs.end(jobs.start("barograph", "stop", "digits"))
    assert (none.code, none.err) == (2, 'barograph: There is no job named "digits". There are no jobs.\n')


def test_findings_reach_the_file_and_the_program_that_were_typed(jobs: Any) -> None:
    jobs.write("nan.py", "import barograph\nrun = barograph.attach(explicit_steps=True)\nfor step in range(5):\n"
                         "    run.step(1.0 if step < 3 else float('nan'))\n")
    jobs.write("tell.sh", f"#!/bin/sh\ncat >> '{jobs.folder}/told.json'\n")
    (jobs.folder / "tell.sh").chmod(0o755)
    done = jobs.end(jobs.start("barograph", "submit", "--wait", "--findings-to", "found.jsonl", "--notify",
                               f"command:{jobs.folder}/tell.sh", "nan.py"))
    assert done.code == 0, done.err
    assert "NaN" in (jobs.folder / "found.jsonl").read_text()
    assert "NaN" in (jobs.folder / "told.json").read_text()
