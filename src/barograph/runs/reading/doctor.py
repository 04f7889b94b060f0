"""Checks every object of a run, and lists damaged, missing, foreign and dropped data."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from barograph.errors import DamagedChunk, NotARun, ObjectNotFound, StoreUnavailable
from barograph.model.clock import Clock, SystemClock
from barograph.model.manifest import Heartbeat
from barograph.model.step import Mode
from barograph.runs.format.belonging import open_published
from barograph.runs.format.curves_file import read_curves
from barograph.runs.format.events import all_rows
from barograph.runs.format.layout import (
    MANIFEST,
    RETENTION,
    ChunkName,
    TensorsName,
    metadata_name,
)
from barograph.runs.format.metadata import manifest_from_bytes, removed_through_from_bytes
from barograph.runs.format.proof import proved
from barograph.runs.format.tensors import TensorsOrigin, check_tensors_origin
from barograph.runs.reading.gaps import beyond_last
from barograph.runs.reading.kept_files import check_files
from barograph.runs.reading.roster import Roster, Standing, WorkerState
from barograph.runs.reading.trace import Trace
from barograph.runs.state.survey import Stream, survey
from barograph.store.base import Store

_TRIES = 20
"""Number of listings while files are merged; each reads only new files."""


@dataclass(slots=True)
class Diagnosis:
    """Problems of a run; each text is one sentence for people.

    Attributes:
        url: URL of the run.
        damaged: Damaged objects.
        missing: Published or recorded data that is missing.
        dropped: Data never published because the store did not keep up.
        removed: Data removed because of limits in the settings.
        unended: Workers without an ending, and whether they are alive.
        problems: Problems reported by the workers.
        foreign: Objects that are not part of a run.
        leftover: Harmless redundant files: rows that are also in another file, from a
            worker that died during compaction; unreadable buckets; files of an interrupted save of a checkpoint or a
            capsule.
        workers, chunks, tensors, size_bytes: Number of workers, records files, tensor files, and total bytes.
        dropped_steps, dropped_points: Number of dropped steps and logged numbers.
    """

    url: str
    damaged: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    unended: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    leftover: list[str] = field(default_factory=list)
    workers: int = 0
    chunks: int = 0
    tensors: int = 0
    size_bytes: int = 0
    dropped_steps: int = 0
    dropped_points: int = 0

    @property
    def intact(self) -> bool:
        """Whether everything published so far is present and readable."""
        return not (self.damaged or self.missing or self.dropped)

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data; `whole` is the older name of `intact`."""
        return {"intact": self.intact, "whole": self.intact, **asdict(self)}


def examine(store: Store, *, clock: Clock | None = None) -> Diagnosis:
    """Return the problems of the run in `store`, after reading all of it.

    Args:
        store: Store of the run.
        clock: Measures how long heartbeats were watched.

    Raises:
        NotARun: There is no part of a run.
        NewerFormat: A newer Barograph wrote it.
        StoreError: The store cannot be read.
    """
    return _Examination(store, clock or SystemClock()).diagnosis


class _Span(NamedTuple):
    """The first training step and the last step of any kind in some records."""

    first: int
    last: int


_NOTHING = _Span(first=2**63, last=-1)


class _Content(NamedTuple):
    """The content of one records file, or why it cannot be read."""

    span: _Span = _NOTHING
    ticks: NDArray[np.int64] = np.empty(0, np.int64)
    tensor_chunks: frozenset[int] = frozenset()
    damage: str = ""


class _Examination:
    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._found = survey(store)
        self._run_id = ""
        self._records: dict[ChunkName, _Content] = {}
        self._tensors: dict[TensorsName, str] = {}
        self._steps: dict[Stream, int] = {}
        self.diagnosis = Diagnosis(store.url)
        found = self._found
        if not found.has_manifest and not found.chunks and not found.metadata:
            raise NotARun(f"Not a run: there is no {MANIFEST} ({store.url}).")
        self._look_at_manifest()
        # Before the records, so that chunks announced by a worker are present.
        roster = Roster(store, clock)
        states = roster.workers(found)
        self.diagnosis.damaged.extend(roster.damage)
        self.diagnosis.workers = len(states)
        self._last_chunks = {(state.worker.attempt, state.worker.name): state.last_chunk for state in states}
        self._read_all()
        self._count()
        spans = {stream: self._look_at_records(stream) for stream in self._found.chunks}
        self._look_at_tensors()
        self._look_at_curves()
        for state in states:
            self._look_at_worker(state, spans)
        self._look_at_trace()
        self._look_at_other_files()

    def _count(self) -> None:
        diagnosis, found = self.diagnosis, self._found
        diagnosis.chunks = sum(len(found.files(stream)) for stream in found.chunks)
        diagnosis.tensors = sum(map(len, found.tensors.values()))
        diagnosis.size_bytes = sum(found.size_bytes.values())
        diagnosis.foreign.extend(f"{name} is not part of a run." for name in found.foreign)
        diagnosis.leftover.extend(f"The rows of {file} are also in another file." for file in found.superseded())

    def _look_at_manifest(self) -> None:
        if not self._found.has_manifest:
            self.diagnosis.missing.append(f"{MANIFEST} is missing.")
            return
        try:
            self._run_id = manifest_from_bytes(self._store.get(MANIFEST), MANIFEST).run_id
        except (DamagedChunk, ObjectNotFound) as error:
            self.diagnosis.damaged.append(str(error))

    def _read_all(self) -> None:
        """Read all records and tensor files; list again if one was merged or removed."""
        for _ in range(_TRIES):
            if self._read_what_is_new():
                return
            self._found = survey(self._store)
        raise StoreUnavailable(
            f"The files of the run kept changing while they were read. Try again ({self._store.url})."
        )

    def _read_what_is_new(self) -> bool:
        """Return whether every file in the last listing was there to be read."""
        complete = True
        for records in self._found.chunks.values():
            for file in records:
                try:
                    if file not in self._records:
                        self._records[file] = _content(self._store, file, self._run_id)
                except ObjectNotFound:
                    complete = False
        for tensors in self._found.tensors.values():
            for name in tensors:
                try:
                    if name not in self._tensors:
                        self._tensors[name] = _damage(self._store, name, self._run_id)
                except ObjectNotFound:
                    complete = False
        return complete

    def _look_at_records(self, stream: Stream) -> _Span:
        """Check all files of one stream; return the range of steps in them."""
        damaged: set[str] = set()
        tensor_chunks: set[int] = set()
        ticks = [np.empty(0, np.int64)]
        span = _NOTHING
        for file in self._found.chunks[stream]:
            content = self._records[file]
            if content.damage:
                damaged.add(str(file))
                self.diagnosis.damaged.append(content.damage)
            span = _Span(min(span.first, content.span.first), max(span.last, content.span.last))
            tensor_chunks |= content.tensor_chunks
            ticks.append(content.ticks)
        self._steps[stream] = len(np.unique(np.concatenate(ticks)))
        self.diagnosis.damaged.extend(self._found.conflict_damage(stream, damaged))
        removed_through = self._removed_through(stream)
        self._note_gaps(stream, damaged, removed_through)
        there = {name.chunk for name in self._found.tensors.get(stream, ())}
        for chunk in sorted(tensor_chunks - there):
            if chunk > removed_through:
                self.diagnosis.missing.append(f"The saved tensors of chunk {chunk} of {_whose(stream)} are missing.")
        return span

    def _note_gaps(self, stream: Stream, damaged: Collection[str], removed_through: int) -> None:
        if removed_through >= 0:
            what = f"Chunks up to {removed_through} of {_whose(stream)}"
            self.diagnosis.removed.append(f"{what} were removed, as the settings require.")
        expected = removed_through + 1
        last_chunk = self._last_chunks.get(stream)
        for file in self._found.files(stream, damaged):
            if last_chunk is not None and file.first > last_chunk:
                return  # it is foreign, and nothing is missing before it
            self._note_missing(stream, expected, file.first)
            expected = max(expected, file.last + 1)

    def _note_missing(self, stream: Stream, first: int, before: int) -> None:
        if first < before:
            which = f"Chunk {first}" if first == before - 1 else f"Chunks {first} to {before - 1}"
            verb = "is" if first == before - 1 else "are"
            self.diagnosis.missing.append(f"{which} of {_whose(stream)} {verb} missing.")

    def _look_at_tensors(self) -> None:
        for files in self._found.tensors.values():
            self.diagnosis.damaged.extend(damage for file in files if (damage := self._tensors[file]))

    def _look_at_curves(self) -> None:
        for name in (name for files in self._found.curves.values() for name in files):
            try:
                read_curves(self._store, name, self._run_id)
            except DamagedChunk as error:
                message = str(error)
                self.diagnosis.leftover.append(f"{message.removesuffix('.')}. Curves are computed from the records "
                                               "instead.")
            except ObjectNotFound:
                continue  # it went with its records since it was listed

    def _look_at_worker(self, state: WorkerState, spans: Mapping[Stream, _Span]) -> None:
        worker, last = state.worker, state.last
        stream = worker.attempt, worker.name
        whose = _whose(stream)
        if state.last_chunk is not None:
            files = self._found.files(stream)
            seen = max(files[-1].last if files else -1, self._removed_through(stream))
            self._note_missing(stream, seen + 1, state.last_chunk + 1)
            beyond = [file for file in files if file.first > state.last_chunk]
            self.diagnosis.foreign.extend(beyond_last(file, state.last_chunk) for file in beyond)
            self._note_lost_steps(stream, last)
        else:
            self.diagnosis.unended.append(_STANDINGS[state.standing].format(whose=whose[0].upper() + whose[1:]))
        if last is not None:
            self.diagnosis.problems.extend(f"{problem} ({whose})" for problem in last.problems)
            self.diagnosis.dropped_steps += last.dropped_steps
            self.diagnosis.dropped_points += last.dropped_points
            if last.dropped_steps or last.dropped_points:
                what = f"{last.dropped_steps} steps and {last.dropped_points} logged numbers of {whose}"
                self.diagnosis.dropped.append(f"{what} were dropped because the store did not keep up.")
        if state.standing is Standing.KILLED:
            self._note_killed(state, spans)

    def _note_lost_steps(self, stream: Stream, last: Heartbeat | None) -> None:
        """Compare the number of steps that a worker has recorded with the number of steps in its files.

        A writer process may be killed with unpublished steps and replaced by another one, without a gap in the
        numbers of chunks.
        """
        explained = self.diagnosis.missing or self.diagnosis.damaged or self._removed_through(stream) >= 0
        if last is None or explained:
            return
        coverage = last.coverage
        recorded = coverage.steps_recorded if coverage.steps_recorded >= 0 else coverage.steps_seen
        lost = recorded - last.dropped_steps - self._steps.get(stream, 0)
        if lost > 0:
            self.diagnosis.missing.append(f"{lost:,} of {recorded:,} recorded steps of {_whose(stream)} "
                                          f"{'is' if lost == 1 else 'are'} missing: lost before publication.")

    def _note_killed(self, state: WorkerState, spans: Mapping[Stream, _Span]) -> None:
        worker, stream = state.worker, (state.worker.attempt, state.worker.name)
        last_step = spans.get(stream, _NOTHING).last
        if worker.attempt == max(self._found.attempts, default=worker.attempt):
            reported = "" if state.last is None else f" It had reported {state.last.step} steps."
            what = f"Records of {_whose(stream)} after step {last_step}"
            if last_step < 0:
                what = f"All records of {_whose(stream)}"
            self.diagnosis.missing.append(f"{what} were lost when it was killed.{reported}")
            return
        # A later attempt repeated the lost steps, starting from its checkpoint.
        later = [span.first for (attempt, name), span in spans.items() if attempt > worker.attempt
                 and name == worker.name]
        resumed_at = min(later, default=_NOTHING.first)
        if resumed_at == _NOTHING.first:
            return  # no later attempt has made a step yet
        if resumed_at > last_step + 1:
            one = resumed_at == last_step + 2
            which = f"Step {last_step + 1}" if one else f"Steps {last_step + 1} to {resumed_at - 1}"
            were, them = ("was", "it") if one else ("were", "them")
            self.diagnosis.missing.append(f"{which} of {_whose(stream)} {were} lost when it was killed, and no later "
                                          f"attempt repeated {them}.")

    def _look_at_trace(self) -> None:
        trace = Trace(self._store, self._run_id)
        self.diagnosis.damaged.extend(trace.damage)
        if trace.dropped_batches:
            what = f"The samples of {trace.dropped_batches} batches"
            self.diagnosis.dropped.append(f"{what} were dropped because the store did not keep up.")

    def _look_at_other_files(self) -> None:
        found = check_files(self._store, self._found.size_bytes)
        self.diagnosis.damaged.extend(found.damaged)
        self.diagnosis.missing.extend(found.missing)
        self.diagnosis.leftover.extend(found.leftover)

    def _removed_through(self, stream: Stream) -> int:
        attempt, worker = stream
        if (RETENTION, worker, attempt) not in self._found.metadata:
            return -1
        name = metadata_name(RETENTION, worker, attempt)
        try:
            return removed_through_from_bytes(self._store.get(name), name)
        except DamagedChunk as error:
            if str(error) not in self.diagnosis.damaged:
                self.diagnosis.damaged.append(str(error))
            return -1


_STANDINGS = {
    Standing.RUNNING: "{whose} is running.",
    Standing.KILLED: "{whose} was killed.",
    Standing.UNKNOWN: "{whose} has not ended. Whether it is alive is not known yet.",
}


def _whose(stream: Stream) -> str:
    return f"worker {stream[1]} in attempt {stream[0]}"


def _content(store: Store, file: ChunkName, run_id: str) -> _Content:
    try:
        table = all_rows(open_published(store, file, run_id), str(file))
    except DamagedChunk as error:
        return _Content(damage=str(error))
    if not len(table):
        return _Content()
    tensor_chunks = np.unique(table.filter(table["tensor"])["chunk"].to_numpy()).tolist()
    span = _Span(_first_training_step(table), pc.max(table["step"]).as_py())
    ticks = np.unique(table["tick"].filter(_of_training_steps(table)).to_numpy())
    return _Content(span, ticks, frozenset(tensor_chunks))


def _damage(store: Store, file: TensorsName, run_id: str) -> str:
    """Return why a tensor file cannot be read; "" if it can."""
    try:
        data = proved(store, str(file), file.digest)
        check_tensors_origin(data, TensorsOrigin(run_id, file.worker, file.attempt, file.chunk), str(file))
    except DamagedChunk as error:
        return str(error)
    return ""


def _first_training_step(table: pa.Table) -> int:
    first = pc.min(table["step"].filter(_of_training_steps(table))).as_py()
    return _NOTHING.first if first is None else int(first)


def _of_training_steps(table: pa.Table) -> pa.ChunkedArray:
    return pc.and_(pc.equal(table["mode"].cast(pa.string()), Mode.TRAIN.value), table["skipped"].is_valid())
