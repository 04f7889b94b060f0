"""Writes the data of event files as a run: steps and logged values, in order of time."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from barograph.errors import BarographError, ImportFailed, ObjectExists
from barograph.ingest.tensorboard.curve import rising
from barograph.ingest.tensorboard.gathering import TRAINING_LOSS, Gathered
from barograph.ingest.tensorboard.naming import Place
from barograph.ingest.tensorboard.reading import Bars
from barograph.measures.summary import row_from_summary
from barograph.model.clock import ManualClock, SystemClock
from barograph.model.key import Key, Kind
from barograph.model.manifest import Coverage, EndState, Heartbeat, Manifest
from barograph.model.records import StepRecords, Subject
from barograph.model.settings import Settings
from barograph.model.step import Mode, Step
from barograph.model.tensor import RawTensor
from barograph.runs.format.layout import IMPORTED, MANIFEST
from barograph.runs.format.metadata import manifest_bytes, sealed
from barograph.runs.state.claim import begin_attempt, claim_worker
from barograph.runs.state.places import new_manifest
from barograph.runs.writing.record_writer import Closing
from barograph.runs.writing.writer import RunWriter
from barograph.store.base import Store

NOT_LOGGED = "what the script did not log to TensorBoard"
"""What the coverage of an imported run lists as not recorded."""
BOOK = f"{IMPORTED}/tensorboard.json"
PARAMETERS = Key(Kind.CUSTOM, "hyperparameters")

_UNLIMITED_BYTES = 1 << 62
_CHUNK_SECS = 10.0
_CLOSE_SECS = 600.0
_TURN_EVENTS = 20_000
_MOST_PROBLEMS = 20
_MODES = (Mode.TRAIN, Mode.EVAL, Mode.PREDICT)
_LOGGED = len(_MODES)


@dataclass(frozen=True, slots=True)
class RunMetadata:
    """Metadata of a run that does not follow from its numbers.

    Attributes:
        manifest: Manifest of the run.
        not_logged: What its coverage lists as not recorded.
        ended_unix: End time; 0.0: the time of its last number.
        end: End state.
        reason: Reason, as text.
    """

    manifest: Manifest
    not_logged: str
    ended_unix: float = 0.0
    end: EndState = EndState.FINISHED
    reason: str = ""


@dataclass(slots=True)
class _Pen:
    """Series of one mode, read step by step."""

    steps: NDArray[np.int64]
    times: NDArray[np.float64]
    lines: list[tuple[Key, NDArray[np.int64], NDArray[np.float64]]]
    at: list[int] = field(default_factory=list)

    def numbers(self, step: int) -> dict[Key, float]:
        """Return the numbers of a step, which must be later than previous ones."""
        found = {}
        for place, (key, steps, values) in enumerate(self.lines):
            at = self.at[place]
            if at < len(steps) and steps[at] == step:
                found[key] = float(values[at])
                self.at[place] = at + 1
        return found


class GatheredWriter:
    """Writes one run.

    Args:
        store: Place of the run.
        gathered: Data of the run.
        source: Where it came from.
        on_progress: Called regularly with the steps and numbers written and their total.
        metadata: Metadata of another tracker's run; None: as for event files.
    """

    def __init__(
        self, store: Store, gathered: Gathered, source: str, on_progress: Callable[[int, int], object],
        metadata: RunMetadata | None = None,
    ) -> None:
        self._metadata = metadata
        self._store = store
        self._gathered = gathered
        self._source = source
        self._on_progress = on_progress
        self._reached_unix = 0.0
        self._made = self._with_tensors = self._evaluations = 0
        self._subjects: dict[tuple[Key, ...], tuple[Subject, ...]] = {}
        self._held = self._texts_by_step()
        self._pens = {mode: self._pen(mode) for mode in _MODES}

    def write(self) -> None:
        """Write the run.

        Raises:
            ImportFailed: It cannot be written.
            StoreError: The place cannot be written to.
        """
        order, began_unix = self._order()
        if self._metadata is not None:
            began_unix = self._metadata.manifest.created_unix
        self._reached_unix = began_unix
        writer = self._begin(began_unix)
        try:
            self._write(writer, order)
        except BaseException as error:
            with contextlib.suppress(BarographError):
                writer.close(EndState.FAILED, f"The import was interrupted: {type(error).__name__}: {error}")
            raise
        closing = self._close(writer)
        if not closing.complete:
            raise ImportFailed(f"Cannot write the run: {'; '.join(closing.problems)} ({self._store.url}).")

    @property
    def reached_unix(self) -> float:
        """Time of the records being written."""
        return self._reached_unix

    def _close(self, writer: RunWriter) -> Closing:
        metadata = self._metadata
        if metadata is None:
            self._put_book()
            return writer.close(EndState.FINISHED)
        self._reached_unix = metadata.ended_unix or self._reached_unix
        return writer.close(metadata.end, metadata.reason)

    def _begin(self, began_unix: float) -> RunWriter:
        settings = Settings(to=self._store.url, budget=None, queue_bytes=_UNLIMITED_BYTES, flush_secs=_CHUNK_SECS,
                            close_timeout_secs=_CLOSE_SECS, machine_hz=0.0, trace=False)
        began = ManualClock(unix=began_unix)
        metadata = self._metadata
        manifest = metadata.manifest if metadata is not None else new_manifest(settings, command=(), clock=began)
        try:
            self._store.create(MANIFEST, manifest_bytes(manifest))
        except ObjectExists:
            raise ImportFailed("Another process has started a run there. Choose another place "
                               f"({self._store.url}).") from None
        begin_attempt(self._store, 0, started_unix=began_unix)
        worker = claim_worker(self._store, attempt=0, clock=began)
        return RunWriter(self._store, worker, settings=settings, status=self._heartbeat, clock=_ThenClock(self),
                         background=False)

    def _write(self, writer: RunWriter, order: Iterator[tuple[int, int, int]]) -> None:
        logged = list(self._gathered.logged.items())
        total = sum(len(pen.steps) for pen in self._pens.values()) + sum(len(line) for _, line in logged)
        tick = 0
        if self._gathered.parameters:
            self._log_parameters(writer)
        for done, (what, place, at) in enumerate(order, 1):
            if what == _LOGGED:
                where, line = logged[place]
                self._reached_unix = float(line.times[at])
                self._log(writer, where, int(line.steps[at]), float(line.values[at]))
            else:
                self._put_step(writer, tick, _MODES[what], at)
                tick += 1
            if done % _TURN_EVENTS == 0:
                writer.turn()
                self._on_progress(done, total)
                if writer.problems:
                    raise ImportFailed(
                        f"Cannot write the run: {'; '.join(writer.problems)} ({self._store.url}).")
        self._on_progress(total, total)

    def _log(self, writer: RunWriter, where: Place, step: int, value: float) -> None:
        if where.key.kind is Kind.MACHINE:
            writer.note({where.key: value}, step=step, time_unix=self._reached_unix)
        else:
            writer.log(where.key.path, value, step, where.mode, self._reached_unix)

    def _put_step(self, writer: RunWriter, tick: int, mode: Mode, at: int) -> None:
        pen = self._pens[mode]
        number = int(pen.steps[at])
        self._reached_unix = float(pen.times[at])
        step = Step(tick, number, "", mode, self._reached_unix)
        numbers = pen.numbers(number)
        bars = self._gathered.histograms.get(number, {}) if mode is Mode.TRAIN else {}
        texts = self._held.pop(number, {}) if mode is Mode.TRAIN else {}
        if mode is Mode.TRAIN:
            self._made = max(self._made, number + 1)
            self._with_tensors += bool(bars)
        else:
            self._evaluations += 1
        if bars or texts:
            writer.put(self._records(step, numbers, bars, texts))
        else:
            writer.put_numbers(step, numbers)

    def _records(
        self, step: Step, numbers: Mapping[Key, float], bars: Mapping[Key, Bars], texts: Mapping[Key, bytes]
    ) -> StepRecords:
        tensors = {key: RawTensor("uint8", (len(text),), text) for key, text in texts.items()}
        if not bars:
            return StepRecords(step, scalars=numbers, tensors=tensors)
        keys = tuple(bars)
        # Subjects are compared by identity, so equal steps must share them.
        subjects = self._subjects.setdefault(keys, tuple(Subject(key) for key in keys))
        rows = [row_from_summary(item.summary) for item in bars.values()]
        return StepRecords(step, subjects, np.stack([row[0] for row in rows]), np.stack([row[1] for row in rows]),
                           scalars=numbers, tensors=tensors)

    def _log_parameters(self, writer: RunWriter) -> None:
        for name, value in self._gathered.parameters.items():
            if isinstance(value, bool | int | float):
                writer.log(f"hyperparameter[{name}]", float(value), 0, Mode.TRAIN, self._reached_unix)

    def _order(self) -> tuple[Iterator[tuple[int, int, int]], float]:
        """Return what is written, in order (mode or logged series, which one, and position), and the start time."""
        parts: list[tuple[int, int, NDArray[np.int64], NDArray[np.float64]]] = [
            (what, 0, self._pens[mode].steps, self._pens[mode].times) for what, mode in enumerate(_MODES)
        ]
        parts += [(_LOGGED, place, line.steps, line.times)
                  for place, line in enumerate(self._gathered.logged.values())]
        whats = np.concatenate([np.full(len(steps), what, np.int8) for what, _, steps, _ in parts])
        places = np.concatenate([np.full(len(steps), place, np.int32) for _, place, steps, _ in parts])
        within = np.concatenate([np.arange(len(steps)) for _, _, steps, _ in parts])
        steps = np.concatenate([steps for _, _, steps, _ in parts])
        times = np.concatenate([times for _, _, _, times in parts])
        # At equal times, the step decides; and a step comes before what was logged after it.
        order = np.lexsort((within, whats, steps, times))
        began_unix = float(times[order[0]]) if len(order) else SystemClock().unix()
        return zip(whats[order].tolist(), places[order].tolist(), within[order].tolist(), strict=True), began_unix

    def _pen(self, mode: Mode) -> _Pen:
        lines = {place.key: line for place, line in self._gathered.of_steps.items() if place.mode is mode}
        times: dict[int, float] = {}
        if mode is Mode.TRAIN:
            times = {step: min(item.time_unix for item in bars.values())
                     for step, bars in self._gathered.histograms.items()}
            for step, late in self._held_times.items():
                times.setdefault(step, late)
        found = [np.fromiter(times, np.int64, len(times)), *(line.steps for line in lines.values())]
        when = [np.fromiter(times.values(), np.float64, len(times)), *(line.times for line in lines.values())]
        steps, first = np.concatenate(found), np.concatenate(when)
        order = np.lexsort((first, steps))
        unique, starts = np.unique(steps[order], return_index=True)
        when_made = rising(first[order][starts])
        pens = [(key, line.steps, line.values) for key, line in lines.items()]
        return _Pen(unique, when_made, pens, [0] * len(pens))

    def _texts_by_step(self) -> dict[int, dict[Key, bytes]]:
        """Return texts by step: the current training step, if there is one."""
        lines = [line.steps for place, line in self._gathered.of_steps.items() if place.mode is Mode.TRAIN]
        known = np.unique(np.concatenate([*lines, np.fromiter(self._gathered.histograms, np.int64)]))
        found: dict[int, dict[Key, bytes]] = {}
        self._held_times: dict[int, float] = {}
        first_unix = min((float(line.times[0]) for line in self._gathered.logged.values() if len(line)), default=0.0)

        def hold(key: Key, step: int, time_unix: float, data: bytes) -> None:
            at = int(np.searchsorted(known, step, side="right")) - 1
            under_way = int(known[max(at, 0)]) if len(known) else step
            found.setdefault(under_way, {})[key] = data
            if not len(known):
                self._held_times.setdefault(under_way, float(rising(np.array([time_unix]))[0]) or first_unix)

        for key, texts in self._gathered.texts.items():
            for step in sorted(texts):
                time_unix, text = texts[step]
                hold(key, step, time_unix, json.dumps(text).encode())
        if self._gathered.parameters:
            hold(PARAMETERS, 0, math.inf, json.dumps(self._gathered.parameters, sort_keys=True).encode())
        return found

    def _heartbeat(self) -> Heartbeat:
        keys = {key for bars in self._gathered.histograms.values() for key in bars}
        weights = sum(key.kind is Kind.WEIGHT for key in keys)
        coverage = Coverage(
            parameters=weights, parameters_seen=weights, gradients_seen=sum(key.kind is Kind.GRADIENT for key in keys),
            loss_seen=any(place.key.kind is Kind.LOSS for place in self._gathered.of_steps),
            steps=self._made, steps_seen=self._with_tensors, evaluations=self._evaluations,
            reasons=(self._metadata.not_logged if self._metadata is not None else NOT_LOGGED,),
        )
        losses = self._gathered.of_steps.get(TRAINING_LOSS)
        loss = float(losses.values[-1]) if losses is not None and len(losses) else math.nan
        return Heartbeat(0, self._reached_unix, step=self._made, loss=loss, coverage=coverage,
                         problems=tuple(self._gathered.damage[:_MOST_PROBLEMS]))

    def _put_book(self) -> None:
        names = {name: [place.mode.value, str(place.key)] for name, place in self._gathered.names.items()}
        self._store.put(BOOK, sealed({
            "source": self._source, "names": names, "recounted": self._gathered.recounted,
            "parameters": self._gathered.parameters, "passed_over": dict(self._gathered.passed_over),
            "damage": self._gathered.damage,
        }))


class _ThenClock(SystemClock):
    """A clock at the time of the imported records, so that metadata has the duration of the training."""

    def __init__(self, writer: GatheredWriter) -> None:
        self._writer_of_times = writer

    def unix(self) -> float:
        return self._writer_of_times.reached_unix
