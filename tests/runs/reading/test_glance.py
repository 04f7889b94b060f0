"""How a run stands, told by its metadata files."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from barograph.errors import StoreDenied
from barograph.model.finding import Finding, FindingState, Severity
from barograph.model.manifest import Coverage, EndState, Heartbeat
from barograph.model.origin import Untrained
from barograph.model.records import StepRecords
from barograph.model.step import Mode
from barograph.runs.format.metadata import heartbeat_bytes, sealed
from barograph.runs.reading.glance import RunState, glance, glances, runs_below
from barograph.runs.state.findings import write_event
from barograph.runs.state.origins import write_options
from barograph.store.base import Browsable, Store
from barograph.store.urls import store_from_url

MakeRecords = Callable[..., StepRecords]


def fail(secs: float) -> None:
    pytest.fail(f"it waited {secs} s")


def state_of(workshop: Any, *, wait: Callable[[float], object] = fail) -> RunState:
    return glance(workshop.store, clock=workshop.clock, wait=wait).state


@pytest.mark.parametrize(
    ("ending", "state"),
    [(EndState.FINISHED, RunState.FINISHED), (EndState.STOPPED, RunState.STOPPED), (EndState.FAILED, RunState.FAILED)],
)
def test_a_run_stands_as_its_worker_ended(workshop: Any, ending: EndState, state: RunState) -> None:
    workshop.writer().close(ending)

    assert state_of(workshop) == state


def test_as_long_as_one_worker_runs_the_run_does(workshop: Any) -> None:
    attempt = workshop.claim()
    workshop.worker(attempt=attempt)
    workshop.writer(workshop.worker(attempt=attempt)).close(EndState.FAILED)

    assert state_of(workshop) == RunState.RUNNING


def test_a_worker_that_ended_without_a_word_was_killed(workshop: Any) -> None:
    worker = workshop.worker(attempt=workshop.claim())
    workshop.kill(worker)

    assert state_of(workshop) == RunState.KILLED


def test_only_the_newest_attempt_counts(workshop: Any) -> None:
    workshop.kill(workshop.worker(attempt=workshop.claim()))
    workshop.writer(workshop.worker(attempt=workshop.claim())).close(EndState.FINISHED)

    found = glance(workshop.store, clock=workshop.clock, wait=fail)

    assert (found.state, found.attempt, len(found.workers), len(found.newest_workers)) == (RunState.FINISHED, 1, 2, 1)


def test_a_run_that_nobody_came_to_is_empty(workshop: Any) -> None:
    workshop.claim()

    assert state_of(workshop) == RunState.EMPTY


def test_a_script_that_failed_before_training_is_failed(workshop: Any) -> None:
    write_options(workshop.store, workshop.claim(), "p0", {}, Untrained((), loops=False, error="ImportError: timm"))

    assert state_of(workshop) == RunState.FAILED


def test_a_run_that_another_process_has_just_begun_is_starting(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from barograph.model.clock import SystemClock\n"
        "from barograph.model.manifest import Manifest\n"
        "from barograph.runs.state.claim import claim_run\n"
        "from barograph.store.urls import store_from_url\n"
        "claim_run(store_from_url(sys.argv[1]), Manifest('id', 'name', 0.0), clock=SystemClock())\n"
        "print('begun', flush=True)\n"
        "sys.stdin.read()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, tmp_path / "run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"begun\n"
        state = glance(store_from_url(tmp_path / "run")).state
        process.kill()

    assert state == RunState.STARTING


def test_a_worker_on_another_machine_is_watched_for_a_moment(workshop: Any) -> None:
    worker = workshop.worker(attempt=workshop.claim())
    workshop.move_away(worker)
    name = f"heartbeats/{worker.name}-0000.json"
    beats = iter(range(100))

    def beat(secs: float) -> None:
        workshop.clock.advance(secs)
        workshop.store.put(name, heartbeat_bytes(Heartbeat(next(beats), 0.0)))

    beat(0.0)
    assert state_of(workshop, wait=beat) == RunState.RUNNING
    assert state_of(workshop, wait=workshop.clock.advance) == RunState.UNKNOWN


def test_steps_loss_cost_and_time_are_those_of_the_last_sign(workshop: Any) -> None:
    worker = workshop.worker(attempt=workshop.claim())
    beat = Heartbeat(1, 70.0, step=12, loss=0.5, coverage=Coverage(loss_seen=True, reasons=("no gradients",)))
    workshop.store.put(f"heartbeats/{worker.name}-0000.json", heartbeat_bytes(beat))

    found = glance(workshop.store, clock=workshop.clock, wait=fail)

    assert (found.steps, found.loss, found.ended_unix, found.covered) == (12, 0.5, 70.0, False)
    assert math.isnan(found.cost)  # of a training of less than ten seconds, a share says nothing


def test_steps_of_all_trainings_of_a_process_count_as_in_the_summary(workshop: Any) -> None:
    worker = workshop.worker(attempt=workshop.claim())
    beat = Heartbeat(1, 70.0, step=80, loss=0.5, coverage=Coverage(steps=2000))
    workshop.store.put(f"heartbeats/{worker.name}-0000.json", heartbeat_bytes(beat))

    assert glance(workshop.store, clock=workshop.clock, wait=fail).steps == 2000


def test_before_the_first_step_there_is_no_loss(workshop: Any) -> None:
    worker = workshop.worker(attempt=workshop.claim())
    beat = Heartbeat(1, 70.0, step=0, loss=math.nan, coverage=Coverage(loss_seen=True, evaluations=3))
    workshop.store.put(f"heartbeats/{worker.name}-0000.json", heartbeat_bytes(beat))

    assert glance(workshop.store, clock=workshop.clock, wait=fail).loss is None


def test_a_loss_that_was_never_seen_is_none(workshop: Any) -> None:
    workshop.writer().close(EndState.FINISHED)

    found = glance(workshop.store, clock=workshop.clock, wait=fail)

    assert (found.loss, math.isnan(found.cost), found.covered) == (None, True, True)


def test_all_findings_are_read(workshop: Any) -> None:
    workshop.writer().close(EndState.FINISHED)
    for number, (severity, closed) in enumerate([(Severity.NOTE, None), (Severity.BREAKING, None), (Severity.NOTE, 9)]):
        state = FindingState.OPEN if closed is None else FindingState.CLOSED
        write_event(workshop.store, Finding(
            f"X901-{number}-000000000000", "X901", "x", severity, state, "m", "r", (), "", "p0", "", Mode.TRAIN,
            number, number, number, closed, 0.0,
        ))
    workshop.store.put("watch/state.json", sealed({}))

    found = glance(workshop.store, clock=workshop.clock, wait=fail)

    assert found.watched
    assert [item.state is FindingState.OPEN for item in found.findings] == [True, True, False]


def test_a_first_paper_that_cannot_be_read_is_said(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(make_records(0))
    workshop.store.put("run.json", b"{}")

    (found, missing) = glances([workshop.store, store_from_url("memory://glance-nothing")], clock=workshop.clock)

    assert (found.state, found.manifest) == (RunState.DAMAGED, None)
    assert "run.json" in found.problems[0]
    assert missing.state == RunState.DAMAGED


class Listed:
    """A store that can only be listed whole."""

    def __init__(self, store: Store) -> None:
        self.list = store.list


@pytest.fixture(params=["folder by folder", "listed whole", "memory"])
def tree(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Makes a store with these objects."""

    def make(*names: str) -> Any:
        store = store_from_url(f"memory://{request.node.name}" if request.param == "memory" else tmp_path / "tree")
        for name in names:
            store.put(name, b"")
        return Listed(store) if request.param == "listed whole" else store

    return make


def test_runs_are_found_beside_and_below_each_other(tree: Any) -> None:
    store = tree("a/run.json", "b/c d/ü/run.json", "xrun.json", "a/workers/p0-0000.json", "a/again/run.json")
    assert runs_below(store) == ["a", "a/again", "b/c d/ü"]


def test_a_run_at_the_top_is_found(tree: Any) -> None:
    assert runs_below(tree("run.json", "records/p0/0000.parquet", "second/run.json")) == ["", "second"]


def test_where_nothing_is_there_is_no_run(tree: Any) -> None:
    assert runs_below(tree()) == []


def test_runs_are_looked_for_six_folders_deep_and_not_in_hidden_ones(tree: Any) -> None:
    assert runs_below(tree("1/2/3/4/5/6/run.json", "1/2/3/4/5/6/7/run.json", ".hidden/run.json")) == ["1/2/3/4/5/6"]


def test_what_runs_hold_is_not_looked_at(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(make_records(0))
    store = workshop.store.inner
    looked: list[str] = []

    class Looked:
        def list(self, folder: str = "") -> Any:
            pytest.fail("everything was listed")

        def level(self, folder: str = "") -> Any:
            looked.append(folder)
            return store.level(folder)

    assert runs_below(cast(Any, Looked())) == [""]
    assert looked == [""]


def test_a_folder_that_may_not_be_read_hides_no_other(tmp_path: Path) -> None:
    store = store_from_url(tmp_path)
    for name in ("a/run.json", "b/run.json"):
        store.put(name, b"")

    class Guarded:
        def level(self, folder: str = "") -> Any:
            if folder == "a":
                raise StoreDenied("no")
            return cast(Browsable, store).level(folder)

    assert runs_below(cast(Any, Guarded())) == ["b"]


def test_a_link_that_leads_back_up_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "run.json").touch()
    (tmp_path / "a" / "up").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "linked").symlink_to(tmp_path / "a", target_is_directory=True)

    assert runs_below(store_from_url(tmp_path)) == ["a", "linked"]



def test_a_run_that_cannot_be_read_hides_no_other(workshop: Any, make_workshop: Any, make_records: MakeRecords,
                                                  tmp_path: Path) -> None:
    workshop.finished(make_records(0))
    closed = make_workshop(store_from_url(tmp_path / "closed"))
    closed.finished(make_records(0))
    closed.store.error = StoreDenied("not for you")

    found = glances([closed.store, workshop.store], clock=workshop.clock, wait=fail)

    assert [(run.state, run.problems) for run in found] == [
        (RunState.UNKNOWN, ("not for you",)), (RunState.FINISHED, ()),
    ]
    with pytest.raises(StoreDenied):
        glance(closed.store)
