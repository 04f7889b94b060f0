"""The controller is started while a job is prepared, once, and waits for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from barograph.jobs import controller_process
from barograph.jobs.controller_process import ANNOUNCED, announce, controller_lock, dismiss, ensure_controller
from barograph.jobs.handover import ask_for_handover, is_asked, is_older_running, note_running
from barograph.jobs.home import JobRecord, JobsHome
from barograph.jobs.job_log import EVENTS, EventLog
from barograph.jobs.spec import JobSpec
from barograph.jobs.state import Phase, state_after
from barograph.jobs.submission import Submission, write_submission
from barograph.machine.host_lock import HostLock
from barograph.model.clock import SystemClock
from barograph.model.settings import Settings
from barograph.processes.command import own_module
from barograph.runs.state.claim import create_run
from barograph.runs.state.places import new_manifest
from barograph.store.urls import store_from_url
from barograph.version import __version__

_SECS = 600.0


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


OLD = ("import sys, barograph.version\nbarograph.version.__version__ = '0.0.9'\n"
       "from barograph.jobs.controller import main\nsys.exit(main(sys.argv[1]))\n")


def test_a_controller_of_an_older_version_hands_its_jobs_over_and_their_instances_go_on(tmp_path: Path) -> None:
    home, store, hold = JobsHome(tmp_path / "home"), store_from_url(tmp_path / "run"), tmp_path / "hold"
    spec = JobSpec(("sh", "-c", f"echo started >> {tmp_path}/starts; while [ -e {hold} ]; do sleep 0.05; done"))
    hold.touch()
    write_submission(store, Submission("long", spec, "", str(tmp_path)))
    create_run(store, new_manifest(Settings(to=store.url), command=spec.words, clock=SystemClock(), name="long"))
    EventLog(store, EVENTS).append("submitted")
    home.add(JobRecord("long", store.url, 1, "local"), dict(os.environ))
    with subprocess.Popen([sys.executable, "-c", OLD, home.path], stdin=subprocess.DEVNULL) as old:
        wait_until((tmp_path / "starts").exists)
        assert ensure_controller(home)
        assert old.wait(_SECS) == 0
    running = home.path / "controller.json"
    wait_until(lambda: running.exists() and json.loads(running.read_bytes())["version"] == __version__)
    assert not ensure_controller(home), "one of this version runs"
    assert not (home.path / "handover.json").exists()
    hold.unlink()
    wait_until(lambda: home.named("long").over)
    assert state_after(EventLog(store, EVENTS).new()).phase is Phase.FINISHED
    assert (tmp_path / "starts").read_text() == "started\n"
    lock = controller_lock(home)
    wait_until(lock.take)
    assert not running.exists()
    lock.release()


def test_a_controller_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    home, lock = JobsHome(tmp_path), controller_lock(JobsHome(tmp_path))
    assert lock.take()
    note_running(home)
    assert not is_older_running(home)
    (home.path / "controller.json").write_text('{"version": "0.0.10"}')
    assert is_older_running(home)
    (home.path / "controller.json").write_text('{"version": "99.0"}')
    assert not is_older_running(home)
    ask_for_handover(home)
    assert not is_asked(home), "of this version"
    (home.path / "handover.json").write_text('{"version": "99.0"}')
    assert is_asked(home)
    (home.path / "handover.json").write_text("no JSON")
    assert not is_asked(home)
    lock.release()


def test_the_note_of_a_controller_that_was_killed_without_a_job_is_removed(tmp_path: Path) -> None:
    home = JobsHome(tmp_path)
    note_running(home)
    running = controller_lock(home)
    assert running.take()
    assert not ensure_controller(home)
    assert (tmp_path / "controller.json").exists(), "the controller runs"

    running.release()
    assert not ensure_controller(home)
    assert not (tmp_path / "controller.json").exists()


def wait_until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + _SECS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
