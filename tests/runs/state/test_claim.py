"""One run, one writer at a time; and as many workers as there are."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from barograph.errors import (
    DamagedChunk,
    NewerFormat,
    ObjectExists,
    RunFinished,
    RunInUse,
    StoreDenied,
    StoreError,
    StoreUnavailable,
)
from barograph.model.manifest import EndState, Worker
from barograph.model.records import StepRecords
from barograph.runs.format.metadata import manifest_bytes, sealed, unsealed, worker_bytes, worker_from_bytes
from barograph.runs.state.claim import (
    begin_attempt,
    claim_run,
    claim_worker,
    create_run,
    launch_of,
    new_claim,
    next_chunk_of,
)
from barograph.runs.state.process import Process, is_alive, parent_process, process_of, this_process
from barograph.runs.writing.writer import RunWriter
from barograph.store.urls import store_from_url

MakeRecords = Callable[..., StepRecords]
LAUNCH = {"RANK": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", "TORCHELASTIC_RUN_ID": "none"}


def pretend_other_process(workshop: Any, attempt: int, *, alive: bool) -> None:
    """Let the attempt look as if another process of this machine had begun it: our parent, or one that is dead."""
    name = f"attempts/{attempt:04d}.json"
    body = unsealed(workshop.store.get(name), name)
    if alive:
        other = parent_process()
        body.update(pid=other.pid, started_ticks=other.started_ticks)
    else:
        body["started_ticks"] += 1
    workshop.store.put(name, sealed(body))


def test_the_first_claim_makes_the_run(workshop: Any) -> None:
    assert workshop.claim() == 0
    assert workshop.run().manifest == workshop.manifest


@pytest.mark.parametrize(("place", "why"), [
    ("file", "it is a file"), ("file/run", "{}/file is a file"),
])
def test_a_place_that_cannot_be_a_folder_is_refused_with_what_to_do(
    workshop: Any, tmp_path: Path, place: str, why: str
) -> None:
    (tmp_path / "file").write_text("mine")
    store = store_from_url(str(tmp_path / place))

    with pytest.raises(StoreDenied) as raised:
        create_run(store, workshop.manifest)

    assert str(raised.value) == (
        f"Cannot record a run there: {why.format(tmp_path)}. Choose another folder (--to; in a script, to=), or change "
        f"that one ({tmp_path / place}).")


@pytest.mark.parametrize(("number", "why"), [
    (errno.EACCES, "permission denied"), (errno.EROFS, "the disk is read-only"),
])
def test_a_folder_that_this_user_may_not_write_is_refused_with_what_to_do(
    workshop: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, why: str
) -> None:
    def refused(path: Path, *more: Any, **others: Any) -> None:
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(Path, "mkdir", refused)

    with pytest.raises(StoreDenied, match=f"Cannot record a run there: {why}. Choose another folder"):
        create_run(store_from_url(str(tmp_path / "run")), workshop.manifest)


def test_a_run_that_has_finished_points_elsewhere(workshop: Any) -> None:
    workshop.finished()

    with pytest.raises(RunFinished, match=r"Record into another folder \(--to; .*barograph watch "):
        workshop.claim()


def test_a_place_where_another_process_writes_is_refused(workshop: Any) -> None:
    workshop.claim()
    pretend_other_process(workshop, 0, alive=True)
    with pytest.raises(RunInUse, match="record into another folder"):
        workshop.claim()


def test_a_worker_that_lives_keeps_the_run_though_its_parent_is_gone(workshop: Any) -> None:
    worker = workshop.worker(attempt=workshop.claim())
    pretend_other_process(workshop, 0, alive=False)
    parent = parent_process()
    living = replace(worker, pid=parent.pid, started_ticks=parent.started_ticks)
    workshop.store.put("workers/p0-0000.json", worker_bytes(living))
    with pytest.raises(RunInUse):
        workshop.claim()


def test_a_run_that_was_killed_goes_on_as_the_next_attempt(workshop: Any) -> None:
    worker = workshop.worker(attempt=workshop.claim())
    pretend_other_process(workshop, 0, alive=False)
    workshop.kill(worker)
    workshop.manifest = replace(workshop.manifest, name="another name")
    assert workshop.claim() == 1
    assert workshop.run().manifest.name == "example"


def test_a_run_that_failed_or_was_stopped_may_go_on(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer()
    workshop.publish(writer, make_records(0))
    writer.close(EndState.FAILED)
    assert workshop.claim() == 1
    workshop.writer(workshop.worker(attempt=1)).close(EndState.STOPPED)
    assert workshop.claim() == 2


def test_a_run_that_finished_is_not_written_again(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(make_records(0))
    with pytest.raises(RunFinished):
        workshop.claim()


def test_a_run_whose_first_process_died_before_it_began_may_be_taken(workshop: Any) -> None:
    workshop.store.create("run.json", manifest_bytes(workshop.manifest))
    assert workshop.claim() == 0


def test_a_damaged_manifest_is_named(workshop: Any) -> None:
    workshop.store.put("run.json", b"{}")
    with pytest.raises(DamagedChunk, match=r"run\.json"):
        workshop.claim()


def test_a_newer_run_is_refused(workshop: Any) -> None:
    workshop.store.put("run.json", sealed({"run_id": "x", "format": 99}))
    with pytest.raises(NewerFormat):
        workshop.claim()


def test_a_place_that_cannot_be_written_says_so(workshop: Any) -> None:
    workshop.store.error = StoreDenied("read-only")
    with pytest.raises(StoreDenied):
        workshop.claim()


def test_a_worker_far_away_whose_heart_beats_keeps_the_run(workshop: Any) -> None:
    worker = workshop.worker(attempt=workshop.claim())
    writer = workshop.writer(worker)
    pretend_other_process(workshop, 0, alive=False)
    workshop.move_away(worker)

    def wait(secs: float) -> None:
        workshop.clock.advance(secs)
        writer.turn()

    with pytest.raises(RunInUse):
        claim_run(workshop.store, workshop.manifest, clock=workshop.clock, wait=wait)


def test_a_worker_far_away_whose_heart_stands_still_is_dead(workshop: Any) -> None:
    worker = workshop.worker(attempt=workshop.claim())
    workshop.writer(worker).turn()
    pretend_other_process(workshop, 0, alive=False)
    workshop.move_away(worker)
    before = workshop.clock.monotonic()
    assert workshop.claim(dead_secs=20.0) == 1
    assert 20 <= workshop.clock.monotonic() - before < 25


def claimed_far_away(workshop: Any) -> None:
    workshop.claim()
    name = "attempts/0000.json"
    workshop.store.put(name, sealed({**unsealed(workshop.store.get(name), name), "host": "far"}))


def test_a_run_claimed_far_away_is_left_in_peace_for_a_while(workshop: Any) -> None:
    claimed_far_away(workshop)
    before = workshop.clock.monotonic()
    assert workshop.claim() == 1
    assert 600 <= workshop.clock.monotonic() - before < 602


def test_a_worker_far_away_that_took_minutes_to_come_keeps_its_run(workshop: Any) -> None:
    claimed_far_away(workshop)
    workers: list[Worker] = []
    writers: list[RunWriter] = []

    def wait(secs: float) -> None:
        workshop.clock.advance(secs)
        if workshop.clock.monotonic() >= 300 and not workers:
            workers.append(workshop.worker())
            writers.append(workshop.writer(workers[0]))
            workshop.move_away(workers[0])
        for writer in writers:
            writer.turn()

    with pytest.raises(RunInUse):
        claim_run(workshop.store, workshop.manifest, clock=workshop.clock, wait=wait)
    assert workshop.names("attempts") == ["attempts/0000.json"]


def test_clocks_of_other_machines_are_not_asked(workshop: Any) -> None:
    worker = workshop.worker(attempt=workshop.claim())
    pretend_other_process(workshop, 0, alive=False)
    workshop.move_away(replace(worker, started_unix=9e9))
    workshop.clock.jump(-1e9)
    assert workshop.claim(dead_secs=20.0) == 1


def test_processes_without_rank_are_named_as_they_come(workshop: Any) -> None:
    workshop.claim()
    assert [workshop.worker().name for _ in range(3)] == ["p0", "p1", "p2"]


def test_ranks_are_named_by_their_rank(workshop: Any) -> None:
    workshop.claim()
    workers = [workshop.worker(rank=rank, world_size=2) for rank in (1, 0)]
    assert [(worker.name, worker.attempt, worker.world_size) for worker in workers] == [("r1", 0, 2), ("r0", 0, 2)]


def test_ranks_that_were_started_anew_go_to_the_next_attempt_together(workshop: Any) -> None:
    workshop.claim()
    for rank in (0, 1):
        workshop.worker(rank=rank, world_size=2)
    again = [workshop.worker(rank=rank, world_size=2) for rank in (0, 1)]
    assert [(worker.name, worker.attempt) for worker in again] == [("r0", 1), ("r1", 1)]
    assert workshop.names("attempts") == ["attempts/0000.json", "attempts/0001.json"]


def test_a_worker_tells_which_process_it_is(workshop: Any) -> None:
    workshop.claim()
    worker = workshop.worker()
    assert worker_from_bytes(workshop.store.get("workers/p0-0000.json"), "w") == worker
    assert worker.pid > 0
    assert worker.host


class DeafStore:
    """Does what the store behind it does, and fails with `error` after the first `create` all the same."""

    def __init__(self, inner: Any, error: StoreError) -> None:
        self._inner = inner
        self._errors = [error]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def create(self, name: str, data: bytes) -> None:
        self._inner.create(name, data)
        if self._errors:
            raise self._errors.pop()


LOST_ANSWERS = [StoreUnavailable("the answer was lost"), ObjectExists("asked again, and it was there")]


def claim_again_and_again(store: Any, clock: Any, **more: Any) -> Worker:
    claim = new_claim()
    while True:
        try:
            return claim_worker(store, attempt=0, clock=clock, claim=claim, **more)
        except StoreUnavailable:
            continue


@pytest.mark.parametrize("error", LOST_ANSWERS)
def test_a_name_that_was_taken_though_the_answer_was_lost_is_ones_own(workshop: Any, error: StoreError) -> None:
    workshop.claim()
    worker = claim_again_and_again(DeafStore(workshop.store, error), workshop.clock)
    assert (worker.name, worker.attempt) == ("p0", 0)
    assert workshop.names("workers") == ["workers/p0-0000.json"]
    assert workshop.worker().name == "p1"


@pytest.mark.parametrize("error", LOST_ANSWERS)
def test_a_rank_whose_answer_was_lost_stays_beside_the_others(workshop: Any, error: StoreError) -> None:
    workshop.claim()
    workshop.worker(rank=1, world_size=2)
    worker = claim_again_and_again(DeafStore(workshop.store, error), workshop.clock, rank=0, world_size=2)
    assert (worker.name, worker.attempt) == ("r0", 0)
    assert workshop.names("attempts") == ["attempts/0000.json"]


def test_an_attempt_begun_though_the_answer_was_lost_is_ones_own(workshop: Any) -> None:
    store = DeafStore(workshop.store, ObjectExists("asked again, and it was there"))
    assert begin_attempt(store, 0, started_unix=0.0)


def test_a_worker_says_what_its_next_chunk_is(workshop: Any, make_records: MakeRecords) -> None:
    worker = workshop.worker(attempt=workshop.claim())
    assert next_chunk_of(workshop.store, worker) == 0
    writer = workshop.writer(worker)
    for tick in range(3):
        workshop.publish(writer, make_records(tick))
    assert next_chunk_of(workshop.store, worker) == 3
    assert next_chunk_of(workshop.store, workshop.worker()) == 0


def test_of_two_that_begin_an_attempt_one_does(workshop: Any) -> None:
    assert begin_attempt(workshop.store, 0, started_unix=0.0)
    assert not begin_attempt(workshop.store, 0, started_unix=0.0)


def test_ranks_of_one_launch_have_something_in_common() -> None:
    first = launch_of(0, {**LAUNCH, "RANK": "0"})
    assert first == launch_of(1, LAUNCH) != ""
    assert first != launch_of(0, {**LAUNCH, "MASTER_PORT": "29501"})
    assert launch_of(None, LAUNCH) == ""
    assert launch_of(0, {}) == launch_of(1, {}) != first


RANKS = """
import json, os, sys
from barograph.model.clock import SystemClock
from barograph.model.manifest import Manifest
from barograph.runs.state.claim import claim_run, claim_worker
from barograph.store.urls import store_from_url

store, clock = store_from_url(sys.argv[1]), SystemClock()
rank = int(os.environ["RANK"]) if "RANK" in os.environ else None
sys.stdin.readline()
try:
    claim = claim_run(store, Manifest("id", "name", 0.0), clock=clock, rank=rank)
    worker = claim_worker(store, attempt=claim.attempt, clock=clock, rank=rank, world_size=4)
    print(json.dumps([worker.name, worker.attempt]), flush=True)
except Exception as error:
    print(json.dumps([type(error).__name__, None]), flush=True)
sys.stdin.readline()
"""


def claim_together(place: Path, environments: list[dict[str, str]]) -> list[list[Any]]:
    """Let real processes claim a run at the same moment; return what each got, before any of them ends."""
    processes = [
        subprocess.Popen([sys.executable, "-c", RANKS, str(place)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         text=True, env={**os.environ, **environment})
        for environment in environments
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    got = [json.loads(process.stdout.readline()) for process in processes if process.stdout is not None]
    for process in processes:
        process.communicate("end\n", timeout=600)
    return got


def test_ranks_that_claim_at_the_same_instant_join_one_attempt(tmp_path: Path) -> None:
    environments = [{**LAUNCH, "RANK": str(rank)} for rank in range(4)]
    assert claim_together(tmp_path / "run", environments) == [["r0", 0], ["r1", 0], ["r2", 0], ["r3", 0]]


def test_ranks_started_again_after_a_kill_join_the_next_attempt(tmp_path: Path) -> None:
    environments = [{**LAUNCH, "RANK": str(rank)} for rank in range(3)]
    claim_together(tmp_path / "run", environments)
    assert claim_together(tmp_path / "run", environments) == [["r0", 1], ["r1", 1], ["r2", 1]]


def test_of_two_runs_in_one_place_one_is_refused(tmp_path: Path) -> None:
    got = claim_together(tmp_path / "run", [{}, {}])
    assert sorted(got, key=str) == [["RunInUse", None], ["p0", 0]]


def test_a_worker_is_not_taken_for_another_process_with_its_number(workshop: Any) -> None:
    me = this_process()
    assert is_alive(me) is True
    assert is_alive(replace(me, started_ticks=me.started_ticks + 1)) is False
    assert is_alive(replace(me, host="elsewhere")) is None
    assert is_alive(replace(me, boot_id="")) is None
    worker = Worker("p0", 0, me.pid, me.host, me.boot_id, 0.0, started_ticks=me.started_ticks)
    assert process_of(worker) == me


def test_a_process_that_ended_and_was_not_collected_is_dead() -> None:
    me = this_process()
    child = subprocess.Popen([sys.executable, "-c", ""], stdin=subprocess.DEVNULL)
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # waits for the end without collecting it
    assert is_alive(Process(child.pid, me.host, me.boot_id, 0)) is False
    child.wait(600)
    assert is_alive(Process(child.pid, me.host, me.boot_id, 0)) is False
