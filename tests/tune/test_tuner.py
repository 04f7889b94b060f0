"""The loop of a study of jobs: jobs of other tuners, of killed ones, of other machines, and unreadable ones."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from barograph.errors import ClusterUnavailable, JobRefused, StoreFull, StoreUnavailable, UnknownStudy
from barograph.jobs.home import JobRecord, JobsHome
from barograph.jobs.job_log import EVENTS, STOP, EventLog
from barograph.jobs.spec import JobSpec
from barograph.jobs.submission import Submission, write_submission
from barograph.jobs.submitting import Submitted
from barograph.store.files import FileStore
from barograph.store.urls import store_from_url
from barograph.tune.confirming import confirm
from barograph.tune.job_studies import stop_study
from barograph.tune.study import BY_USER, Study
from barograph.tune.trial import Cause, TrialState
from barograph.tune.trial_plan import TrialPlan
from barograph.tune.tuner import Tuner


class Queue:
    """Submits jobs that nobody runs."""

    def __init__(self, *errors: Exception) -> None:
        self.errors, self.names, self.places = list(errors), list[str](), list[str]()

    def __call__(self, spec: JobSpec, *, to: str, home: JobsHome) -> Submitted:
        if self.errors:
            raise self.errors.pop(0)
        self.names.append(spec.name)
        self.places.append(os.getcwd())
        stored(spec, to)
        home.add(JobRecord(spec.name, to, time.time_ns(), "local"), {})
        return Submitted(spec.name, store_from_url(to))


def stored(spec: JobSpec, url: str) -> None:
    write_submission(store_from_url(url), Submission(spec.name, spec))
    EventLog(store_from_url(url), EVENTS).append("submitted")


def finished(url: str) -> None:
    log = EventLog(store_from_url(url), EVENTS)
    log.new()
    log.append("over", phase="finished", reason="")


class Desk:
    """A study of one trial at a time, and its tuners."""

    def __init__(self, folder: Path) -> None:
        self.home = JobsHome(folder / "home")
        self.plan = TrialPlan("study", JobSpec(("train.py",)), (folder / "runs").as_uri())
        self.place, self.now = folder / "study", 0.0
        self.study = Study.create(self.place, {"x": [1, 2, 3]}, strategy="grid", seed=1, minimize="loss",
                                  details=self.plan.to_json())

    def tuner(self, queue: Queue) -> Tuner:
        return Tuner(Study.open(self.place), self.plan, self.home, submit=queue, ensure=lambda home: None,
                     clock=lambda: self.now)

    def states(self) -> list[str]:
        return [str(trial.state) for trial in Study.open(self.place).trials]


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def first_spec(desk: Desk) -> JobSpec:
    trial = desk.study.ask(job=desk.plan.job_names)
    assert trial is not None
    return desk.plan.job_spec(trial.job, trial.parameters)


def test_a_job_that_another_tuner_is_submitting_is_adopted(desk: Desk) -> None:
    spec = first_spec(desk)
    stored(spec, desk.plan.url_of(spec.name))
    tuner = desk.tuner(Queue(JobRefused("There is a job already.")))
    assert tuner.turn()
    assert (tuner.jobs, desk.states()) == ({}, ["running"])
    desk.home.add(JobRecord(spec.name, desk.plan.url_of(spec.name), 1, "local"), {})
    assert tuner.turn()
    assert (list(tuner.jobs), desk.states()) == ([0], ["running"])


def test_a_job_that_was_submitted_on_another_machine_is_adopted(desk: Desk) -> None:
    spec = first_spec(desk)
    stored(spec, desk.plan.url_of(spec.name))
    tuner = desk.tuner(Queue(*[JobRefused("There is a job already.")] * 2))
    assert tuner.turn()
    desk.now = 61.0
    assert tuner.turn()
    assert (list(tuner.jobs), desk.states()) == ([0], ["running"])


def test_a_submission_that_was_killed_is_repeated(desk: Desk) -> None:
    spec = first_spec(desk)
    store = store_from_url(desk.plan.url_of(spec.name))
    write_submission(store, Submission(spec.name, spec))
    queue = Queue(JobRefused("There is a job already."))
    tuner = desk.tuner(queue)
    assert tuner.turn()
    store.delete("job/spec.json")  # by the next controller
    assert tuner.turn()
    assert (queue.names, desk.states()) == ([spec.name], ["running"])


def test_a_refused_first_job_ends_the_study(desk: Desk) -> None:
    with pytest.raises(JobRefused):
        desk.tuner(Queue(JobRefused("There is no GPU."))).turn()
    assert desk.states() == ["failed"]


def test_jobs_that_are_refused_alike_do_not_use_up_the_trials(desk: Desk) -> None:
    queue = Queue()
    desk.plan = replace(desk.plan, parallel=3)
    tuner = desk.tuner(queue)
    first = tuner.study.ask(job=desk.plan.job_names)
    assert first is not None
    queue.errors = [JobRefused("There is no train.py.")] * 2
    tuner.study.tell(first, 0.5)
    with pytest.raises(JobRefused):
        tuner.turn()
    assert desk.states() == ["finished", "failed", "running"]
    assert desk.tuner(queue).turn()
    assert queue.names == ["study-002"], "resumed in the right folder"


def test_a_study_that_is_resumed_elsewhere_trains_the_code_of_its_own_directory(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("code", "elsewhere"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    desk.plan = replace(desk.plan, directory=str(tmp_path / "code"), parallel=1)
    queue = Queue()
    desk.tuner(queue).turn()
    assert queue.places == [str(tmp_path / "code")]
    assert os.getcwd() == str(tmp_path / "elsewhere")
    desk.plan = replace(desk.plan, directory=str(tmp_path / "on another machine"), parallel=2)
    desk.tuner(queue).turn()
    assert queue.places[1:] == [str(tmp_path / "elsewhere")]


def test_an_unreachable_store_is_tried_again(desk: Desk) -> None:
    queue = Queue(StoreUnavailable("no network"))
    tuner = desk.tuner(queue)
    assert tuner.turn()
    assert (queue.names, desk.states()) == ([], ["running"]), "no further trial begins meanwhile"
    assert tuner.turn()
    assert (queue.names, desk.states()) == (["study-000"], ["running"])


def test_a_job_of_the_same_name_with_another_command_is_not_adopted(desk: Desk) -> None:
    Queue()(JobSpec(("other.py",), name="study-000"), to=desk.plan.url_of("study-000"), home=desk.home)
    with pytest.raises(JobRefused, match="with another command"):
        desk.tuner(Queue()).turn()


def damage(desk: Desk, name: str) -> None:
    store: Any = store_from_url(desk.plan.url_of("study-000"))
    store.put(name, b"{}")


def test_a_deleted_job_fails_its_trial_and_not_the_study(desk: Desk) -> None:
    desk.tuner(Queue()).turn()
    store_from_url(desk.plan.url_of("study-000")).delete("job/spec.json")
    assert stop_study(Study.open(desk.place), desk.home, "requested by the user")[1] == []
    desk.tuner(Queue()).turn()
    assert desk.states() == ["failed"]


def test_a_damaged_job_fails_its_trial_and_not_the_study(desk: Desk) -> None:
    tuner = desk.tuner(Queue())
    tuner.turn()
    damage(desk, f"{EVENTS}/00000001.json")
    tuner.turn()
    trial = Study.open(desk.place).trials[0]
    assert trial.state is TrialState.FAILED
    assert trial.reason.startswith("its job cannot be read")


def test_a_study_that_is_deleted_while_it_runs_says_so_and_stops_its_jobs(desk: Desk) -> None:
    tuner = desk.tuner(Queue())
    tuner.turn()
    shutil.rmtree(desk.place)
    with pytest.raises(UnknownStudy, match="The study was deleted while it ran"):
        tuner.turn()
    assert store_from_url(desk.plan.url_of("study-000")).get(STOP)
    assert not desk.place.exists()


def test_a_study_that_is_deleted_while_a_job_is_submitted_stops_this_job(desk: Desk) -> None:
    class Deleting(Queue):
        def __call__(self, spec: JobSpec, *, to: str, home: JobsHome) -> Submitted:
            shutil.rmtree(desk.place)
            return super().__call__(spec, to=to, home=home)

    desk.plan = replace(desk.plan, parallel=2)
    with pytest.raises(UnknownStudy, match="its jobs stop"):
        desk.tuner(Deleting()).turn()
    assert store_from_url(desk.plan.url_of("study-000")).get(STOP)


def test_jobs_that_were_deleted_with_their_study_are_not_written_again(desk: Desk) -> None:
    tuner = desk.tuner(Queue())
    tuner.turn()
    runs = Path(desk.plan.url_of("study-000").removeprefix("file://"))
    shutil.rmtree(desk.place)
    shutil.rmtree(runs)
    with pytest.raises(UnknownStudy):
        tuner.turn()
    assert not runs.exists()


def test_nothing_is_stored_for_a_study_that_was_deleted(desk: Desk) -> None:
    trial = desk.study.ask(job=desk.plan.job_names)
    assert trial is not None
    shutil.rmtree(desk.place)
    with pytest.raises(UnknownStudy, match="The study was deleted while it ran"):
        desk.study.tell(trial, 1.0)
    with pytest.raises(UnknownStudy, match="The study was deleted while it ran"):
        desk.study.report(trial, 1, 1.0)
    assert not desk.place.exists()


def test_nothing_is_stored_in_a_study_that_was_created_in_place_of_a_deleted_one(desk: Desk) -> None:
    trials = [desk.study.ask() for _ in range(2)]
    shutil.rmtree(desk.place)
    new = Study.create(desk.place, {"x": [1, 2]}, strategy="grid", minimize="loss")
    with pytest.raises(UnknownStudy, match="The study was deleted while it ran"):
        desk.study.tell(trials[1], 1.0)  # type: ignore[arg-type]
    for x in (1, 2):
        new.add({"x": x}, 0.5)
    assert desk.states() == ["finished", "finished"]


def test_a_study_whose_files_were_moved_goes_on(desk: Desk) -> None:
    trial = desk.study.ask()
    for path in desk.place.rglob("*.json"):
        os.utime(path, (1, 1))
    desk.study.tell(trial, 1.0)  # type: ignore[arg-type]
    assert desk.states() == ["finished"]


def test_the_description_of_a_study_is_not_read_again_for_each_event(desk: Desk) -> None:
    read = list[str]()

    class Reading(FileStore):
        def get(self, name: str) -> memoryview:
            read.append(name)
            return super().get(name)

    study = Study.open(Reading(desk.place))
    study.refresh()
    read.clear()
    study.refresh()
    study.ask()
    assert read == ["study/events/00000001.json"]


class Flaky(FileStore):
    """A store that is unreachable for some reads."""

    failures = 0

    def get(self, name: str, *arguments: Any, **options: Any) -> Any:
        if self.failures:
            self.failures -= 1
            raise StoreUnavailable("no network")
        return super().get(name, *arguments, **options)


def test_a_tuner_waits_for_the_store_of_its_study(desk: Desk) -> None:
    store = Flaky(desk.place)
    study = Study.open(store)
    study.end()
    tuner = Tuner(study, desk.plan, desk.home, submit=Queue(), ensure=lambda home: None, clock=lambda: desk.now)
    outages: list[str] = []
    store.failures = 2
    tuner.run(wait=lambda secs: None, seen=lambda seen: outages.append(seen.outage))
    assert outages == ["no network", "no network", ""]

    def minutes(secs: float) -> None:
        desk.now += 300

    store.failures = 9
    with pytest.raises(StoreUnavailable):
        tuner.run(wait=minutes)
    assert store.failures == 6


def test_repetitions_that_are_all_refused_give_reasons_and_no_verdict(desk: Desk) -> None:
    two_trials(desk)
    queue = Queue(*[JobRefused("There is no train.py.")] * 4)
    said: list[str] = []
    found = confirm(desk.study, replace(desk.plan, confirm=2), desk.home, submit=queue, say=said.append,
                    ensure=lambda home: None)
    assert found is not None
    assert found.sentence == "no repetition gave a value. The first one: There is no train.py."
    assert [one.failed for one in found.repeated] == [("There is no train.py.",) * 2] * 2
    assert said == ["repeating trials 0 and 1 with 2 other seeds",
                    *(f"trial {trial} with seed {seed}: There is no train.py." for seed in (1, 2) for trial in (0, 1)),
                    "no repetition gave a value. Once this is fixed:  barograph tune resume study"]


def test_repetitions_that_finished_without_a_value_are_repeated(desk: Desk) -> None:
    def finish(secs: float) -> None:
        while queue.names:
            names.append(queue.names.pop())
            finished(plan.url_of(names[-1]))

    two_trials(desk)
    queue, names, plan = Queue(), list[str](), replace(desk.plan, confirm=2, parallel=4)
    for _ in range(2):
        found = confirm(desk.study, plan, desk.home, submit=queue, wait=finish, ensure=lambda home: None)
        assert found is not None
        desk.study.confirm(found)
        assert not desk.study.was_repeated
    first = ["study-000-s1", "study-000-s2", "study-001-s1", "study-001-s2"]
    assert sorted(names) == sorted([*first, *(f"{name}.2" for name in first)])


def test_the_last_attempt_of_a_repetition_is_stopped(desk: Desk) -> None:
    two_trials(desk)
    plan = replace(desk.plan, confirm=2)
    for name in ("study-000-s1", "study-000-s1.2"):
        Queue()(JobSpec(("train.py",), name=name), to=plan.url_of(name), home=desk.home)
    finished(plan.url_of("study-000-s1"))
    desk.study.spec = replace(desk.study.spec, details=plan.to_json())
    assert stop_study(desk.study, desk.home, BY_USER)[1] == ["study-000-s1.2"]


def two_trials(desk: Desk) -> None:
    for value in (0.1, 0.2):
        trial = desk.study.ask(job=desk.plan.job_names)
        assert trial is not None
        desk.study.tell(trial, value)


def test_repetitions_of_a_study_that_is_deleted_are_stopped(desk: Desk) -> None:
    two_trials(desk)
    queue = Queue()
    with pytest.raises(UnknownStudy, match="The study was deleted while it ran"):
        confirm(desk.study, replace(desk.plan, confirm=2, parallel=2), desk.home, submit=queue,
                wait=lambda secs: shutil.rmtree(desk.place), ensure=lambda home: None)
    assert len(queue.names) == 2
    assert all(store_from_url(desk.plan.url_of(name)).get(STOP) for name in queue.names)


@pytest.mark.parametrize("error", [ClusterUnavailable, StoreFull, StoreUnavailable])
def test_repetitions_wait_ten_minutes_for_a_cluster_or_a_store(desk: Desk, error: type[Exception]) -> None:
    two_trials(desk)
    said: list[str] = []

    def later(secs: float) -> None:
        desk.now += 100.0
        assert desk.now < 1000.0

    with pytest.raises(error):
        confirm(desk.study, replace(desk.plan, confirm=2), desk.home, wait=later, say=said.append,
                submit=Queue(*[error("Cannot submit the job.")] * 9), ensure=lambda home: None, clock=lambda: desk.now)
    assert desk.now == 600.0
    assert said[1:] == ["Cannot submit the job. Trying again."]


def test_repetitions_wait_ten_minutes_for_the_store_of_their_study(desk: Desk) -> None:
    two_trials(desk)
    store = Flaky(desk.place)
    study, said = Study.open(store), list[str]()

    def later(secs: float) -> None:
        store.failures = 9
        desk.now += 100.0
        assert desk.now < 1000.0

    with pytest.raises(StoreUnavailable):
        confirm(study, replace(desk.plan, confirm=2), desk.home, wait=later, say=said.append, submit=Queue(),
                ensure=lambda home: None, clock=lambda: desk.now)
    assert desk.now == 700.0
    assert said[1:] == ["no network Trying again."]


def test_repetitions_go_on_after_an_outage(desk: Desk) -> None:
    two_trials(desk)
    queue, said = Queue(*[ClusterUnavailable("There is no cluster.")] * 2), list[str]()

    def until_submitted(secs: float) -> None:
        if queue.names:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        confirm(desk.study, replace(desk.plan, confirm=2, parallel=2), desk.home, wait=until_submitted, submit=queue,
                say=said.append, ensure=lambda home: None)
    assert queue.names == ["study-000-s1", "study-001-s1"]
    assert said[1:] == ["There is no cluster. Trying again."]


@pytest.mark.parametrize("is_damaged", [False, True])
def test_a_study_that_is_stopped_while_it_is_confirmed_stops_the_repetitions(desk: Desk, is_damaged: bool) -> None:
    for value in (0.1, 0.2):
        trial = desk.study.ask(job=desk.plan.job_names)
        assert trial is not None
        desk.study.tell(trial, value)
    queue, plan = Queue(), replace(desk.plan, confirm=2, parallel=3)
    place = Study.open(desk.place)
    place.spec = replace(place.spec, details=plan.to_json())
    stopped: list[str] = []

    def user_stops(secs: float) -> None:
        assert not stopped, "nothing is waited for after the end"
        if is_damaged:
            shutil.rmtree(plan.url_of("study-000-s1").removeprefix("file://"))
        stopped.extend(stop_study(place, desk.home, "requested by the user")[1])

    assert confirm(desk.study, plan, desk.home, submit=queue, wait=user_stops, ensure=lambda home: None) is None
    assert sorted(stopped) == ["study-000-s1", "study-000-s2", "study-001-s1"][is_damaged:]
    assert all(store_from_url(plan.url_of(name)).get(STOP) for name in stopped)
    assert stop_study(place, desk.home, "requested by the user")[0], "it can be resumed"


def test_a_study_that_is_over_cannot_be_stopped(desk: Desk) -> None:
    for value in (0.1, 0.2):
        trial = desk.study.ask(job=desk.plan.job_names)
        assert trial is not None
        desk.study.tell(trial, value)
    desk.study.end("all trials were started")
    assert stop_study(desk.study, desk.home, "requested by the user") == (False, [])
    assert not desk.study.was_stopped


def test_a_job_of_another_machine_is_stopped_too(desk: Desk) -> None:
    spec = first_spec(desk)
    stored(spec, desk.plan.url_of(spec.name))
    assert stop_study(Study.open(desk.place), desk.home, "requested by the user")[1] == ["study-000"]
    assert store_from_url(desk.plan.url_of(spec.name)).get(STOP)


@pytest.mark.parametrize("error", [ClusterUnavailable, StoreFull, StoreUnavailable])
def test_a_trial_waits_for_a_cluster_or_a_store(desk: Desk, error: type[Exception]) -> None:
    queue = Queue(*[error("Cannot submit the job.")] * 3)
    tuner, outages = desk.tuner(queue), list[str]()

    def until_submitted(secs: float) -> None:
        outages.append(tuner.outage)
        if queue.names:
            raise TimeoutError

    with pytest.raises(TimeoutError):
        tuner.run(wait=until_submitted)
    assert outages == ["Cannot submit the job."] * 3 + [""]
    assert (queue.names, desk.states()) == (["study-000"], ["running"])


def test_a_cluster_that_stays_unreachable_ends_the_command_but_no_trial(desk: Desk) -> None:
    def later(secs: float) -> None:
        desk.now += 100.0

    with pytest.raises(ClusterUnavailable):
        desk.tuner(Queue(*[ClusterUnavailable("Cannot connect to the cluster.")] * 9)).run(wait=later)
    assert desk.now == 600.0
    assert desk.states() == ["running"]


def test_a_failed_start_is_the_only_one_of_its_turn(desk: Desk) -> None:
    desk.plan = replace(desk.plan, parallel=3)
    for _ in range(2):  # of a tuner that was killed
        desk.study.ask(job=desk.plan.job_names)
    queue = Queue(*[ClusterUnavailable("There is no cluster.")] * 5)
    tuner = desk.tuner(queue)
    assert tuner.turn()
    assert (len(queue.errors), desk.states()) == (4, ["running"] * 2)


def test_a_job_of_a_killed_tuner_is_followed_while_another_cannot_start(desk: Desk) -> None:
    first_spec(desk)
    spec = first_spec(desk)
    Queue()(spec, to=desk.plan.url_of(spec.name), home=desk.home)
    tuner = desk.tuner(Queue(ClusterUnavailable("There is no cluster.")))
    assert tuner.turn()
    assert list(tuner.jobs) == [1]


def test_a_trial_without_a_job_is_stopped_with_its_study(desk: Desk) -> None:
    desk.plan = replace(desk.plan, parallel=2)
    queue = Queue()
    tuner = desk.tuner(queue)
    trial = tuner.study.ask(job=desk.plan.job_names)
    assert trial is not None
    queue.errors = [ClusterUnavailable("There is no cluster.")]
    assert tuner.turn()
    assert stop_study(Study.open(desk.place), desk.home, BY_USER) == (True, [])
    assert not tuner.turn()
    assert queue.names == []
    (stopped,) = Study.open(desk.place).trials
    assert (stopped.state, stopped.reason, stopped.cause) == (TrialState.STOPPED, BY_USER, Cause.USER)


def test_a_job_of_a_killed_tuner_is_followed_after_its_study_was_stopped(desk: Desk) -> None:
    desk.tuner(Queue()).turn()
    desk.study.refresh()
    desk.study.end()
    tuner = desk.tuner(Queue())
    assert tuner.turn()
    assert (list(tuner.jobs), desk.states()) == ([0], ["running"])
