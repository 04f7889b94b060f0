"""The output of a hook: a run that is written during training."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from barograph.debugger.gathering import Array
from barograph.debugger.modes import ModeKeys
from barograph.ingest.smdebug.book import Book
from barograph.ingest.smdebug.drafting import Drafter
from barograph.ingest.smdebug.index import MODES
from barograph.ingest.smdebug.names import Naming
from barograph.ingest.smdebug.progress import Progress
from barograph.model.clock import SystemClock
from barograph.model.manifest import EndState
from barograph.model.records import StepRecords
from barograph.model.settings import Settings
from barograph.model.step import Step
from barograph.runs.state.claim import claim_run, claim_worker
from barograph.runs.state.places import new_manifest
from barograph.runs.writing.writer import RunWriter
from barograph.store.base import Store
from barograph.store.urls import store_from_url

NOT_REQUESTED = "only what the hook asks for was recorded"
"""What the coverage of the run says."""


@dataclass(frozen=True, slots=True)
class Ranks:
    """The rank of this process in a distributed training.

    Attributes:
        rank: Its number; None: it is alone.
        count: How many there are.
    """

    rank: int | None
    count: int


def ranks_here() -> Ranks:
    """Return the rank that the launcher set for this process."""
    rank, count = os.environ.get("RANK", ""), os.environ.get("WORLD_SIZE", "1")
    if not rank.isdigit() or not count.isdigit() or int(count) < 2:
        return Ranks(None, 1)
    return Ranks(int(rank), int(count))


class Saving:
    """Writes the run of a hook, in its own thread.

    Args:
        out_dir: Where.
        ranks: Which process this is.
        everyone: Every process saves, not only the first.
        names: Names of tensors that are known beforehand.

    Raises:
        RunFinished, RunInUse: A run is there already.
        StoreError: It cannot be written.
    """

    def __init__(self, out_dir: str, ranks: Ranks, *, everyone: bool, names: list[str]) -> None:
        store = store_from_url(out_dir)
        clock = SystemClock()
        settings = Settings(to=store.url, budget=None, machine_hz=0.0, trace=False)
        rank = ranks.rank if everyone else None
        manifest = new_manifest(settings, command=tuple(sys.orig_argv), clock=clock)
        claim = claim_run(store, manifest, clock=clock, rank=rank)
        worker = claim_worker(store, attempt=claim.attempt, clock=clock, rank=rank,
                              world_size=ranks.count if everyone else 1)
        count = ranks.count if everyone else 1
        workers = {f"r{number}": f"worker_{number}" for number in range(count)} if rank is not None else {
            worker.name: f"worker_{ranks.rank or 0}"}
        self.book = Book(Naming(names), workers, num_workers=count, ended=False)
        self._reports_names = not rank
        self._reported = -1
        self._drafter = Drafter(self.book)
        self._progress = Progress(NOT_REQUESTED)
        self._clock = clock
        self._store = store
        self._writer = RunWriter(store, worker, settings=settings, status=self._progress.heartbeat, clock=clock,
                                 on_control=self._report_names)

    def expect(self, names: list[str]) -> None:
        """Announce names in advance."""
        self.book.naming = Naming(names, keys=self.book.naming.keys)

    def put(
        self, global_step: int, mode: ModeKeys, mode_step: int, values: Mapping[str, Array],
        shapes: Mapping[str, tuple[int, ...]],
    ) -> None:
        """Queue the data of a step; never waits."""
        step = Step(global_step, mode_step, self.book.optimizer_of(mode.name), MODES[mode.name], self._clock.unix())
        # Keys are found here, so that the writer's thread only looks them up.
        kinds = {self.book.naming.key(name).kind for name in (*values, *shapes)}
        self._progress.take(step, kinds, self.book)
        self._writer.put(_Gathered(step, values, shapes, self._drafter))

    def close(self, state: EndState, reason: str, problems: tuple[str, ...]) -> tuple[str, ...]:
        """Publish queued steps; return the problems, one sentence each."""
        self._progress.problems = problems
        closing = self._writer.close(state, reason)
        self.book.ended = True
        self._report_names(self._store, at_once=True)
        return () if closing.complete and not closing.dropped_steps else (
            f"{closing.lost_steps + closing.dropped_steps} steps were not saved", *closing.problems)

    def _report_names(self, store: Store, *, at_once: bool = False) -> None:
        known = len(self.book.naming.keys) + len(self.book.numbers) + len(self.book.collections)
        if self._reports_names and (at_once or known != self._reported):
            self._reported = known
            self.book.put(store)


@dataclass(frozen=True, slots=True)
class _Gathered:
    """A step whose statistics are computed in the writer's thread, as a `Pending`."""

    step: Step
    values: Mapping[str, Array]
    shapes: Mapping[str, tuple[int, ...]]
    drafter: Drafter

    @property
    def size_bytes(self) -> int:
        return sum(value.nbytes for value in self.values.values())

    def resolve(self) -> StepRecords:
        return self.drafter.records(self.step, self.values, self.shapes)
