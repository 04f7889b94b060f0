"""Jobs on this machine whose processes are killed: the same weights, nothing left, and a queue in order."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from barograph.jobs.data.mounts import mounts, unmount
from barograph.jobs.job_log import EVENTS, EventLog
from barograph.jobs.outputs import fetched_model
from barograph.machine.marked import kill_marked, marked_processes, program_of
from barograph.store.urls import store_from_url

TRAIN = """
import os, sys, time
from pathlib import Path
from torch.utils.data import DataLoader, TensorDataset

loader = DataLoader(TensorDataset(inputs, labels), batch_size=8, shuffle=True)
for epoch in range(10):
    for x, y in loader:
        optimizer.zero_grad()
        F.cross_entropy(nn.functional.dropout(model(x), 0.1), y).backward()
        optimizer.step()
    while epoch == 4 and os.path.exists(sys.argv[1]):  # it must not end before it is killed
        time.sleep(0.02)
Path(os.environ["SM_MODEL_DIR"], "weights.bin").write_bytes(
    b"".join(value.numpy().tobytes() for value in model.state_dict().values()))
"""

COUNT = """
import os, sys, time
open(sys.argv[1], "a").write("started ")
data = os.environ.get("SM_CHANNEL_TRAIN")
while os.path.exists(sys.argv[2]):
    if data:
        open(os.path.join(data, "a.bin"), "rb").read()
    time.sleep(0.02)
"""


@pytest.fixture
def jobs(desk: Any) -> Any:
    desk.environment["BAROGRAPH_HOME"] = str(desk.folder / "home")
    (desk.folder / "tmp").mkdir()
    desk.environment["TMPDIR"] = str(desk.folder / "tmp")
    yield desk
    # Nothing of a failed test may disturb others.
    kill_marked("BAROGRAPH_HOME", str(desk.folder))
    for place in mounts(desk.folder):
        unmount(place)


def submit(desk: Any, *words: str | Path) -> str:
    ended = desk.end(desk.start("barograph", "submit", *words))
    assert ended.code == 0, ended.err
    return str(ended.text.strip())


def wait(desk: Any, name: str) -> Mapping[str, Any]:
    report: Mapping[str, Any] = json.loads(desk.end(desk.start("barograph", "wait", name, "--json")).out)
    return report


def processes(desk: Any, victim: str) -> list[int]:
    """Return the processes of all jobs: of "controller", "agent", "script" or "everything"."""
    return [pid for pid in marked_processes("BAROGRAPH_HOME", str(desk.folder)) if victim in ("everything", kind(pid))]


def kind(pid: int) -> str:
    """Tell the processes of jobs apart by their environment."""
    program = program_of(pid)
    variables = program.environment if program else {}
    if "TRAINING_JOB_NAME" in variables:
        return "script"
    return "agent" if "BAROGRAPH_INSTANCE" in variables else "controller"


def kill(desk: Any, victim: str, name: str = "") -> None:
    """Kill processes: all of a kind, or of one job."""
    pids = set(processes(desk, victim))
    if name and victim != "everything":
        pids &= set(marked_processes("BAROGRAPH_INSTANCE", f"{name}@"))
    assert pids
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
            os.kill(pid, signal.SIGKILL)


def groups_of(pid: int) -> set[str]:
    """Return the network namespace and the control groups of a process."""
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    return {os.readlink(f"/proc/{pid}/ns/net"), *(line for line in lines if "barograph-" in line)}


def all_groups() -> set[str]:
    found: set[str] = set()
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            found |= groups_of(int(path.name))
    names = {path.name for path in Path("/sys/fs/cgroup").glob("**/barograph-*")}
    return found | names


def left(desk: Any) -> list[str]:
    """Return what is left of jobs that are over."""
    home = desk.folder / "home"
    mounts = [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(desk.folder) in line]
    files = [str(path.relative_to(home)) for folder in ("work", "secrets", "submitting")
             for path in (home / folder).glob("*")]
    half = [str(path) for path in (desk.folder / "barograph-runs").rglob("*#*")]
    temporary = [str(path) for path in (desk.folder / "tmp").iterdir()]
    return [*map(str, processes(desk, "everything")), *mounts, *files, *half, *temporary]


def nothing_left(desk: Any) -> Callable[[], bool]:
    return lambda: not left(desk)


def test_killed_trainings_end_with_the_weights_of_one_that_was_not_killed(jobs: Any) -> None:
    jobs.script(TRAIN)
    runs = jobs.folder / "barograph-runs"
    victims = ("agent", "script", "everything")
    for victim in victims:
        name = submit(jobs, "--name", victim, "--checkpoint-every", "every=1", "--retries", "1", "train.py",
                      jobs.write(f"hold-{victim}", ""))
        checkpoints = runs / name / "checkpoints"
        jobs.wait_until(lambda place=checkpoints: any(place.glob("*.json")), "a checkpoint is there")
        kill(jobs, victim, name)
        (jobs.folder / f"hold-{victim}").unlink()
    reports = {name: wait(jobs, name) for name in victims}
    assert {name: report["phase"] for name, report in reports.items()} == dict.fromkeys(victims, "finished")
    assert all(report["attempt"] >= 1 for report in reports.values())
    whole = submit(jobs, "--name", "whole", "train.py", "none")
    assert wait(jobs, whole)["attempt"] == 0
    weights = [(fetched_model(store_from_url(str(runs / name)), jobs.folder / "models" / name) /
                "weights.bin").read_bytes() for name in (*victims, whole)]
    assert len(weights[0]) > 500
    assert set(weights) == {weights[0]}


@pytest.mark.parametrize("victim", ["controller", "agent", "everything"])
def test_nothing_is_left_of_a_job_whose_processes_were_killed(victim: str, jobs: Any) -> None:
    jobs.write("count.py", COUNT)
    jobs.write("hold", "")
    jobs.write("data/a.bin", "a" * 1000)
    name = submit(jobs, "--name", "count", "--memory", "1GiB", "--no-network", "--data", "train=data:lazy", "count.py",
                  jobs.folder / "starts", jobs.folder / "hold")
    jobs.wait_until((jobs.folder / "starts").exists, "the script has started")
    groups = {group for pid in processes(jobs, "script") for group in groups_of(pid)} - groups_of(os.getpid())
    assert len(groups) == 2
    kill(jobs, victim)
    listed = json.loads(jobs.end(jobs.start("barograph", "jobs", "--json")).out)
    assert [job["name"] for job in listed] == [name]
    if victim != "controller":
        jobs.wait_until(lambda: (jobs.folder / "starts").read_text() == "started started ", "it was started again")
    (jobs.folder / "hold").unlink()
    assert wait(jobs, name)["phase"] == "finished"
    assert (jobs.folder / "starts").read_text() == ("started " if victim == "controller" else "started started ")
    jobs.wait_until(nothing_left(jobs), "nothing of the job is left")
    assert not {group.rpartition("/")[2] for group in groups} & {group.rpartition("/")[2] for group in all_groups()}


def test_nothing_is_left_of_a_submission_that_was_killed(jobs: Any) -> None:
    jobs.write("count.py", COUNT)
    # Long enough to be killed in the middle: many objects are listed and written down.
    for number in range(2000):
        jobs.write(f"data/{number}.bin", "a")
    words = ("barograph", "submit", "--name", "count", "--data", "train=data", "count.py", "starts", "none")
    submission = jobs.start(*words)
    home = jobs.folder / "home"
    # It may be in the queue before anybody has looked.
    jobs.wait_until(lambda: any((*home.glob("submitting/*.json"), *home.glob("jobs/*.json"))), "it has begun")
    submission.kill()
    submission.wait()
    listed = json.loads(jobs.end(jobs.start("barograph", "jobs", "--json")).out)
    if listed:  # it was in the queue already
        assert wait(jobs, "count")["phase"] == "finished"
        return
    jobs.wait_until(nothing_left(jobs), "nothing of the submission is left")
    assert not list((jobs.folder / "barograph-runs").rglob("run.json"))
    assert jobs.end(jobs.start(*words)).code == 0
    assert wait(jobs, "count")["phase"] == "finished"


def test_many_jobs_are_queued_in_order_by_one_controller(jobs: Any) -> None:
    jobs.write("print.py", "print('done')\n")
    names = [f"job-{number}" for number in range(8)]
    submissions = [jobs.start("barograph", "submit", "--name", name, "print.py") for name in names]
    for submission in submissions:
        assert jobs.end(submission).code == 0
    # Several may be started at once: all but the one that holds the lock end by themselves.
    jobs.wait_until(lambda: len([pid for pid in processes(jobs, "controller")
                                 if "barograph.jobs.controller" in getattr(program_of(pid), "arguments", [])]) <= 1,
                    "one controller is left")
    assert {wait(jobs, name)["phase"] for name in names} == {"finished"}
    queue = sorted((json.loads(path.read_bytes()) for path in (jobs.folder / "home" / "jobs").glob("*.json")),
                   key=lambda record: record["number"])
    starts = [next(event.time_unix for event in EventLog(store_from_url(record["url"]), EVENTS).new()
                   if event.kind == "starting") for record in queue]
    assert starts == sorted(starts)
    jobs.wait_until(nothing_left(jobs), "nothing of the jobs is left")
