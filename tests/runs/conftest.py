"""A run on a store, with a clock that moves when it is told to; and a store that fails when it is told to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from barograph.errors import StoreError
from barograph.measures.summary import row_from_summary, summarize
from barograph.model.clock import ManualClock
from barograph.model.key import Key, Kind
from barograph.model.manifest import EndState, Heartbeat, Manifest, Worker
from barograph.model.records import StepRecords, Subject
from barograph.model.settings import Settings
from barograph.model.step import Mode, Step
from barograph.runs.format.metadata import worker_bytes
from barograph.runs.reading.feed import Feed
from barograph.runs.reading.reader import RunReader
from barograph.runs.state.claim import claim_run, claim_worker
from barograph.runs.writing.writer import RunWriter
from barograph.store.base import ObjectInfo, Store
from barograph.store.urls import store_from_url

WEIGHT = Key(Kind.WEIGHT, "fc.weight")
LOSS = Key(Kind.LOSS, "loss")
SUBJECTS = (Subject(WEIGHT, "Linear", "float32"), Subject(LOSS))


class FlakyStore:
    """Does what the store behind it does, except while `error` is set: then every verb named fails with it."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.error: StoreError | None = None
        self.verbs: set[str] = {"put", "create", "get", "list", "delete"}
        self.calls: list[tuple[str, str]] = []
        self.before: Callable[[str, str], None] = lambda verb, name: None

    @property
    def url(self) -> str:
        return self.inner.url

    def put(self, name: str, data: bytes) -> None:
        self._called("put", name)
        self.inner.put(name, data)

    def create(self, name: str, data: bytes) -> None:
        self._called("create", name)
        self.inner.create(name, data)

    def get(self, name: str) -> memoryview:
        self._called("get", name)
        return self.inner.get(name)

    def list(self, folder: str = "") -> list[ObjectInfo]:
        self._called("list", folder)
        return self.inner.list(folder)

    def delete(self, name: str) -> None:
        self._called("delete", name)
        self.inner.delete(name)

    def _called(self, verb: str, name: str) -> None:
        self.calls.append((verb, name))
        self.before(verb, name)
        if self.error is not None and verb in self.verbs:
            raise self.error


def records(
    tick: int, number: int | None = None, *, weight: Sequence[float] = (1.0, -2.0), loss: float | None = 0.5,
    optimizer: str = "", mode: Mode = Mode.TRAIN, scalars: Mapping[Key, float] | None = None, **more: Any,
) -> StepRecords:
    """A step with one weight and one loss, with exponent histograms."""
    parts = [np.array(weight, np.float32), np.array([] if loss is None else [loss])]
    pairs = [row_from_summary(summarize(part)) for part in parts]
    when = tick if number is None else number
    step = Step(tick, when, optimizer, mode, time_unix=1_800_000_000.0 + tick)
    return StepRecords(
        step, SUBJECTS, np.stack([pair[0] for pair in pairs]), np.stack([pair[1] for pair in pairs]),
        scalars=scalars or {}, **more,
    )


def step_of(
    number: int, tensors: Mapping[Subject, Sequence[float]] | None = None,
    scalars: Mapping[Key, float] | None = None, *, tick: int | None = None, mode: Mode = Mode.TRAIN,
    optimizer: str = "",
) -> StepRecords:
    """A step with these tensors, in the order the worker met them, and these numbers."""
    step = Step(number if tick is None else tick, number, optimizer, mode, time_unix=1_800_000_000.0 + number)
    rows = [row_from_summary(summarize(np.array(values, np.float32)))[0] for values in (tensors or {}).values()]
    moments = np.stack(rows) if rows else None
    return StepRecords(step, tuple(tensors or ()), moments, scalars=scalars or {})


class Workshop:
    """One run, and all that works on it."""

    def __init__(self, store: Store, run_id: str = "20260101T000000Z-abc") -> None:
        self.store = FlakyStore(store)
        self.clock = ManualClock()
        self.manifest = Manifest(run_id, "example", self.clock.unix())

    def claim(self, **more: Any) -> int:
        return claim_run(self.store, self.manifest, clock=self.clock, wait=self.clock.advance, **more).attempt

    def worker(self, *, rank: int | None = None, world_size: int = 1, attempt: int = 0) -> Worker:
        return claim_worker(self.store, attempt=attempt, clock=self.clock, rank=rank, world_size=world_size)

    def writer(self, worker: Worker | None = None, *, on_control: Any = None, **settings: Any) -> RunWriter:
        if worker is None:
            worker = self.worker(attempt=self.claim())
        return RunWriter(
            self.store, worker, settings=Settings(**settings), clock=self.clock, status=lambda: Heartbeat(0, 0.0),
            on_control=on_control, background=False, wait=self.clock.advance,
        )

    def publish(self, writer: RunWriter, *steps: StepRecords) -> None:
        """Publish these steps as one chunk."""
        for step in steps:
            assert writer.put(step)
        writer.turn()
        self.clock.advance(10)
        writer.turn()

    def kill(self, worker: Worker) -> None:
        """Make a worker look as if its process had died: another process has its number now."""
        dead = replace(worker, started_ticks=worker.started_ticks + 1)
        self.store.put(f"workers/{worker.name}-{worker.attempt:04d}.json", worker_bytes(dead))

    def move_away(self, worker: Worker) -> None:
        """Make a worker look as if it were on another machine."""
        self.store.put(f"workers/{worker.name}-{worker.attempt:04d}.json", worker_bytes(replace(worker, host="far")))

    def finished(self, *steps: StepRecords, **settings: Any) -> RunWriter:
        """Write a run of these steps, a chunk each, and end it."""
        writer = self.writer(**settings)
        for step in steps:
            self.publish(writer, step)
        assert writer.close(EndState.FINISHED).complete
        return writer

    def feed(self, cursor: Any = None) -> Feed:
        return Feed(self.store, cursor, clock=self.clock)

    def run(self) -> RunReader:
        return RunReader(self.store, clock=self.clock)

    def names(self, folder: str) -> list[str]:
        return [item.name for item in self.store.inner.list(folder)]


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(store_from_url(tmp_path / "ein lauf ü"))


@pytest.fixture
def make_records() -> Callable[..., StepRecords]:
    return records


@pytest.fixture
def make_step() -> Callable[..., StepRecords]:
    return step_of


@pytest.fixture
def make_workshop() -> Callable[..., Workshop]:
    return Workshop
