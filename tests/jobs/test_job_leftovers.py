"""What killed commands and controllers leave is removed, and damaged or full disks stop no other job."""

from __future__ import annotations

import io
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from barograph.errors import DamagedChunk, JobRefused, StoreFull, StoreUnavailable
from barograph.jobs.controller import Controller
from barograph.jobs.controller_process import ensure_controller
from barograph.jobs.engines.engine import ASKED, Handle, Order
from barograph.jobs.engines.local import LocalEngine
from barograph.jobs.home import JobRecord, JobsHome
from barograph.jobs.job_log import EVENTS, EventLog
from barograph.jobs.job_report import reports_of, view_of
from barograph.jobs.leftovers import has_leftovers, noted_submission, probe_directory, remove_leftovers
from barograph.jobs.spec import JobSpec
from barograph.jobs.state import JobState, Phase, state_after
from barograph.jobs.submission import Submission, write_submission
from barograph.jobs.submitting import submit
from barograph.machine.marked import marked_processes
from barograph.model.clock import ManualClock
from barograph.store.base import Store
from barograph.store.failures import NO_BUCKET
from barograph.store.files import FileStore
from barograph.store.urls import store_from_url

ENDED_PROCESS = {"pid": 2**22 + 1, "host": os.uname().nodename, "started_ticks": 1}
"""No process has such a number."""


class Instances:
    """An engine that counts what is asked of it."""

    def __init__(self, free: int = 10) -> None:
        self.free = free
        self.started: list[tuple[str, int]] = []
        self.adopted: list[tuple[str, list[int]]] = []
        self.released: list[str] = []
        self.fault: Exception | None = None

    def problems(self, spec: JobSpec, url: str = "") -> list[str]:
        return []

    def queue(self, job: str, spec: JobSpec) -> str:
        return ""

    def reserve(self, job: str, spec: JobSpec) -> str:
        return "" if len(self.started) + len(self.adopted) < self.free else "Waits."

    def start(self, order: Order) -> Handle:
        if self.fault:
            raise self.fault
        self.started.append((order.job, order.index))
        return {"of": order.job}

    def adopt(self, job: str, spec: JobSpec, handles: Mapping[int, Handle]) -> None:
        self.adopted.append((job, sorted(handles)))

    def is_gone(self, handle: Handle) -> str:
        return ""

    def ask_to_end(self, handle: Handle) -> None: ...
    def kill(self, handle: Handle) -> None: ...

    def release(self, job: str, *, is_over: bool = True) -> None:
        self.released.append(job)

    def close(self) -> None: ...


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobsHome:
    # Nothing here starts a controller.
    for name in ("announce", "ensure_controller"):
        monkeypatch.setattr(f"barograph.jobs.submitting.{name}", lambda *_: False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("")
    return JobsHome(tmp_path / "home")


def job(home: JobsHome, name: str, number: int = 1, spec: JobSpec | None = None) -> EventLog:
    """Put a job in the queue, and return its events."""
    store = store_from_url(str(home.path.parent / "runs" / name))
    write_submission(store, Submission(name, spec or JobSpec(("train.py",))))
    log = EventLog(store, EVENTS)
    log.append("submitted")
    home.add(JobRecord(name, store.url, number, "local"), {"TOKEN": "secret"})
    return log


def state(home: JobsHome, name: str) -> JobState:
    return state_after(EventLog(store_from_url(home.named(name).url), EVENTS).new())


def controller(home: JobsHome, engine: Any, clock: ManualClock | None = None) -> Controller:
    return Controller(home, {"local": lambda: engine}, clock or ManualClock())


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*")
                  if path.is_file() and path.name != "controller.log")


# A controller that was killed


def test_a_job_whose_controller_was_killed_before_it_started_an_instance_is_started(home: JobsHome) -> None:
    job(home, "digits").append("starting", attempt=0)
    engine = Instances()
    controller(home, engine).turn()
    assert engine.adopted == [("digits", [])]
    assert engine.started == [("digits", 0)]


def test_the_rest_of_the_instances_is_started_after_the_controller_was_killed(home: JobsHome) -> None:
    log = job(home, "digits", spec=JobSpec(("train.py",), instances=2))
    log.append("starting", attempt=0)
    log.append("started", index=0, handle={"of": "digits"})
    engine = Instances()
    controller(home, engine).turn()
    assert engine.adopted == [("digits", [0])]
    assert engine.started == [("digits", 1)]


def test_a_running_job_keeps_its_instances_when_an_earlier_one_waits(home: JobsHome) -> None:
    job(home, "earlier", 1)
    log = job(home, "running", 2)
    log.append("starting", attempt=0)
    log.append("started", index=0, handle={"of": "running"})
    engine = Instances(free=1)
    controller(home, engine).turn()
    assert engine.adopted == [("running", [0])]
    assert engine.started == []


def test_an_instance_that_no_event_names_is_found_and_not_started_twice(home: JobsHome) -> None:
    spec = JobSpec(("sleep", "600"))
    job(home, "digits", spec=spec)
    order = Order("digits", home.named("digits").url, spec, 0, 0, dict(os.environ))
    engines = [LocalEngine(home), LocalEngine(home)]
    handles = []
    try:
        for engine in engines:
            engine.adopt("digits", spec, {})
            handles.append(engine.start(order))
        assert handles[1] == handles[0]
        assert len(handles[0]["cpus"]) == 1
    finally:
        engines[0].kill(handles[0])
        engines[1].release("digits")
    assert marked_processes("BAROGRAPH_INSTANCE", handles[0]["mark"]) == []
    assert engines[1].is_gone(handles[0])


def test_an_instance_that_is_killed_takes_no_other_one_with_it(home: JobsHome) -> None:
    marks = [f"{home.unique('digits')}/0-{index}/" for index in (1, 10)]
    assert not marks[1].startswith(marks[0])
    assert home.unique("digits") != JobsHome(home.path / "other").unique("digits")


# A submission that was killed


@pytest.fixture
def killed(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Submit a job with a name, as a process that is killed before it puts it in the queue."""
    class Killed(BaseException): ...

    def kill(*_: object, **__: object) -> None:
        raise Killed

    def submit_and_kill(name: str) -> None:
        with monkeypatch.context() as patch:
            patch.setattr("barograph.jobs.leftovers._undo", lambda *_: None)
            patch.setattr(JobsHome, "_write_mapped", _then(JobsHome._write_mapped, "secrets", kill))
            with pytest.raises(Killed):
                submit(JobSpec(("train.py",), name=name))

    return submit_and_kill


def _then(write: Any, folder: str, do: Callable[[], None]) -> Any:
    """Return a method that writes, and does something after it wrote into a folder."""
    def written(self: JobsHome, target: Path, data: object, *, replaces: bool) -> None:
        write(self, target, data, replaces=replaces)
        if target.parent.name == folder:
            do()

    return written


def ended(home: JobsHome) -> None:
    """Have the notes of submissions be of processes that have ended."""
    for file in (home.path / "submitting").iterdir():
        note = json.loads(file.read_bytes())
        file.write_text(json.dumps({**note, **ENDED_PROCESS}))


def test_what_a_killed_submission_stored_is_removed_and_its_name_is_free(
    home: JobsHome, killed: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAROGRAPH_HOME", str(home.path))
    killed("digits")
    assert "secrets/digits.json" in files(home.path)
    assert "digits/run.json" in files(home.path.parent / "barograph-runs")
    remove_leftovers(home)
    assert "secrets/digits.json" in files(home.path)  # its process runs
    ended(home)
    assert has_leftovers(home)
    remove_leftovers(home)
    assert files(home.path) == files(home.path.parent / "barograph-runs") == []
    assert not has_leftovers(home)
    assert submit(JobSpec(("train.py",), name="digits")).name == "digits"


def test_a_killed_submission_takes_nothing_of_others_with_it(
    home: JobsHome, killed: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BAROGRAPH_HOME", str(home.path))
    other = submit(JobSpec(("train.py",), name="other"))
    before = files(home.path), files(home.path.parent / "barograph-runs")
    with pytest.raises(JobRefused):
        submit(JobSpec(("train.py",), name="mine"), to=other.store.url)
    with noted_submission(home, "other", other.store, "another-run"):
        pass
    assert (files(home.path), files(home.path.parent / "barograph-runs")) == before


@pytest.mark.parametrize("unreachable", ["digits", "other"])
def test_a_store_that_is_unreachable_keeps_nothing_of_other_submissions(
    home: JobsHome, killed: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, unreachable: str
) -> None:
    monkeypatch.setenv("BAROGRAPH_HOME", str(home.path))
    for name in ("digits", "other"):
        killed(name)
    ended(home)

    def store(url: str) -> Store:
        if url.endswith(unreachable):
            raise StoreUnavailable("The store cannot be reached.")
        return store_from_url(url)

    monkeypatch.setattr("barograph.jobs.leftovers.store_from_url", store)
    with pytest.raises(StoreUnavailable):
        remove_leftovers(home)
    (left,) = (home.path / "submitting").iterdir()
    assert json.loads(left.read_bytes())["name"] == unreachable


def test_a_submission_to_a_missing_bucket_leaves_nothing(home: JobsHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAROGRAPH_HOME", str(home.path))

    def missing(*_: object) -> None:
        raise StoreUnavailable(f"{NO_BUCKET} (get job/spec.json in s3://bucket)")

    monkeypatch.setattr("barograph.jobs.submitting.write_submission", missing)
    monkeypatch.setattr("barograph.jobs.leftovers.read_submission", missing)
    with pytest.raises(StoreUnavailable):
        submit(JobSpec(("train.py",), name="digits"))
    assert files(home.path) == []


def test_a_refused_submission_leaves_nothing(home: JobsHome, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAROGRAPH_HOME", str(home.path))

    def full(*_: object, **__: object) -> None:
        raise StoreFull("The store is full.")

    monkeypatch.setattr("barograph.jobs.submitting.write_channels", full)
    with pytest.raises(StoreFull):
        submit(JobSpec(("train.py",), name="digits"))
    assert files(home.path) == files(home.path.parent / "barograph-runs") == []


# What else is left


def test_what_belongs_to_no_open_job_is_removed(home: JobsHome) -> None:
    job(home, "open")
    job(home, "over")
    (home.path / "work" / "open" / "0-0").mkdir(parents=True)
    assert not has_leftovers(home)
    home.close(home.named("over"))
    for path in ("work/over/0-0/left", "work/gone/0-0/left", "secrets/over.json", "secrets/gone.json",
                 "jobs/.over.json.4194305.0a1b2c", ".controller.json.4194305.0a1b2c",
                 f"jobs/.open.json.{os.getpid()}.0a1b2c"):
        (home.path / path).parent.mkdir(parents=True, exist_ok=True)
        (home.path / path).write_text("{}")
    probe = home.path / "work" / ".probe-4194305-0a1b2c"
    probe.mkdir()
    assert has_leftovers(home)
    with probe_directory(home) as mine:
        remove_leftovers(home)
        assert mine.exists()
    assert files(home.path) == [f"jobs/.open.json.{os.getpid()}.0a1b2c", "jobs/open.json", "jobs/over.json",
                                "secrets/open.json"]
    assert os.listdir(home.path / "work") == ["open"]


def test_leftovers_alone_are_a_reason_for_a_controller(home: JobsHome, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[object] = []

    class Started:
        def __init__(self, command: object, **_: object) -> None:
            started.append(command)

        def let_go(self) -> None: ...

    monkeypatch.setattr("barograph.jobs.controller_process.LocalProcess", Started)
    assert not ensure_controller(home)
    (home.path / "work" / "gone").mkdir(parents=True)
    assert ensure_controller(home)
    assert len(started) == 1


def test_an_instance_on_another_machine_that_was_given_up_keeps_its_directory_until_it_has_ended(
    home: JobsHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = LocalEngine(home, cores=1)
    here, elsewhere = home.path / "work" / "digits" / "1-0", home.path / "work" / "digits" / "0-0"
    for place in (here, elsewhere):
        place.mkdir(parents=True)
    engine.kill({"host": "elsewhere", "work": str(elsewhere)})
    engine.release("digits")
    home.close(JobRecord("digits", "memory://digits", 1, "local"))
    remove_leftovers(home)
    assert (here.exists(), elsewhere.exists(), has_leftovers(home)) == (False, True, False)
    with monkeypatch.context() as patch:
        patch.setattr("barograph.jobs.engines.engine.socket.gethostname", lambda: "elsewhere")
        assert has_leftovers(home)  # the next command there removes it
    eight_days = time.time() - 8 * 86_400
    os.utime(elsewhere / ASKED, (eight_days, eight_days))
    assert has_leftovers(home)
    (elsewhere / ASKED).unlink()  # its agent has ended
    assert has_leftovers(home)
    remove_leftovers(home)
    assert os.listdir(home.path / "work") == []


def test_a_controller_removes_leftovers_while_it_runs(home: JobsHome) -> None:
    job(home, "open")
    clock = ManualClock()
    made = controller(home, Instances(), clock)
    made.turn()
    (home.path / "secrets" / "gone.json").write_text("{}")
    clock.advance(3)
    made.turn()
    assert files(home.path / "secrets") == ["open.json"]


def test_a_controller_removes_leftovers_before_it_ends(home: JobsHome) -> None:
    made = controller(home, Instances())
    made.turn()
    (home.path / "secrets").mkdir(parents=True)
    (home.path / "secrets" / "gone.json").write_text("{}")
    made.close()
    assert files(home.path / "secrets") == []


def test_a_job_that_is_tried_again_later_keeps_the_controller_waiting(
    home: JobsHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    job(home, "digits")
    create = FileStore.create

    def created(self: FileStore, name: str, data: bytes) -> None:
        if name.endswith("00000002.json"):
            raise StoreFull("The store is full.")
        create(self, name, data)

    monkeypatch.setattr(FileStore, "create", created)
    made = controller(home, Instances())
    made.turn()
    assert state(home, "digits").phase is Phase.RUNNING
    assert not made.has_decided


def test_what_killed_processes_were_writing_to_the_store_is_removed_at_the_end(home: JobsHome) -> None:
    log = job(home, "digits")
    log.append("starting", attempt=0)
    log.append("started", index=0, handle={"of": "digits"})
    log.append("ended", index=0, outcome="finished", exit_code=0, reason="")
    root = Path(home.named("digits").url)
    for name in ("job/logs/0000-0/00000001.log#17", "checkpoints/w0/data#5", "job/name#x"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("half")
    controller(home, Instances()).turn()
    assert home.named("digits").over
    assert [name for name in files(root) if "#" in name] == ["job/name#x"]


def test_what_a_killed_agent_was_storing_beside_the_runs_is_removed_at_the_end_and_nothing_of_others(
    home: JobsHome
) -> None:
    log = job(home, "digits")
    log.append("starting", attempt=0)
    log.append("requeued", cause="lost", reason="")
    log.append("starting", attempt=1)
    log.append("started", index=0, handle={"of": "digits"})
    log.append("ended", index=0, outcome="finished", exit_code=0, reason="")
    artifacts = Path(home.named("digits").url).parent / ".catalog" / "artifacts" / "a9"
    artifacts.mkdir(parents=True)
    for pid in (4194305, os.getpid()):
        (artifacts / f"sha256-a993#{pid}000017").write_text("half")
        os.utime(artifacts / f"sha256-a993#{pid}000017", (1, 1))
    (artifacts / "sha256-a994#4194305000018").write_text("written a moment ago")

    controller(home, Instances()).turn()

    assert home.named("digits").over
    assert sorted(path.name for path in artifacts.iterdir()) == sorted(
        [f"sha256-a993#{os.getpid()}000017", "sha256-a994#4194305000018"])


# Damage


@pytest.mark.parametrize(("text", "why"), [
    ("", "it is empty"),
    ('{"name": "bad", "url"', "it is not JSON"),
    ('["bad"]', "its entries are wrong"),
    ('{"name": "bad", "url": "runs/bad", "number": "1", "engine": "local"}', 'its entry "number" is wrong'),
    ('{"name": "good", "url": "runs/good", "number": 1, "engine": "local"}', 'it describes another job, "good"'),
])
def test_a_damaged_record_is_listed_with_its_path_and_disturbs_no_other(text: str, why: str, home: JobsHome) -> None:
    job(home, "good")
    path = home.path / "jobs" / "bad.json"
    path.write_text(text)
    (home.path / "work" / "bad").mkdir(parents=True)
    assert [record.name for record in home.all()] == ["good"]
    (report,) = reports_of(home.damaged())
    assert (report.name, report.phase, report.doing) == ("bad", None, "damaged")
    assert report.reason == (f"The record of the job is damaged: {why}. Delete the file to forget the job; its "
                             f"processes and directories are removed, too ({path}).")
    with pytest.raises(DamagedChunk, match="The record of the job is damaged"):
        home.named("bad")
    engine = Instances()
    controller(home, engine).turn()
    assert engine.started == [("good", 0)]
    assert (home.path / "work" / "bad").exists()
    path.unlink()
    remove_leftovers(home)
    assert not (home.path / "work" / "bad").exists()


def test_a_record_that_is_repaired_is_read_again(home: JobsHome) -> None:
    job(home, "digits")
    path = home.path / "jobs" / "digits.json"
    text = path.read_text()
    path.write_text("")
    assert home.all() == []
    path.write_text(text)
    assert [record.name for record in home.all()] == ["digits"]


def test_a_job_with_a_damaged_event_is_listed_with_its_path_and_ended(home: JobsHome) -> None:
    job(home, "good", 1)
    log = job(home, "bad", 2)
    log.append("starting", attempt=0)
    log.append("started", index=0, handle={"of": "bad"})
    path = Path(home.named("bad").url, EVENTS, "00000002.json")
    path.write_bytes(path.read_bytes()[:20])
    bad = next(report for report in reports_of(home.all()) if report.name == "bad")
    assert (bad.phase, bad.doing) == (None, "damaged")
    assert bad.reason == f"An event of the job bad is damaged: its checksum does not match ({path})."
    with pytest.raises(DamagedChunk):
        view_of("bad", home).refresh()
    engine = Instances()
    controller(home, engine).turn()
    assert engine.started == [("good", 0)]
    assert engine.released == ["bad"]
    assert state(home, "bad").phase is Phase.FAILED
    assert state(home, "bad").reason == \
        "One of its events is damaged, so it cannot go on. Submit it again (job/events/00000002.json)."


def test_a_job_whose_description_is_damaged_is_ended(home: JobsHome) -> None:
    job(home, "good", 1)
    job(home, "bad", 2)
    path = Path(home.named("bad").url, "job/spec.json")
    path.write_bytes(b"")
    engine = Instances()
    assert controller(home, engine).turn() == 2
    assert (engine.started, engine.released) == ([("good", 0)], ["bad"])
    (bad,) = [report for report in reports_of(home.all()) if report.name == "bad"]
    assert (bad.phase, bad.doing) == (None, "damaged")
    assert "job/spec.json" in bad.reason
    assert [record.name for record in home.all() if not record.over] == ["good"]


def test_an_error_of_one_job_does_not_end_the_controller(home: JobsHome, capsys: pytest.CaptureFixture[str]) -> None:
    job(home, "bad", 1).append("ended")  # an event of another version: without its index
    job(home, "good", 2)
    engine = Instances()
    assert controller(home, engine).turn() == 2
    assert engine.started == [("good", 0)]
    assert "KeyError" in capsys.readouterr().err
    assert [report.doing for report in reports_of(home.all()) if report.name == "bad"] == ["unreadable"]


# A full disk


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Reject new objects while the list is not empty."""
    create, full = FileStore.create, ["full"]

    def created(self: FileStore, name: str, data: bytes) -> None:
        if full:
            raise StoreFull("The store is full.")
        create(self, name, data)

    monkeypatch.setattr(FileStore, "create", created)
    return full


def test_a_job_goes_on_once_its_store_has_space(home: JobsHome, full_disk: list[str]) -> None:
    held = full_disk.pop()
    log = job(home, "digits")
    full_disk.append(held)
    clock, engine = ManualClock(), Instances()
    made = controller(home, engine, clock)
    for _ in range(3):
        made.turn()
        clock.advance(6)
    assert engine.started == []
    full_disk.clear()
    made.turn()
    assert engine.started == [("digits", 0)]
    assert [event.kind for event in log.new()] == ["starting", "started"]


def test_a_log_that_cannot_be_written_does_not_end_the_controller(
    home: JobsHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(28, "No space left on device")

    job(home, "bad").append("ended")
    with monkeypatch.context() as patch:
        patch.setattr("sys.stderr", Full())
        assert controller(home, Instances()).turn() == 1
