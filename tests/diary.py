"""A run in memory that tests write step by step, and findings."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from barograph.measures.summary import row_from_summary, summarize
from barograph.model.clock import ManualClock
from barograph.model.finding import Evidence, Finding, FindingState, Severity
from barograph.model.key import Key, Kind
from barograph.model.manifest import EndState, Heartbeat, Manifest, Worker
from barograph.model.records import StepRecords, Subject
from barograph.model.settings import Settings
from barograph.model.step import Mode, Step
from barograph.model.tensor import RawTensor
from barograph.runs.reading.reader import RunReader
from barograph.runs.state.claim import claim_run, claim_worker
from barograph.runs.writing.writer import RunWriter
from barograph.store.base import Store
from barograph.store.urls import store_from_url

FIRST_UNIX = 1_800_000_000.0


class Diary:
    """A run in memory, and what its workers write into it; a step takes a second."""

    def __init__(self, name: str = "example", store: Store | None = None) -> None:
        self.store = store or store_from_url(f"memory://report-{secrets.token_hex(8)}")
        self.clock = ManualClock(unix=FIRST_UNIX)
        self.manifest = Manifest("20260101T000000Z-abc", name, FIRST_UNIX)
        self.attempt = -1
        self.beat = Heartbeat(0, FIRST_UNIX)
        self.writers: dict[str, RunWriter] = {}
        self._ticks: dict[str, int] = {}

    def begin(self, *, rank: int | None = None, world_size: int = 1) -> str:
        """Let a worker come; return its name."""
        if self.attempt < 0:
            self.attempt = claim_run(self.store, self.manifest, clock=self.clock).attempt
        worker: Worker = claim_worker(self.store, attempt=self.attempt, clock=self.clock, rank=rank,
                                      world_size=world_size)
        self.writers[worker.name] = RunWriter(
            self.store, worker, settings=Settings(), clock=self.clock, status=lambda: self.beat, background=False,
            wait=self.clock.advance,
        )
        self._ticks[worker.name] = 0
        return worker.name

    def step(
        self, number: int, scalars: Mapping[str, float] | None = None,
        tensors: Mapping[str, Any] | None = None, *, saved: Mapping[str, Any] | None = None, mode: Mode = Mode.TRAIN,
        worker: str = "p0", optimizer: str = "", histogram: bool = True,
    ) -> None:
        """Record numbers by key, tensors by key, and tensors that are saved whole by name."""
        if worker not in self.writers:
            self.begin()
        both = {**(tensors or {}), **{f"custom:{name}": value for name, value in (saved or {}).items()}}
        subjects = tuple(Subject(_key(name), "Linear", "float32") for name in both)
        rows = [row_from_summary(summarize(np.asarray(value, np.float32))) for value in both.values()]
        raw = {_key(f"custom:{name}"): _raw(value) for name, value in (saved or {}).items()}
        step = Step(self._ticks[worker], number, optimizer, mode, time_unix=FIRST_UNIX + number)
        self._ticks[worker] += 1
        self.beat = replace(self.beat, step=number + 1)
        assert self.writers[worker].put(StepRecords(
            step, subjects, np.stack([row[0] for row in rows]) if rows else None,
            np.stack([row[1] for row in rows]) if rows and histogram else None,
            scalars={_key(name): value for name, value in (scalars or {}).items()}, tensors=raw,
        ))

    def publish(self) -> None:
        """Let everybody publish what waits."""
        for _ in range(2):
            self._tell_the_time()
            for writer in self.writers.values():
                writer.turn()
            self.clock.advance(10.0)

    def run(self) -> RunReader:
        """Publish, and open the run while it goes on."""
        self.publish()
        return RunReader(self.store, clock=self.clock)

    def ended(self, state: EndState = EndState.FINISHED) -> RunReader:
        """End every worker, and open the run."""
        self._tell_the_time()
        for writer in self.writers.values():
            assert writer.close(state).complete
        return RunReader(self.store, clock=self.clock)

    def _tell_the_time(self) -> None:
        self.clock.jump(FIRST_UNIX + self.beat.step - self.clock.unix())


def _key(text: str) -> Key:
    kind, _, path = text.partition(":")
    return Key(Kind(kind), path)


def _raw(value: Any) -> RawTensor:
    array = np.ascontiguousarray(value)
    return RawTensor(str(array.dtype), array.shape, array.tobytes())


def finding_of(
    severity: Severity = Severity.BREAKING, *, code: str = "N101", step: int = 5, message: str = "It is lost.",
    key: Key | None = None, state: FindingState = FindingState.OPEN, **more: Any,
) -> Finding:
    """A finding, opened at a step of a `Diary`."""
    evidence = Evidence(key, step, "nan", 3.0, 0.0, "holds 3 NaN")
    data = {
        "id": f"{code}-{step}-0123456789ab", "code": code, "rule": "non-finite", "severity": severity, "state": state,
        "message": message, "remedy": "Do this.", "evidence": (evidence,), "subject": "", "worker": "p0",
        "optimizer": "", "mode": Mode.TRAIN, "since_step": step, "opened_step": step, "last_step": step,
        "closed_step": None if state is FindingState.OPEN else step + 1, "opened_unix": FIRST_UNIX + step,
    }
    return Finding(**{**data, **more})


@pytest.fixture
def diary() -> Diary:
    return Diary()


@pytest.fixture
def new_diary() -> type[Diary]:
    return Diary


@pytest.fixture
def finding() -> Callable[..., Finding]:
    return finding_of
