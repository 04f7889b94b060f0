"""A simulation decides as the controller of real jobs does, on instances that are simulated second by second."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from barograph.jobs.engines.engine import Handle, Order
from barograph.jobs.heartbeat import Heartbeat
from barograph.jobs.home import JobRecord, JobsHome
from barograph.jobs.job_log import EVENTS, EventLog, instance_folder
from barograph.jobs.managed_job import ManagedJob
from barograph.jobs.simulation.trace import Trace
from barograph.jobs.simulation.virtual import Training, VirtualJob, interval_of
from barograph.jobs.spec import JobSpec
from barograph.jobs.state import JobState
from barograph.jobs.submission import Submission, write_submission
from barograph.model.clock import ManualClock
from barograph.store.urls import store_from_url

BEGIN = 1_800_000_000.0
TRAINING = Training(300.0, start_secs=10.0, checkpoint_secs=5.0)


class Instances:
    """An engine whose instances train in virtual time: a second of work, or of a checkpoint, each second."""

    def __init__(self, url: str, trace: Trace, training: Training, interval_secs: float, clock: ManualClock) -> None:
        self._store = store_from_url(url)
        self._trace, self._training, self._interval, self._clock = trace, training, interval_secs, clock
        self._alive: dict[int, EventLog] = {}
        self._hearts: dict[EventLog, Heartbeat] = {}
        self._wait, self._work, self._since, self._saving = 0.0, 0.0, 0.0, 0.0
        self._saved = 0.0

    @property
    def _now(self) -> float:
        return self._clock.unix() - BEGIN

    def tick(self) -> None:
        """Let a second pass."""
        self._clock.advance(1)
        if not self._alive:
            return
        for log in self._alive.values():
            self._hearts[log].beat()
        self._train()
        if self._trace.next_taken(self._now - 1) == self._now:
            is_outage = self._trace.next_free(self._now) > self._now
            self._alive = {} if is_outage else {index: log for index, log in self._alive.items() if index}

    def _train(self) -> None:
        if self._wait:
            self._wait -= 1
        elif self._saving:
            self._saving -= 1
            if not self._saving:
                self._saved, self._since = self._work, 0.0
        else:
            self._work += 1
            self._since += 1
            if self._work == self._training.work_secs:
                self._end("finished")
            elif self._since == self._interval:
                self._saving = self._training.checkpoint_secs

    def _end(self, outcome: str) -> None:
        for log in self._alive.values():
            log.append("ended", outcome=outcome, exit_code=0 if outcome == "finished" else None, reason="")
        self._alive = {}

    def problems(self, spec: JobSpec) -> list[str]:
        return []

    def queue(self, job: str, spec: JobSpec) -> str:
        return ""

    def reserve(self, job: str, spec: JobSpec) -> str:
        return "" if self._trace.next_free(self._now) == self._now else "Waits for capacity."

    def start(self, order: Order) -> Handle:
        log = EventLog(self._store, instance_folder(order.attempt, order.index), clock=self._clock.unix)
        self._hearts[log] = Heartbeat(self._store, order.attempt, order.index, clock=self._clock.monotonic)
        log.append("ready")
        if order.index == 0:
            if order.attempt:
                log.append("resumed", steps=int(self._saved), repeated=int(self._work - self._saved))
            self._work, self._since, self._saving = self._saved, 0.0, 0.0
            self._wait = self._training.start_secs
        self._alive[order.index] = log
        return {"index": order.index}

    def adopt(self, job: str, spec: JobSpec, handles: Mapping[int, Handle]) -> None:
        raise AssertionError("no controller was restarted")

    def is_gone(self, handle: Handle) -> str:
        return "" if handle["index"] in self._alive else "It was taken away."

    def ask_to_end(self, handle: Handle) -> None:
        if handle["index"] in self._alive:
            self._alive.pop(handle["index"]).append("ended", outcome="interrupted", reason="It was asked to end.")

    def kill(self, handle: Handle) -> None:
        self._alive.pop(handle["index"], None)

    def release(self, job: str, *, is_over: bool = True) -> None:
        return None

    def close(self) -> None:
        return None


def controlled(spec: JobSpec, trace: Trace, folder: Path) -> JobState:
    """Return the end of a job that the controller of real jobs manages."""
    url, clock = f"memory://{folder.name}", ManualClock(unix=BEGIN)
    write_submission(store_from_url(url), Submission("simulated", spec))
    EventLog(store_from_url(url), EVENTS, clock=clock.unix).append("submitted")
    home, record = JobsHome(folder), JobRecord("simulated", url, 1, "virtual")
    home.add(record, {})
    engine = Instances(url, trace, TRAINING, interval_of(spec, TRAINING), clock)
    job = ManagedJob(record, home, engine, clock)
    for _ in range(10_000):
        for _ in range(4):  # all that follows at once
            job.turn(may_start=True)
        if job.state.phase.is_over:
            return job.state
        engine.tick()
    raise AssertionError("the job does not end")


def facts(state: JobState, begin: float) -> tuple[Any, ...]:
    intervals = tuple((round(start - begin), round(end - begin)) for start, end in state.intervals)
    return state.phase, state.interruptions, state.repeated_steps, round(state.trained_secs), intervals


@pytest.mark.parametrize("trace", [
    Trace(10_000.0),
    Trace(10_000.0, interruptions=(137.0, 141.0, 350.0)),
    Trace(10_000.0, interruptions=(73.0,)),
    Trace(10_000.0, outages=((0.0, 20.0), (100.0, 180.0), (300.0, 301.0))),
    Trace(160.0, interruptions=(150.0,), outages=((30.0, 40.0),), offset_secs=41.0),
])
@pytest.mark.parametrize("entries", [
    {}, {"instances": 3}, {"max_restarts": 1}, {"max_wait_secs": 250.0}, {"checkpoint": ""},
])
def test_the_simulation_ends_as_the_real_controller_ends_it(
    tmp_path: Path, trace: Trace, entries: dict[str, Any]
) -> None:
    spec = JobSpec(("train.py",), **{"checkpoint": "1m", **entries})
    if entries == {"checkpoint": ""}:
        assert interval_of(spec, TRAINING) == math.inf
        spec = JobSpec(("train.py",), max_wait_secs=1000.0)
    virtual = VirtualJob(spec, trace, TRAINING)
    virtual.run()
    real = controlled(spec, trace, tmp_path)
    if virtual.state.stop:  # it saves when it is asked to end, which the engine here does in no time
        assert (virtual.state.phase, virtual.state.interruptions) == (real.phase, real.interruptions)
    else:
        assert facts(virtual.state, 0.0) == facts(real, BEGIN)
