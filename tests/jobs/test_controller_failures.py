"""What the controller does when something fails: its real code, on a stand-in for instances, in virtual time."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from barograph.cli.jobs.waiting import exit_code_of, status_of
from barograph.errors import JobError, MissingExtra, StoreError, StoreFull, StoreUnavailable
from barograph.jobs import controller as controller_module
from barograph.jobs.controller import Controller, SteadyClock
from barograph.jobs.engines.engine import Handle, Order
from barograph.jobs.heartbeat import Heartbeat
from barograph.jobs.home import JobRecord, JobsHome
from barograph.jobs.job import SubmittedJob, request_stop
from barograph.jobs.job_log import EVENTS, NOW, EventLog, instance_folder
from barograph.jobs.job_report import JobView
from barograph.jobs.managed_job import ManagedJob
from barograph.jobs.spec import JobSpec
from barograph.jobs.state import JobState, Phase
from barograph.jobs.submission import Submission, write_submission
from barograph.model.clock import Clock, ManualClock
from barograph.runs.format.metadata import sealed
from barograph.store.base import ObjectInfo, Store
from barograph.store.urls import store_from_url


class Flaky:
    """A store that fails when it is told to.

    Attributes:
        is_down: Every operation fails.
        is_full: Nothing can be stored.
        lost: Part of the name of an object; the next time that it is created, the response is lost.
        rejected: Part of what is created; the next time, nothing is stored.
    """

    def __init__(self, store: Store) -> None:
        self._store, self.url = store, store.url
        self.is_down = self.is_full = False
        self.lost = self.rejected = b""

    def put(self, name: str, data: bytes | Sequence[bytes | memoryview]) -> None:
        self._check()
        self._check_room()
        self._store.put(name, data)

    def create(self, name: str, data: bytes) -> None:
        self._check()
        self._check_room()
        if self.rejected and self.rejected in data:
            self.rejected = b""
            raise StoreUnavailable("The store cannot be reached.")
        self._store.create(name, data)
        if self.lost and self.lost in data:
            self.lost = b""
            raise StoreUnavailable("The response of the store was lost.")

    def get(self, name: str) -> memoryview:
        self._check()
        return self._store.get(name)

    def list(self, folder: str = "") -> list[ObjectInfo]:
        self._check()
        return self._store.list(folder)

    def delete(self, name: str) -> None:
        self._check()
        self._store.delete(name)

    def _check(self) -> None:
        if self.is_down:
            raise StoreUnavailable("The store cannot be reached.")

    def _check_room(self) -> None:
        if self.is_full:
            raise StoreFull("The store is full.")


@dataclass
class Instances:
    """An engine whose instances do what the test says.

    Attributes:
        wait: Why there are none; "": there are some.
        host: Machine that instances run on; "": one that the engine sees.
        refuses: Raised by the next start.
        ignore: Instances do nothing when they are asked to end.
        started: All that were started.
        alive: Those that are there: number to the log of its agent.
        reserved: Jobs that have instances.
    """

    wait: str = ""
    host: str = ""
    refuses: BaseException | None = None
    ignore: bool = False
    started: list[Order] = field(default_factory=list)
    alive: dict[int, EventLog] = field(default_factory=dict)
    reserved: set[str] = field(default_factory=set)

    def problems(self, spec: JobSpec, url: str = "") -> list[str]:
        return []

    def prepare(self) -> None: ...

    def queue(self, job: str, spec: JobSpec) -> str:
        return ""

    def reserve(self, job: str, spec: JobSpec) -> str:
        if not self.wait:
            self.reserved.add(job)
        return self.wait

    def start(self, order: Order) -> Handle:
        assert order.job in self.reserved
        if self.refuses:
            raise self.refuses
        self.started.append(order)
        number = len(self.started) - 1
        self.alive[number] = EventLog(store_from_url(order.url), instance_folder(order.attempt, order.index))
        return {"number": number, **({"host": self.host} if self.host else {})}

    def adopt(self, job: str, spec: JobSpec, handles: Mapping[int, Handle]) -> None:
        self.reserved.add(job)

    def is_gone(self, handle: Handle) -> str:
        return "" if handle["number"] in self.alive else "Its agent was ended by SIGKILL."

    def ask_to_end(self, handle: Handle) -> None:
        if handle["number"] in self.alive and not self.ignore:
            self.end(handle["number"], "interrupted", reason="It was asked to end.")

    def kill(self, handle: Handle) -> None:
        self.alive.pop(handle["number"], None)

    def release(self, job: str, *, is_over: bool = True) -> None:
        self.reserved.discard(job)

    def keep(self, job: str) -> None:
        raise AssertionError("no job keeps its instances")

    def take_over(self, kept: str, job: str) -> None:
        raise AssertionError("no job keeps its instances")

    def close(self) -> None:
        return None

    def say(self, number: int, kind: str, **data: object) -> None:
        """Have the agent of an instance write an event."""
        self.alive[number].append(kind, **data)

    def end(self, number: int, outcome: str, code: int | None = None, reason: str = "", *,
            announced: bool = False) -> None:
        """Have an instance end."""
        self.alive.pop(number).append("ended", outcome=outcome, exit_code=code, reason=reason, announced=announced)


class Place:
    """A job and its controller."""

    def __init__(self, folder: Path, clock: Clock | None = None, **entries: Any) -> None:
        self.manual = ManualClock()
        self._clock = clock or self.manual
        self.url = f"memory://{folder.name}"
        self.store = Flaky(store_from_url(self.url))
        self.home, self.record = JobsHome(folder), JobRecord("digits", self.url, 1, "fake")
        write_submission(self.store, Submission("digits", JobSpec(("train.py",), **entries)))
        EventLog(self.store, EVENTS, clock=self._clock.unix).append("submitted")
        self.home.add(self.record, {"LR": "1"})
        self.engine = Instances()
        self.hearts: dict[int, Heartbeat] = {}
        self.frozen: set[int] = set()
        self.job = self.controller()

    def controller(self) -> ManagedJob:
        return ManagedJob(self.record, self.home, self.engine, self._clock, open_store=lambda url: self.store)

    def turn(self, secs: float = 1.0, *, turns: int = 4) -> JobState:
        """Let the controller do all that is due, and time pass. A store that fails is tried again, as it does it."""
        for _ in range(turns):
            self.beat()
            with contextlib.suppress(StoreError):
                self.job.turn(may_start=True)
        self.manual.advance(secs)
        return self.job.state

    def beat(self) -> None:
        """Have the agents that the engine sees, and that are not frozen, send a heartbeat."""
        for number in self.engine.alive.keys() - self.frozen:
            order = self.engine.started[number]
            heart = self.hearts.setdefault(number, Heartbeat(
                self.store, order.attempt, order.index, clock=self.manual.monotonic))
            with contextlib.suppress(StoreError):
                heart.beat()

    def stop(self) -> None:
        request_stop(JobView("digits", self.store), "requested by the user")

    @property
    def kinds(self) -> list[str]:
        return [event.kind for event in EventLog(self.store, EVENTS).new()]

    @property
    def left(self) -> list[object]:
        """What is left of a job that is over: reserved or running instances, secrets, an entry of a running job."""
        secrets = self.home.path / "secrets"
        return [*self.engine.reserved, *self.engine.alive, *(secrets.iterdir() if secrets.exists() else ()),
                *(record for record in self.home.all() if not record.over)]

    def end(self) -> tuple[Phase | None, str, int]:
        """Return how the job ended: phase, reason, exit code of `barograph wait`."""
        assert self.left == []
        report = JobView("digits", self.store).report()
        return report.phase, report.reason, exit_code_of(report)


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Place]:
    return lambda **entries: Place(tmp_path, **entries)


def names_that_are_read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list to which the name of each object that is read from now on is added."""
    read, get = list[str](), Flaky.get

    def noted(self: Flaky, name: str) -> memoryview:
        read.append(name)
        return get(self, name)

    monkeypatch.setattr(Flaky, "get", noted)
    return read


# A store that fails.


def test_a_store_that_is_unreachable_for_a_minute_ends_no_job(make: Callable[..., Place]) -> None:
    place = make()
    place.turn()
    place.engine.say(0, "ready")
    place.store.is_down = True
    for _ in range(30):
        place.turn(2)
    place.engine.end(0, "finished", 0)
    for _ in range(30):
        place.turn(2)
    place.store.is_down = False
    place.turn()
    assert place.end() == (Phase.FINISHED, "", 0)
    assert len(place.engine.started) == 1


def test_waiting_for_a_job_goes_on_while_its_store_is_unreachable(make: Callable[..., Place]) -> None:
    place = make()
    place.turn()
    place.engine.end(0, "script", 3, "The script ended with exit code 3.")
    place.turn()
    job = SubmittedJob(JobView("digits", place.store))
    place.store.is_down = True
    with pytest.raises(JobError, match=r"The job digits failed\. The script ended with exit code 3\."):
        job.wait(wait=lambda secs: setattr(place.store, "is_down", False))


@pytest.mark.parametrize("mode", ["rejected", "lost"])
@pytest.mark.parametrize("kind", [b'"starting"', b'"started"', b'"resumed"', b'"ended"', b'"finished"', b'"over"',
                                  b'"requeued"'])
def test_a_store_that_fails_at_the_worst_moment_loses_nothing_and_starts_nothing_twice(
    make: Callable[..., Place], mode: str, kind: bytes
) -> None:
    place = make()
    setattr(place.store, mode, kind)
    place.turn()
    assert len(place.engine.started) == 1
    place.engine.say(0, "ready")
    place.engine.say(0, "training")
    place.turn()
    place.engine.kill({"number": 0})
    place.turn()
    place.engine.say(1, "ready")
    place.engine.say(1, "resumed", steps=90, repeated=10)
    place.turn()
    place.engine.end(1, "finished", 0)
    place.turn()
    assert getattr(place.store, mode) == b""
    assert place.end() == (Phase.FINISHED, "", 0)
    assert (place.job.state.interruptions, place.job.state.repeated_steps) == (1, 10)
    assert [order.attempt for order in place.engine.started] == [0, 1]


def test_steps_that_were_repeated_count_once_if_the_controller_is_replaced(make: Callable[..., Place]) -> None:
    place = make()
    place.turn()
    place.engine.say(0, "ready")
    place.engine.say(0, "resumed", steps=90, repeated=10)
    place.turn()
    place.job = place.controller()
    assert place.turn().repeated_steps == 10
    assert place.kinds.count("resumed") == 1


# A controller that fails.


def failing(key: str) -> Callable[..., str]:
    def fail(*_: object) -> str:
        raise KeyError(key)

    return fail


def test_a_job_that_cannot_be_managed_says_so_until_it_can(
    make: Callable[..., Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = make(environment=("LR",))
    place.home.set_environment("digits", {"API_TOKEN": "hunter2hunter2"})
    controller = Controller(place.home, {"fake": lambda: place.engine}, place.manual)
    monkeypatch.setattr(place.engine, "reserve", failing("hunter2hunter2"))
    for _ in range(3):
        controller.turn()
        place.manual.advance(5.0)
    report = JobView("digits", place.store).report()
    assert report.reason == ("The controller cannot manage this job: KeyError: '***'. "
                             f"Details: {place.home.controller_log}.")
    assert status_of(report)[1] == report.reason.rstrip(".")
    assert place.kinds == ["submitted", "waiting"]
    monkeypatch.undo()
    controller.turn()
    monkeypatch.setattr(place.engine, "is_gone", failing("pid"))
    place.manual.advance(5.0)
    controller.turn()
    report = JobView("digits", place.store).report()
    assert report.phase is Phase.RUNNING
    assert status_of(report)[1].startswith("The controller cannot manage this job: KeyError: 'pid'")
    monkeypatch.undo()
    place.manual.advance(5.0)
    controller.turn()
    assert JobView("digits", place.store).report().reason == ""


def test_an_engine_that_is_not_there_is_the_reason_that_a_job_waits(make: Callable[..., Place]) -> None:
    def engine() -> Instances:
        raise MissingExtra("Ray is not installed.")

    place = make()
    Controller(place.home, {"fake": engine}, place.manual).turn()
    assert JobView("digits", place.store).report().reason == \
        "The controller cannot manage this job: Ray is not installed."


def test_a_store_that_cannot_be_read_holds_up_no_other_job(
    make: Callable[..., Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = make()
    place.store.is_down = True
    monkeypatch.setattr(controller_module, "store_from_url", lambda url: place.store)
    monkeypatch.setattr(place.engine, "reserve", failing("hosts"))
    assert Controller(place.home, {"fake": lambda: place.engine}, place.manual).turn() == 1
    place.store.is_down = False
    assert place.kinds == ["submitted"]


# Instances that cannot do their work.


def test_an_agent_that_cannot_begin_is_tried_three_times_with_pauses_and_the_job_fails(
    make: Callable[..., Place]
) -> None:
    place, attempts = make(), []
    for _ in range(300):
        place.turn()
        if place.engine.alive:
            attempts.append(round(place.manual.monotonic()))
            place.engine.alive.clear()
        if place.job.state.phase.is_over:
            break
    assert place.end() == (
        Phase.FAILED, "The instance ended before it was ready. Its agent was ended by SIGKILL. That happened 3 times.",
        75)
    assert [later - earlier for earlier, later in itertools.pairwise(attempts)] == [6, 61]


def test_an_agent_that_dies_right_after_its_begin_again_and_again_fails_the_job(make: Callable[..., Place]) -> None:
    place, attempts = make(), []
    for _ in range(300):
        place.turn()
        for number in tuple(place.engine.alive):
            attempts.append(round(place.manual.monotonic()))
            place.engine.say(number, "ready")
            place.engine.alive.clear()
        if place.job.state.phase.is_over:
            break
    assert place.end() == (
        Phase.FAILED, "The instance ended before it began to work. Its agent was ended by SIGKILL. "
                      "That happened 3 times.", 75)
    assert [later - earlier for earlier, later in itertools.pairwise(attempts)] == [6, 61]


@pytest.mark.parametrize(("secs", "kinds"), [(1.0, ("ready", "downloading")), (61.0, ("ready",))])
def test_an_instance_that_was_there_for_a_while_is_lost(
    secs: float, kinds: tuple[str, ...], make: Callable[..., Place]
) -> None:
    place = make()
    place.turn(secs)
    for kind in kinds:
        place.engine.say(0, kind)
    place.engine.alive.clear()
    assert (place.turn().interruptions, place.job.state.failures) == (1, 0)


def elsewhere(place: Place) -> EventLog:
    """Let the instance run on another machine, where the controller cannot see it; return the log of its agent."""
    place.engine.host = "elsewhere"
    place.turn()
    place.engine.say(0, "training")
    return place.engine.alive.pop(0)


def test_an_instance_on_another_machine_is_not_started_again_while_its_agent_sends_heartbeats(
    make: Callable[..., Place]
) -> None:
    place = make()
    agent = elsewhere(place)
    place.job = place.controller()
    for _ in range(100):
        place.hearts[0].beat()
        place.turn(10.0, turns=1)
    assert (len(place.engine.started), place.job.state.interruptions) == (1, 0)
    agent.append("ended", outcome="finished", exit_code=0, reason="")
    place.turn()
    assert place.end() == (Phase.FINISHED, "", 0)


def test_an_instance_on_another_machine_is_lost_two_minutes_after_its_last_heartbeat(
    make: Callable[..., Place]
) -> None:
    place = make()
    elsewhere(place)
    for _ in range(24):
        assert place.turn(5.0, turns=1).interruptions == 0
    assert place.turn(5.0).interruptions == 1
    requeued = [event.data for event in EventLog(place.store, EVENTS).new() if event.kind == "requeued"]
    assert [data["reason"] for data in requeued] == ["The instance was lost. Its agent on elsewhere was silent for "
                                                     "2 min 1 s."]


@pytest.mark.parametrize("wakes", [False, True])
def test_only_an_instance_on_another_machine_that_may_wake_up_is_given_up(
    make: Callable[..., Place], wakes: bool
) -> None:
    place = make()
    agent = elsewhere(place)
    killed: list[object] = []
    place.engine.kill = lambda handle: killed.append(handle["host"])  # type: ignore[method-assign]
    if not wakes:
        agent.append("ended", outcome="finished", exit_code=0, reason="")
    for _ in range(26):
        place.turn(5.0)
    assert killed == ["elsewhere"] * wakes


def test_the_heartbeat_of_an_instance_on_another_machine_is_read_every_few_seconds(
    make: Callable[..., Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = make()
    elsewhere(place)
    read = names_that_are_read(monkeypatch)
    for _ in range(100):
        place.turn(0.1, turns=1)
    assert 1 <= len([name for name in read if name.endswith(NOW)]) <= 3


def test_a_job_that_was_asked_to_stop_is_shown_as_stopping_until_it_has_ended(make: Callable[..., Place]) -> None:
    place = make()
    place.engine.ignore = True
    doing("training")(place)
    assert JobView("digits", place.store).report().doing == "training"
    place.stop()
    place.turn()
    report = JobView("digits", place.store).report()
    assert (report.doing, status_of(report)[0]) == ("stopping", "stopping")


@pytest.mark.parametrize("kind", ["downloading", "training", "uploading"])
def test_an_agent_that_is_frozen_is_lost_after_five_minutes_and_killed(kind: str, make: Callable[..., Place]) -> None:
    place = make()
    doing(kind)(place)
    place.frozen.add(0)
    for _ in range(60):
        assert place.turn(5.0).interruptions == 0
    place.turn(5.0)
    assert place.turn().interruptions == 1
    assert (list(place.engine.alive), [order.attempt for order in place.engine.started]) == ([1], [0, 1])
    requeued = [event.data for event in EventLog(place.store, EVENTS).new() if event.kind == "requeued"]
    assert requeued == [{"cause": "lost", "reason": "The instance was lost. Its agent was silent for 5 min 2 s and was "
                                                    "killed."}]


def test_an_agent_that_takes_an_hour_to_start_is_waited_for(make: Callable[..., Place]) -> None:
    place = make()
    place.turn()
    place.frozen.add(0)
    place.store.delete(f"{instance_folder(0, 0)}/{NOW}")
    for _ in range(720):
        place.turn(5.0, turns=1)
    assert (len(place.engine.started), place.job.state.interruptions) == (1, 0)


def test_a_frozen_agent_is_killed_before_its_peers_have_saved(make: Callable[..., Place]) -> None:
    place = make(instances=2)
    place.engine.ignore = True
    doing("training")(place)
    place.frozen.add(0)
    for _ in range(62):
        place.turn(5.0)
    assert (place.job.state.phase, list(place.engine.alive)) == (Phase.STOPPING, [1])


def asleep(place: Place) -> None:
    """The machine of the controller was suspended."""
    place.manual.advance(36_000.0)


def cut_off(place: Place) -> None:
    """The store was unreachable for everybody."""
    place.store.is_down = True
    for _ in range(200):
        place.turn(5.0)
    place.store.is_down = False


def full(place: Place) -> None:
    """The store had no room for heartbeats."""
    place.store.is_full = True
    for _ in range(200):
        place.turn(5.0)
    place.store.is_full = False


def replaced(place: Place) -> None:
    """The controller was killed, and the next command came late."""
    place.manual.advance(36_000.0)
    place.job = place.controller()


@pytest.mark.parametrize("blindness", [asleep, cut_off, full, replaced], ids=lambda blindness: blindness.__name__)
def test_no_agent_is_lost_because_the_controller_did_not_look(
    make: Callable[..., Place], blindness: Callable[[Place], None]
) -> None:
    place = make()
    doing("training")(place)
    place.frozen.add(0)
    blindness(place)
    assert place.turn(5.0).interruptions == 0
    place.frozen.clear()
    for _ in range(100):
        place.turn(5.0)
    assert (len(place.engine.started), place.job.state.interruptions) == (1, 0)


@pytest.mark.parametrize("kind", ["training", "uploading"])
@pytest.mark.parametrize(("age_secs", "reason"), [
    (95.0, "Its agent has not reported for 1 min 35 s: it is frozen, or cannot reach the store. "
           "After 5 minutes, Barograph replaces the instance."),
    (20.0, ""),
])
def test_an_agent_that_is_frozen_is_noticed(
    kind: str, age_secs: float, reason: str, make: Callable[..., Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = make()
    place.turn()
    place.engine.say(0, kind)
    place.store.put(f"{instance_folder(0, 0)}/{NOW}", sealed({"beat": 1, "time_unix": 1_000.0}))
    monkeypatch.setattr("barograph.jobs.job_report.time.time", lambda: 1_000.0 + age_secs)
    assert JobView("digits", place.store).report().reason == reason


@pytest.mark.parametrize(("host", "stops", "then"), [
    ("elsewhere", False, "After 2 minutes, Barograph replaces the instance."),
    ("elsewhere", True, "After 2 minutes, Barograph no longer waits for it."),
    ("", True, "Barograph kills it soon."),
])
def test_what_happens_to_an_agent_that_is_frozen_depends_on_its_machine_and_on_the_job(
    host: str, stops: bool, then: str, make: Callable[..., Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = make()
    place.engine.host, place.engine.ignore = host, True
    doing("training")(place)
    if stops:
        place.stop()
        place.turn()
    place.store.put(f"{instance_folder(0, 0)}/{NOW}", sealed({"beat": 1, "time_unix": 1_000.0}))
    monkeypatch.setattr("barograph.jobs.job_report.time.time", lambda: 1_095.0)
    assert JobView("digits", place.store).report().reason.partition("reach the store. ")[2] == then


def test_an_instance_that_has_ended_is_not_called_frozen_while_the_others_go_on(
    make: Callable[..., Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = make(instances=2)
    doing("training")(place)
    place.store.put(f"{instance_folder(0, 0)}/{NOW}", sealed({"beat": 1, "time_unix": 1_000.0}))
    monkeypatch.setattr("barograph.jobs.job_report.time.time", lambda: 1_095.0)
    assert JobView("digits", place.store).report().reason
    place.engine.end(0, "finished")
    place.turn()
    assert (place.job.state.open_instances, JobView("digits", place.store).report().reason) == ((1,), "")


def test_a_machine_that_cannot_start_an_instance_fails_the_job_and_a_node_that_left_does_not(
    make: Callable[..., Place]
) -> None:
    place = make()
    place.engine.refuses = JobError("its node left the Ray cluster")
    for _ in range(10):
        place.turn()
    assert place.job.state.interruptions >= 3
    place.engine.refuses = OSError(28, "No space left on device")
    for _ in range(10):
        place.turn(60)
    phase, reason, code = place.end()
    assert (phase, code) == (Phase.FAILED, 75)
    assert reason == ("The instance cannot be started: [Errno 28] No space left on device. That happened 3 times.")


def test_a_cluster_without_capacity_for_an_hour_is_waited_for(make: Callable[..., Place]) -> None:
    place = make()
    place.engine.wait = "Waits for 2 CPUs; no node has them free."
    for _ in range(360):
        place.turn(10, turns=1)
    report = JobView("digits", place.store).report()
    assert (report.phase, report.reason) == (Phase.QUEUED, "Waits for 2 CPUs; no node has them free.")
    assert place.kinds == ["submitted", "waiting"]
    place.engine.wait = ""
    place.turn()
    place.engine.end(0, "finished", 0)
    place.turn()
    assert place.end() == (Phase.FINISHED, "", 0)


def test_a_job_behind_others_is_looked_at_once_a_second_and_at_once_when_it_is_its_turn(
    make: Callable[..., Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    place, read = make(), names_that_are_read(monkeypatch)
    assert place.job.turn(may_start=False)
    read.clear()
    for _ in range(9):
        place.manual.advance(0.1)
        assert place.job.turn(may_start=False)
    assert read == []
    place.manual.advance(0.2)
    assert place.job.turn(may_start=False)
    assert read != []
    assert not place.job.turn(may_start=True)
    assert [order.job for order in place.engine.started] == ["digits"]


def test_a_job_that_waits_behind_others_is_stopped_within_a_second(make: Callable[..., Place]) -> None:
    place = make()
    assert place.job.turn(may_start=False)
    place.stop()
    place.manual.advance(1.1)
    place.job.turn(may_start=False)
    place.job.turn(may_start=False)
    assert place.end() == (Phase.STOPPED, "Stopped: requested by the user.", 79)


def test_a_job_whose_record_was_deleted_leaves_no_instance(make: Callable[..., Place]) -> None:
    place = make()
    place.turn()
    assert place.engine.alive
    place.home.forget("digits")
    place.job.abandon()
    assert place.left == []


def test_a_job_whose_record_cannot_be_read_any_more_goes_on(make: Callable[..., Place]) -> None:
    place = make()
    controller = Controller(place.home, {"fake": lambda: place.engine}, place.manual)
    for _ in range(4):
        controller.turn()
    assert place.engine.alive
    (place.home.path / "jobs" / "digits.json").write_text("{")
    controller.turn()
    assert place.engine.alive


def test_instances_of_a_job_whose_record_was_deleted_are_ended_again_if_that_failed(
    make: Callable[..., Place], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = make()
    controller = Controller(place.home, {"fake": lambda: place.engine}, place.manual)
    for _ in range(4):
        controller.turn()
    place.home.forget("digits")
    monkeypatch.setattr(place.engine, "release", failing("head"))
    controller.turn()
    monkeypatch.undo()
    place.manual.advance(5.0)
    controller.turn()
    assert place.left == []


def test_a_cluster_without_capacity_until_max_wait_is_a_failure_of_the_infrastructure(
    make: Callable[..., Place]
) -> None:
    place = make(max_wait_secs=3600.0)
    place.engine.wait = "Waits for 2 CPUs; no node has them free."
    for _ in range(361):
        place.turn(10, turns=1)
    place.turn()
    assert place.end() == (
        Phase.FAILED, "Not finished within 1 h 0 min (max-wait). Waits for 2 CPUs; no node has them free. Raise "
                      "--max-wait to wait longer.", 75)
    assert place.engine.started == []


# The end of a script.


def test_a_worker_that_fails_fails_the_job_although_the_other_one_ends_with_0(make: Callable[..., Place]) -> None:
    place = make(instances=2)
    place.turn()
    place.engine.end(0, "finished", 0)
    place.turn()
    place.engine.end(1, "script", 7, "The script ended with exit code 7: KeyError: 'lr'")
    place.turn()
    assert place.end() == (Phase.FAILED, "Instance 2 of 2: The script ended with exit code 7: KeyError: 'lr'", 1)


def test_a_script_that_fails_because_its_peer_was_taken_away_is_not_the_cause(make: Callable[..., Place]) -> None:
    place = make(instances=2)
    place.engine.ignore = True
    place.turn()
    place.engine.end(1, "script", 1, "The script ended with exit code 1: Connection closed by peer.")
    assert place.turn().phase is Phase.STOPPING
    place.engine.end(0, "interrupted", -15, "The instance was taken away: a test.", announced=True)
    place.turn()
    assert (place.job.state.phase, place.job.state.interruptions) == (Phase.RUNNING, 1)
    requeued = [event.data for event in EventLog(place.store, EVENTS).new() if event.kind == "requeued"]
    assert requeued == [{"cause": "interrupted", "reason": "Instance 1 of 2: The instance was taken away: a test."}]


def test_a_script_that_never_ends_is_stopped_at_max_runtime(make: Callable[..., Place]) -> None:
    place = make(max_runtime_secs=3600.0)
    place.turn()
    for _ in range(360):
        place.turn(10, turns=1)
    place.turn()
    assert place.end() == (
        Phase.STOPPED, "Stopped: it reached max-runtime (1 h 0 min); raise it to train longer.", 79)


# Clocks.


@pytest.mark.parametrize("jump_secs", [3600.0, -3600.0])
def test_a_jump_of_the_clock_ends_no_job_and_changes_no_times(tmp_path: Path, jump_secs: float) -> None:
    manual = ManualClock()
    place = Place(tmp_path, SteadyClock(manual), max_runtime_secs=1800.0, max_wait_secs=1800.0)
    place.manual = manual
    place.turn(600)
    manual.jump(jump_secs)
    place.turn(600)
    assert place.job.state.phase is Phase.RUNNING
    manual.jump(-jump_secs)
    place.turn(60)
    place.engine.end(0, "finished", 0)
    place.turn()
    assert place.end() == (Phase.FINISHED, "", 0)
    assert place.job.state.trained_secs == 1260.0


def test_a_controller_that_begins_after_a_jump_back_counts_no_time_below_0(make: Callable[..., Place]) -> None:
    place = make()
    place.turn(10)
    place.manual.jump(-3600)
    place.job = place.controller()
    place.engine.end(0, "finished", 0)
    place.turn()
    report = JobView("digits", place.store).report()
    assert (report.trained_secs, place.end()) == (0.0, (Phase.FINISHED, "", 0))


# Stopping.


def queued(place: Place) -> None:
    place.engine.wait = "Waits for 2 CPUs."
    place.turn()


def starting_under_a_killed_controller(place: Place) -> None:
    place.engine.refuses = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        place.job.turn(may_start=True)
    place.engine.refuses = None
    place.job = place.controller()


def starting(place: Place) -> None:
    place.turn()


def doing(kind: str) -> Callable[[Place], None]:
    def prepare(place: Place) -> None:
        place.turn()
        for event in ("ready", kind):
            place.engine.say(0, event)
        place.turn()

    prepare.__name__ = kind
    return prepare


def ignoring(place: Place) -> None:
    place.engine.ignore = True
    doing("training")(place)


def restarting(place: Place) -> None:
    doing("training")(place)
    place.engine.kill({"number": 0})
    place.engine.wait = "Waits for 2 CPUs."
    place.turn()
    assert place.job.state.interruptions == 1


def pausing(place: Place) -> None:
    place.turn()
    place.engine.alive.clear()
    place.turn()
    assert (place.job.state.phase, place.job.state.failures) == (Phase.QUEUED, 1)


@pytest.mark.parametrize("phase", [
    queued, starting_under_a_killed_controller, starting, doing("preparing"), doing("downloading"), doing("training"),
    doing("uploading"), ignoring, restarting, pausing], ids=lambda phase: phase.__name__)
def test_a_job_is_stopped_in_every_phase_and_leaves_nothing(
    make: Callable[..., Place], phase: Callable[[Place], None]
) -> None:
    place = make()
    phase(place)
    place.stop()
    for _ in range(200):
        if place.turn().phase.is_over:
            break
    assert place.end() == (Phase.STOPPED, "Stopped: requested by the user.", 79)
    assert len(place.engine.started) == (phase not in (queued, starting_under_a_killed_controller))
