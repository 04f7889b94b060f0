"""A store in memory for each test, a training that records on request, and small rules that judge one number."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

import numpy as np
import pytest

from barograph.measures.summary import row_from_summary, summarize
from barograph.model.clock import ManualClock
from barograph.model.finding import Evidence, Severity, Symptom
from barograph.model.key import Key, Kind
from barograph.model.manifest import EndState, Heartbeat, Manifest
from barograph.model.records import StepRecords, Subject
from barograph.model.selection import Selection
from barograph.model.settings import Settings
from barograph.model.step import Step
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.runs.reading.view import StepView
from barograph.runs.state.claim import claim_run, claim_worker
from barograph.runs.writing.writer import RunWriter
from barograph.store.base import ObjectInfo, Store
from barograph.store.urls import store_from_url

LOSS = Key(Kind.LOSS, "total")


def _new_store() -> Store:
    return store_from_url(f"memory://watch-{secrets.token_hex(8)}")


@pytest.fixture
def store() -> Store:
    return _new_store()


@pytest.fixture
def new_store() -> Callable[[], Store]:
    return _new_store


_SUBJECTS = (Subject(Key(Kind.WEIGHT, "fc.weight"), "Linear", "float32"),)
_MOMENTS = row_from_summary(summarize(np.array([0.5, -0.25])))[0].reshape(1, -1)


class Training:
    """A worker that records one loss and one weight a step, as fast as it is told to."""

    def __init__(self, store: Store, clock: ManualClock, *, queue_bytes: int = 2**20, run_id: str = "test",
                 versions: Mapping[str, str] = MappingProxyType({})) -> None:
        self.store, self.clock = store, clock
        manifest = Manifest(run_id=run_id, name="test", created_unix=clock.unix())
        self.attempt = claim_run(store, manifest, clock=clock).attempt
        self.worker = claim_worker(store, attempt=self.attempt, clock=clock, versions=versions)
        self.heartbeat = Heartbeat(beat=0, time_unix=0.0)
        self.writer = RunWriter(store, self.worker, clock=clock, background=False,
                                settings=Settings(queue_bytes=queue_bytes), status=lambda: self.heartbeat)
        self._tick = 0

    def steps(self, *losses: float, first: int = 0) -> None:
        """Record a step for each loss, and publish them."""
        for number, loss in enumerate(losses, first):
            step = Step(self._tick, number, time_unix=float(number))
            self.writer.put(StepRecords(step, _SUBJECTS, _MOMENTS, scalars={LOSS: loss}))
            self._tick += 1
        # A chunk is published a while after its first record was noticed.
        for _ in range(2):
            self.writer.turn()
            self.clock.advance(1.0)
        self.writer.turn()

    def end(self, state: EndState = EndState.FINISHED) -> None:
        self.writer.close(state)


class FailingStore:
    """A store whose verbs may raise, by a rule that the test gives."""

    def __init__(self, store: Store, fails: Callable[[str, str], BaseException | None]) -> None:
        self._store, self._fails = store, fails
        self.writes = 0

    @property
    def url(self) -> str:
        return self._store.url

    def _before(self, verb: str, name: str) -> None:
        self.writes += verb in ("put", "create")
        error = self._fails(verb, name)
        if error is not None:
            raise error

    def put(self, name: str, data: bytes) -> None:
        self._before("put", name)
        self._store.put(name, data)

    def create(self, name: str, data: bytes) -> None:
        self._before("create", name)
        self._store.create(name, data)

    def get(self, name: str) -> memoryview:
        self._before("get", name)
        return self._store.get(name)

    def list(self, folder: str = "") -> list[ObjectInfo]:
        self._before("list", folder)
        return self._store.list(folder)

    def delete(self, name: str) -> None:
        self._before("delete", name)
        self._store.delete(name)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def training(store: Store, clock: ManualClock) -> Training:
    return Training(store, clock)


@pytest.fixture
def new_training() -> type[Training]:
    return Training


@pytest.fixture
def high() -> type[Rule]:
    return High


@pytest.fixture
def raises() -> type[Rule]:
    return Raises


@dataclass(frozen=True, kw_only=True)
class High(Rule):
    """X901: The loss is high."""

    code: ClassVar[str] = "X901"
    name: ClassVar[str] = "high"
    severity: ClassVar[Severity] = Severity.COSTLY
    needs = (Selection(kinds=frozenset({Kind.LOSS})),)

    threshold: float = parameter(1.0, "Highest loss that is let pass.")

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        loss = view.scalar(LOSS)
        if loss is None:
            yield Unjudged("no total loss")
            return
        memory["seen"] = memory.get("seen", 0) + 1
        if loss > self.threshold:
            evidence = Evidence(LOSS, view.step.number, "value", loss, self.threshold, f"call {memory['seen']}")
            yield Symptom(f"The loss is {loss:g}.", "Lower it.", (evidence,))


class Raises(High):
    """X902: Raises at step 2."""

    code = "X902"
    name = "raises"
    severity = Severity.BREAKING

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        if view.step.number == 2:
            raise ZeroDivisionError("by design")
        return super().judge(view, memory)
