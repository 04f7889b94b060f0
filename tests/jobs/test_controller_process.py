"""The controller is started while a job is prepared, once, and waits for it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from barograph.jobs import controller_process
from barograph.jobs.controller_process import ANNOUNCED, announce, controller_lock, dismiss, ensure_controller
from barograph.jobs.home import JobRecord, JobsHome
from barograph.jobs.job_log import EVENTS, EventLog
from barograph.jobs.spec import JobSpec
from barograph.jobs.state import Phase, state_after
from barograph.jobs.submission import Submission, write_submission
from barograph.machine.host_lock import HostLock
from barograph.processes.command import own_module
from barograph.store.urls import store_from_url

_SECS = 300.0


def test_an_announced_controller_sees_a_job_that_comes_later(tmp_path: Path) -> None:
    home, store = JobsHome(tmp_path / "home"), store_from_url(tmp_path / "run")
    controller_lock(home)  # creates the directory
    words = own_module("barograph.jobs.controller", str(home.path), ANNOUNCED).arguments
    with subprocess.Popen(words, stdin=subprocess.PIPE) as controller:
        lock = controller_lock(home)
        while lock.take():
            lock.release()
            assert controller.poll() is None
        write_submission(store, Submission("late", JobSpec(("train.py",), max_wait_secs=0.0)))
        EventLog(store, EVENTS).append("submitted")
        home.add(JobRecord("late", store.url, 1, "local"), {})
        assert controller.stdin is not None
        controller.stdin.close()
        assert controller.wait(_SECS) == 0
    assert state_after(EventLog(store, EVENTS).new()).phase is Phase.FAILED


def test_an_announced_controller_ends_if_no_job_comes(tmp_path: Path) -> None:
    home = JobsHome(tmp_path)
    announce(home)
    process = controller_process._announced[home.path].process
    announce(home)
    assert controller_process._announced[home.path].process is process
    assert ensure_controller(home)
    assert not dismiss(home)
    assert process.wait(_SECS) == 0


@pytest.mark.parametrize("busy", ["jobs", "announced"])
def test_no_controller_is_announced_beside_another(busy: str, tmp_path: Path) -> None:
    home = JobsHome(tmp_path)
    lock = HostLock(busy, home.path)
    assert lock.take()
    announce(home)
    assert not controller_process._announced
    lock.release()


def test_a_directory_that_cannot_be_written_is_not_a_failure_yet() -> None:
    announce(JobsHome("/proc/jobs"))
    assert not controller_process._announced


def test_a_submission_starts_the_controller_before_the_command_is_loaded() -> None:
    code = ("import sys\nfrom barograph.cli import main\nimport barograph.jobs.controller_process as started\n"
            "started.announce = lambda home: print('barograph.jobs.submitting' in sys.modules)\n"
            "for words in (['submit', '--help'], ['submit', '--cpus', 'x', 'train.py'], ['jobs', '--help']):\n"
            "    try:\n        main.main(words)\n    except SystemExit:\n        pass\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [line for line in done.stdout.splitlines() if line in ("True", "False")] == ["False"]
