"""A process that is killed at any moment loses only what it had not published."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from barograph.errors import RunFinished
from barograph.measures.summary import summarize
from barograph.model.clock import ManualClock, SystemClock
from barograph.model.key import Key, Kind
from barograph.model.manifest import Manifest
from barograph.runs.reading.doctor import examine
from barograph.runs.reading.feed import Feed
from barograph.runs.reading.reader import RunReader
from barograph.runs.reading.roster import Standing
from barograph.runs.state.claim import claim_run
from barograph.store.base import Store
from barograph.store.urls import store_from_url

# Trains for ever (or to a last step): what each step records follows from its number alone.
TRAINING = '''
import sys, time
import numpy as np
from barograph.measures.summary import row_from_summary, summarize
from barograph.model.clock import SystemClock
from barograph.model.key import Key, Kind
from barograph.model.manifest import EndState, Heartbeat, Manifest
from barograph.model.records import StepRecords, Subject
from barograph.model.settings import Settings
from barograph.model.step import Mode, Step
from barograph.model.tensor import RawTensor
from barograph.runs.state.claim import claim_run, claim_worker
from barograph.runs.writing.writer import RunWriter
from barograph.store.urls import store_from_url

store, clock = store_from_url(sys.argv[1]), SystemClock()
start, last = int(sys.argv[2]), int(sys.argv[3])
claim = claim_run(store, Manifest("id", "name", clock.unix()), clock=clock)
worker = claim_worker(store, attempt=claim.attempt, clock=clock)
writer = RunWriter(store, worker, settings=Settings(flush_secs=0.01), clock=clock, status=lambda: Heartbeat(0, 0.0))
weight = Key(Kind.WEIGHT, "w")
subjects = (Subject(weight, "Linear", "float32"),)
print("begun", flush=True)
for step in range(start, last):
    values = np.random.default_rng(step).normal(size=100).astype(np.float32)
    moments, exponents = row_from_summary(summarize(values))
    tensors = {Key(Kind.CUSTOM, "values"): RawTensor("float32", (100,), values.tobytes())} if step % 10 == 0 else {}
    writer.put(StepRecords(Step(step - start, step), subjects, moments[None], exponents[None], tensors=tensors))
    writer.log("twice", 2.0 * step, step, Mode.TRAIN, clock.unix())
    time.sleep(0.001)
print("done", writer.close(EndState.FINISHED).complete, flush=True)
'''


WEIGHT, TWICE = Key(Kind.WEIGHT, "w"), Key(Kind.SCALAR, "twice")


def train(place: Path, start: int, last: int) -> subprocess.Popen[str]:
    process = subprocess.Popen([sys.executable, "-c", TRAINING, str(place), str(start), str(last)],
                               stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    return process


def values_of(step: int) -> np.ndarray:
    return np.random.default_rng(step).normal(size=100).astype(np.float32)


def check_every_published_step(store: Store) -> int:
    """Return how many steps are there, after comparing each with what was recorded."""
    run = RunReader(store)
    for view in run.views():
        assert view.summary(WEIGHT) in (None, summarize(values_of(view.step.number)))
        assert view.scalar(TWICE) in (None, 2.0 * view.step.number)
    steps = run.steps().tolist()
    assert steps == list(range(len(steps)))
    twice = run.series("scalar:twice")
    np.testing.assert_array_equal(twice.values, 2.0 * twice.steps)
    for step in steps[::50]:
        np.testing.assert_array_equal(run.tensor("custom:values", step), values_of(step))
    assert run.damage == ()
    return len(steps)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="SIGKILL is POSIX's")
def test_a_training_killed_at_random_moments_resumes_each_time(tmp_path: Path) -> None:
    chance = random.Random(20261120)
    place = tmp_path / "ein lauf ü"
    store = store_from_url(place)
    published = 0
    for life in range(4):
        process = train(place, published, 10**9)
        # Until some more is published, and then a moment that nobody chose.
        target = published + chance.randrange(5, 150)
        feed = Feed(store, patient=False)
        while not any(view.step.number >= target for view in feed.poll().views):
            assert process.poll() is None
        os.kill(process.pid, signal.SIGKILL)
        process.communicate(timeout=600)
        published = check_every_published_step(store)
        assert published > target
        diagnosis = examine(store)
        assert diagnosis.damaged == []
        assert any("killed" in text for text in diagnosis.missing)
        states = [state.standing for state in RunReader(store).workers]
        assert states == [Standing.KILLED] * (life + 1)
        clock = ManualClock()
        feed = Feed(store, clock=clock)
        feed.poll()
        clock.advance(3)
        assert feed.poll().drained
    process = train(place, published, published + 50)
    assert process.communicate(timeout=600)[0] == "done True\n"
    assert check_every_published_step(store) == published + 50
    diagnosis = examine(store)
    assert diagnosis.intact
    feed = Feed(store, clock=clock)
    feed.poll()
    clock.advance(3)
    assert feed.poll().ended
    with pytest.raises(RunFinished):
        claim_run(store, Manifest("other", "other", 0.0), clock=SystemClock())


def test_a_reader_beside_a_writer_that_makes_files_one_always_reads_right(tmp_path: Path) -> None:
    store = store_from_url(tmp_path / "run")
    process = train(tmp_path / "run", 0, 1500)
    feed = Feed(store)
    seen: list[int] = []
    steps = 0
    while not (result := feed.poll()).ended:
        seen.extend(view.step.number for view in result.views if view.summary(WEIGHT))
        if seen:
            series = RunReader(store).series(TWICE)
            np.testing.assert_array_equal(series.values, 2.0 * np.arange(len(series)))
            assert len(series) >= steps
            steps = len(series)
    seen.extend(view.step.number for view in result.views if view.summary(WEIGHT))
    assert process.communicate(timeout=600)[0] == "done True\n"
    assert seen == list(range(1500))
    assert check_every_published_step(store) == 1500
