"""Instances that stay after their job, for the next similar one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from barograph.errors import JobError
from barograph.jobs.controller import Controller
from barograph.jobs.engines.engine import Handle, Order
from barograph.jobs.engines.local import LocalEngine
from barograph.jobs.engines.ray_own_cluster import OwnCluster
from barograph.jobs.home import JobRecord, JobsHome
from barograph.jobs.job_log import EVENTS, EventLog, instance_folder
from barograph.jobs.keeping import end_keeping, kept_notes
from barograph.jobs.spec import JobSpec
from barograph.jobs.submission import Submission, write_submission
from barograph.model.clock import ManualClock
from barograph.store.urls import store_from_url


@dataclass
class OneJob:
    """An engine with room for one job."""

    has: list[str] = field(default_factory=list)
    did: list[str] = field(default_factory=list)
    fails: bool = False

    def problems(self, spec: JobSpec, url: str = "") -> list[str]:
        return []

    def queue(self, job: str, spec: JobSpec) -> str:
        return ""

    def reserve(self, job: str, spec: JobSpec) -> str:
        if self.has not in ([], [job]):
            return "Waits for instances."
        self.has = [job]
        return ""

    def start(self, order: Order) -> Handle:
        self.did.append(f"start {order.job}")
        return {}

    def adopt(self, job: str, spec: JobSpec, handles: Mapping[int, Handle]) -> None:
        self.has = [job]

    def is_gone(self, handle: Handle) -> str:
        return ""

    def ask_to_end(self, handle: Handle) -> None: ...

    def kill(self, handle: Handle) -> None:
        self.did.append("kill")

    def release(self, job: str, *, is_over: bool = True) -> None:
        if self.fails:
            raise JobError("the cluster does not respond")
        self.did.append(f"release {job}")
        self.has = [name for name in self.has if name != job]

    def keep(self, job: str) -> None:
        self.did.append(f"keep {job}")

    def take_over(self, kept: str, job: str) -> None:
        self.did.append(f"give {kept} to {job}")
        self.has = [job]

    def close(self) -> None: ...


class Desk:
    """Jobs of a user, and their controller."""

    def __init__(self, folder: Path) -> None:
        self.home, self.clock, self.engine = JobsHome(folder / "home"), ManualClock(), OneJob()
        self.folder, self.number = folder, 0
        self.controller = self.new_controller()

    def new_controller(self) -> Controller:
        return Controller(self.home, {"local": lambda: self.engine, "ray": lambda: self.engine}, self.clock)

    def add(self, name: str, *, environment: Mapping[str, str] | None = None, **options: Any) -> None:
        store = store_from_url(str(self.folder / name))
        write_submission(store, Submission(name, JobSpec(("train.py",), **options)))
        EventLog(store, EVENTS, clock=self.clock.unix).append("submitted")
        self.number += 1
        self.home.add(JobRecord(name, store.url, self.number, options.get("engine", "local")), environment or {})

    def run(self, name: str, *, outcome: str = "finished", **options: Any) -> None:
        """Run a job to its end."""
        self.add(name, **options)
        self.controller.turn()
        EventLog(store_from_url(str(self.folder / name)), instance_folder(0, 0)).append(
            "ended", outcome=outcome, exit_code=0, reason="")
        self.controller.turn()
        assert next(job for job in self.home.all() if job.name == name).over


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_without_the_option_instances_are_released(desk: Desk) -> None:
    desk.run("first")
    assert desk.engine.did == ["start first", "kill", "release first"]
    assert desk.controller.turn() == 0


def test_the_next_similar_job_takes_instances_over(desk: Desk) -> None:
    desk.run("first", keep_alive_secs=600.0)
    assert desk.controller.turn() == 1
    desk.run("second")
    assert desk.engine.did == ["start first", "keep first", "give first to second", "start second", "kill",
                               "release second"]
    assert desk.controller.turn() == 0
    assert kept_notes(desk.home) == []


def test_a_script_that_failed_leaves_its_instances_for_the_next_try(desk: Desk) -> None:
    desk.run("first", outcome="script", keep_alive_secs=600.0)
    assert desk.engine.did[-1] == "keep first"


def test_a_job_that_was_stopped_leaves_nothing(desk: Desk) -> None:
    desk.add("first", keep_alive_secs=600.0)
    desk.controller.turn()
    log = EventLog(store_from_url(str(desk.folder / "first")), EVENTS)
    log.new()
    log.append("stop", reason="requested by the user")
    desk.controller.turn()
    EventLog(store_from_url(str(desk.folder / "first")), instance_folder(0, 0)).append(
        "ended", outcome="interrupted", exit_code=None, reason="")
    desk.controller.turn()
    desk.controller.turn()
    assert desk.engine.did[-1] == "release first"


def test_instances_are_released_when_their_time_is_over(desk: Desk) -> None:
    desk.run("first", keep_alive_secs=600.0)
    desk.clock.advance(599)
    assert desk.controller.turn() == 1
    desk.clock.advance(1)
    desk.controller.turn()
    assert desk.engine.did[-1] == "release first"
    assert desk.controller.turn() == 0


def test_a_release_that_fails_is_tried_again(desk: Desk) -> None:
    desk.run("first", keep_alive_secs=600.0)
    desk.clock.advance(600)
    desk.engine.fails = True
    assert desk.controller.turn() == 1
    desk.engine.fails = False
    desk.clock.advance(5)
    desk.controller.turn()
    assert desk.engine.has == []


def test_a_job_that_needs_others_does_not_wait_for_kept_ones(desk: Desk) -> None:
    desk.run("first", keep_alive_secs=600.0)
    desk.add("second", cpus=2.0)
    desk.controller.turn()
    assert desk.engine.did[-2:] == ["release first", "start second"]


def test_a_cluster_may_take_a_moment_to_say_that_it_has_room(desk: Desk) -> None:
    desk.run("first", engine="ray", keep_alive_secs=600.0)
    desk.add("second", engine="ray", cpus=2.0)
    desk.clock.advance(1)
    desk.controller.turn()
    assert desk.engine.did[-1] == "keep first"
    desk.clock.advance(1)
    desk.controller.turn()
    assert desk.engine.did[-2:] == ["release first", "start second"]


def test_a_job_with_a_cluster_of_its_own_takes_nobodys_room(desk: Desk) -> None:
    desk.run("first", engine="ray", keep_alive_secs=600.0)
    desk.add("second", engine="ray", cluster="other.yaml")
    desk.clock.advance(10)
    desk.controller.turn()
    assert desk.engine.did[-1] == "keep first"


@pytest.mark.parametrize("other", [
    {"instances": 2}, {"memory_bytes": 1}, {"gpus": 1}, {"engine": "ray"}, {"cluster": "other.yaml"},
    {"environment": {"RAY_ADDRESS": "10.0.0.5:6379"}},
])
def test_jobs_that_differ_share_no_instances(desk: Desk, other: dict[str, Any]) -> None:
    desk.run("first", keep_alive_secs=600.0)
    desk.add("second", **other)
    desk.controller.turn()
    assert "give first to second" not in desk.engine.did


def test_stop_releases_kept_instances(desk: Desk) -> None:
    desk.run("first", keep_alive_secs=600.0)
    assert end_keeping(desk.home, "first")
    desk.controller.turn()
    assert desk.engine.did[-1] == "release first"
    assert not end_keeping(desk.home, "first")


def test_the_controller_after_a_killed_one_releases_what_that_one_kept(desk: Desk) -> None:
    desk.run("first", keep_alive_secs=600.0, environment={"RAY_ADDRESS": "10.0.0.5:6379", "TOKEN": "hunter2"})
    assert desk.home.environment("first") == {"RAY_ADDRESS": "10.0.0.5:6379"}
    desk.new_controller().turn()
    assert desk.engine.did[-1] == "release first"
    assert desk.home.environment("first") == {}
    assert not list((desk.home.path / "kept").iterdir())


def test_this_machine_gives_the_same_gpus_and_room_to_the_next_job(tmp_path: Path) -> None:
    engine = LocalEngine(JobsHome(tmp_path), cores=1, memory=2**30, gpus=1)
    spec = JobSpec(("train.py",), gpus=1)
    assert engine.reserve("first", spec) == ""
    engine.keep("first")
    assert engine.reserve("second", spec) != ""
    engine.take_over("first", "second")
    assert engine.reserve("second", spec) == ""
    engine.release("second")
    assert engine.reserve("third", spec) == ""


def test_a_cluster_is_handed_over_with_its_files(tmp_path: Path) -> None:
    home = JobsHome(tmp_path)
    folder = tmp_path / "clusters" / "first"
    folder.mkdir(parents=True)
    (folder / "address").write_text("10.0.0.5:6379")
    OwnCluster(home, "first", "first@me").hand_over("second")
    second = OwnCluster(home, "second", "second@me")
    assert (second.address, second.exists) == ("10.0.0.5:6379", True)
    second.end()
    assert not list((tmp_path / "clusters").iterdir())


def test_the_note_is_no_secret(desk: Desk) -> None:
    desk.run("first", keep_alive_secs=600.0, environment={"TOKEN": "hunter2"})
    note = json.loads((desk.home.path / "kept" / "first.json").read_text())
    assert note == {"name": "first", "engine": "local", "until_unix": 1_800_000_600.0, "ends": False}
