"""Reading API: query a run by kind, name, pattern, step, mode and worker, during or after training."""

from __future__ import annotations

import fnmatch
import importlib
import os
import re
import time
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from barograph.errors import (
    NotARun,
    ObjectNotFound,
    SettingsError,
    StoreUnavailable,
    UnknownKey,
    UnknownName,
    UnknownStep,
    nearest,
)
from barograph.measures.buckets import Buckets
from barograph.model.clock import Clock, SystemClock
from barograph.model.finding import Findings
from barograph.model.key import Key, Kind, kind_from_name
from barograph.model.manifest import Manifest
from barograph.model.records import UnitSummaries
from barograph.model.step import Mode
from barograph.model.summary import Summary
from barograph.runs.format.curves_file import PLAIN_KINDS, SeriesBuckets, SeriesName
from barograph.runs.format.layout import MANIFEST
from barograph.runs.format.merging import MERGED_KINDS
from barograph.runs.format.metadata import manifest_from_bytes
from barograph.runs.format.schema import SCHEMA
from barograph.runs.reading.condensed import Condensed, each, only
from barograph.runs.reading.envelope import Envelope, envelope_of_buckets, envelope_of_series, is_fine
from barograph.runs.reading.feed import Feed
from barograph.runs.reading.gaps import Gaps
from barograph.runs.reading.moment import view_from_rows
from barograph.runs.reading.query import Query, TextTest, equals, is_among, wanted_key, wanted_rows
from barograph.runs.reading.records import Records
from barograph.runs.reading.roster import Roster, WorkerState
from barograph.runs.reading.saved_tensors import SAVED_COLUMNS, SavedTensors
from barograph.runs.reading.series import Series, series_columns, series_from_tables, statistic_named
from barograph.runs.reading.trace import Trace
from barograph.runs.reading.view import StepView, group_of
from barograph.runs.state.findings import read_findings
from barograph.runs.state.survey import Survey
from barograph.store.base import Store
from barograph.store.urls import store_from_url

if TYPE_CHECKING:
    import pandas
    import polars

AWAY_SECS = 300.0
"""How long a store may be away while a run is followed; trainings outlive outages of some minutes, too."""

CURVE_POINTS = 2000
"""Default number of points of a curve: more than most screens have columns."""

Found = TypeVar("Found")

_STEPS_ALONE = TextTest("kind", lambda text: text != Kind.MACHINE.value)


def open(url: str | os.PathLike[str]) -> RunReader:
    """Open the run at a directory or URL.

    Args:
        url: A directory, or a URL as in `store.urls.store_from_url`.

    Raises:
        NotARun: No run is there.
        NewerFormat: A newer Barograph wrote the run.
        DamagedChunk: The run's manifest cannot be read.
        StoreError: The URL cannot be read.
    """
    return RunReader(store_from_url(url))


class RunReader:
    """A run as of the time it was opened or refreshed.

    Every step occurs once: after a resume, the later attempt replaces the steps of the earlier one from its first step
    on. `damage` lists damaged and missing data; everything else is readable.

    Args:
        store: The run's store.
        clock: Measures how long heartbeats have been watched.
    """

    def __init__(self, store: Store, *, clock: Clock | None = None) -> None:
        self.store = store
        self._clock = clock or SystemClock()
        try:
            self.manifest: Manifest = manifest_from_bytes(store.get(MANIFEST), MANIFEST)
        except ObjectNotFound:
            raise NotARun(f"Not a run: there is no {MANIFEST} ({store.url}).") from None
        self._records = Records(store, self.manifest.run_id)
        self._condensed = Condensed(store, self.manifest.run_id, self._records)
        self._saved_tensors = SavedTensors(store, self.manifest.run_id, self._records)
        self._roster = Roster(store, self._clock)
        self._gaps = Gaps(store)
        # In the order in which it was met, each once.
        self._heard: dict[str, None] = {}
        self._kept: dict[Hashable, Any] = {}
        self._kept_from: Survey | None = None

    def __repr__(self) -> str:
        return f"RunReader({self.url!r})"

    @property
    def url(self) -> str:
        """URL of the run."""
        return self.store.url

    def show(self) -> Any:
        """Return the run's page for the last line of a notebook cell, see `barograph.notebook.show`."""
        return importlib.import_module("barograph.notebook").show(self)  # above this package

    @property
    def workers(self) -> tuple[WorkerState, ...]:
        """The workers of each attempt, with their states."""
        return self._roster.workers(self._records.survey)

    @property
    def damage(self) -> tuple[str, ...]:
        """Unreadable files found so far, and missing chunks; one sentence each.

        Files are checked when a query reads them; `doctor.examine` checks all.
        """
        missing = self._gaps.named(self._records.survey)
        return tuple(dict.fromkeys((*self._records.damage, *missing, *self._roster.damage, *self._heard)))

    @property
    def findings(self) -> Findings:
        """The findings of the rules, ordered by their first step."""
        log = read_findings(self.store)
        self._heard.update(dict.fromkeys(log.damage))
        return Findings(log.findings)

    def refresh(self) -> None:
        """Load what was published since."""
        self._records.refresh()

    def once(self, what: Hashable, make: Callable[[], Found]) -> Found:
        """Return the result of `make`, which is kept until the run has other files.

        Args:
            what: Identifies the result.
            make: Computes it from this run.
        """
        survey, before = self._records.survey, self._kept_from
        if before is None or (survey is not before and (survey.named, survey.curves) != (before.named, before.curves)):
            self._kept.clear()
        self._kept_from = survey
        if what not in self._kept:
            self._kept[what] = make()
        found: Found = self._kept[what]
        return found

    def open_files(self) -> None:
        """Open every file of records, so that `damage` names all that cannot be read."""
        self._records.known_optimizers()  # `keys` does it, too, but makes an object of each

    def keys(self, kind: Kind | str | None = None, path: str = "*", pattern: str | None = None) -> list[Key]:
        """Return the keys recorded in the run, sorted.

        Args:
            kind: Only keys of this kind.
            path: Only keys whose path matches this shell pattern.
            pattern: Only keys whose path contains a match of this regular expression.

        Raises:
            UnknownName: No such kind, or the regular expression is invalid.
        """
        wanted = kind_from_name(kind) if kind is not None else None
        try:
            expression = re.compile(pattern or "")
        except re.error as error:
            raise UnknownName(f'"{pattern}" is not a regular expression: {error}.') from None
        found = [
            key for key in self._records.known_keys()
            if (wanted is None or key.kind == wanted)
            and (path == "*" or fnmatch.fnmatchcase(key.path, path)) and expression.search(key.path)
        ]
        # Equals the order of keys, which takes ten times as long for a hundred thousand.
        return sorted(found, key=lambda key: (key.kind.value, key.path))

    def steps(
        self, mode: Mode | str | None = Mode.TRAIN, *, worker: str | None = None, optimizer: str | None = None
    ) -> NDArray[np.int64]:
        """Return the recorded steps, in ascending order, without duplicates.

        Args:
            mode: Only steps of this mode. None: all modes.
            worker, optimizer: Only steps of this worker or optimizer.

        Raises:
            UnknownName: No such mode or optimizer.
            UnknownWorker: The worker published nothing.
        """
        query = wanted_rows(mode=mode, optimizer=optimizer)
        # Machine metrics between two steps are not a step.
        query = Query([*query.tests, _STEPS_ALONE], query.start, query.stop)
        table = self._records.table(query, ("step",), worker)
        if not len(table):
            self._check_optimizer(optimizer)
        return np.unique(table["step"].to_numpy())

    def series(
        self,
        key: Key | str,
        statistic: str = "value",
        *,
        mode: Mode | str | None = Mode.TRAIN,
        worker: str | None = None,
        optimizer: str | None = None,
        start: int | None = None,
        stop: int | None = None,
    ) -> Series:
        """Return one statistic of a key over the steps.

        Args:
            key: A Key, or a string such as "gradient:fc1.weight".
            statistic: "value" for losses, learning rates and logged numbers; for tensors "mean", "mean_abs", "std",
                "variance", "l1", "l2", "rms", "min", "max", "max_abs", "sparsity", "count", "nan", "posinf",
                "neginf", "nonfinite", "finite", "zeros", "sum", "sum_sq", "sum_abs".
            mode: Only steps of this mode. None: all modes.
            worker: Only the records of this worker. None: merged over the ranks, with replicas taken from the first
                rank; without ranks, from the first process that recorded the key.
            optimizer: Only steps of this optimizer.
            start, stop: Only steps >= start, < stop.

        Returns:
            Empty arrays if the key was recorded only in other modes or steps.

        Raises:
            UnknownKey, UnknownWorker: The run has no such key or worker.
            UnknownName: No such statistic, mode or optimizer, or the key does not have this statistic.
        """
        wanted, number = wanted_key(key), statistic_named(statistic)
        # Plain numbers have no parts, so a single worker's rows are the series.
        alone = len(self._records.workers()) == 1 and wanted.kind in PLAIN_KINDS
        one_worker = worker is not None or alone
        query = wanted_rows(wanted, mode, optimizer, start, stop)
        tables = self._records.by_worker(query, series_columns(number, one_worker=one_worker), worker)
        result = series_from_tables(wanted, number, _contributing(tables))
        if not len(result):
            self._check_key(wanted)
            self._check_optimizer(optimizer)
            if any(len(table) for parts in tables.values() for table in parts):
                usual = '"value"' if statistic != "value" else 'a statistic such as "mean_abs" or "l2"'
                raise UnknownName(f"{wanted} has no {statistic}. Pass {usual}.")
        return result

    def curve(
        self,
        key: Key | str,
        statistic: str = "value",
        *,
        points: int = CURVE_POINTS,
        mode: Mode | str | None = Mode.TRAIN,
        worker: str | None = None,
        optimizer: str | None = None,
        start: int | None = None,
        stop: int | None = None,
    ) -> Envelope:
        """Return a series reduced for drawing: a few buckets, each with its exact minimum and maximum.

        Long logged series are read from condensed files of a hundredth of the size, or from the records if these files
        are missing or damaged.

        Args:
            key, statistic, mode, worker, optimizer, start, stop: As for `series`.
            points: Maximum number of points to draw, two per bucket. Shorter series are returned unchanged; longer ones
                have at least about a quarter of `points`.

        Raises:
            SettingsError: `points` is less than 2.
            UnknownKey, UnknownWorker, UnknownName: As for `series`.
        """
        if points < 2:
            raise SettingsError(f"points is {points}; a curve needs at least 2.")
        wanted = wanted_key(key)
        query = wanted_rows(wanted, mode, optimizer)
        if statistic == "value" and wanted.kind in PLAIN_KINDS and start is None and stop is None:
            buckets = self._buckets(wanted, query, mode, worker, optimizer)
            if buckets is not None and is_fine(buckets, points):
                return envelope_of_buckets(wanted, statistic, buckets, points)
        return envelope_of_series(self.series(
            wanted, statistic, mode=mode, worker=worker, optimizer=optimizer, start=start, stop=stop), points)

    def summary(
        self, key: Key | str, step: int, *, mode: Mode | str = Mode.TRAIN, worker: str | None = None,
        optimizer: str | None = None,
    ) -> Summary:
        """Return the Summary of a key at one step, with its exponent histogram if recorded.

        Args:
            key, mode, worker, optimizer: As for `series`.
            step: Step number.

        Raises:
            UnknownKey, UnknownWorker: The run has no such key or worker.
            UnknownName: No such mode or optimizer.
            UnknownStep: The key was not recorded at that step.
        """
        wanted = wanted_key(key)
        view = self._view(wanted_rows(wanted, mode, optimizer, step, step + 1), worker)
        summary = view.summary(wanted) if view else None
        if summary is None:
            raise self._not_at(wanted, step, optimizer, "recorded")
        return summary

    def units(
        self, key: Key | str, step: int, *, mode: Mode | str = Mode.TRAIN, worker: str | None = None,
        optimizer: str | None = None,
    ) -> UnitSummaries:
        """Return the per-unit summaries of a key at one step; arguments and errors as for `summary`."""
        wanted = wanted_key(key)
        view = self._view(wanted_rows(wanted, mode, optimizer, step, step + 1), worker)
        units = view.units(wanted) if view else None
        if units is None:
            raise self._not_at(wanted, step, optimizer, "recorded by unit")
        return units

    def at(
        self, step: int, *, mode: Mode | str | None = Mode.TRAIN, worker: str | None = None,
        optimizer: str | None = None,
    ) -> StepView:
        """Return everything recorded in one step, merged over workers, as rules get it.

        Args:
            step: Step number.
            mode: Only this mode. None: the mode that was recorded last in this step.
            worker, optimizer: Only this worker or optimizer.

        Raises:
            UnknownName: No such mode or optimizer.
            UnknownStep: Nothing was recorded in that step and mode.
            UnknownWorker: The worker published nothing.
        """
        view = self._view(wanted_rows(None, mode, optimizer, step, step + 1), worker)
        if view is None:
            steps = self.steps(mode, worker=worker, optimizer=optimizer)
            which = "any mode" if mode is None else f"mode {mode}"
            known = "No steps were recorded."
            if len(steps):
                known = f"Recorded steps: {steps[0]} to {steps[-1]} ({len(steps)})."
            raise UnknownStep(f"No records of step {step} in {which}. {known}")
        return view

    def tensor(
        self, key: Key | str, step: int, *, mode: Mode | str = Mode.TRAIN, worker: str | None = None,
        optimizer: str | None = None,
    ) -> NDArray[Any]:
        """Return a saved tensor as a read-only array.

        bfloat16 and float8 use the types of `ml_dtypes`.

        Args:
            key, mode, optimizer: As for `series`.
            step: Step number.
            worker: The worker that saved it; of a tensor that is split over workers, the part of this worker. None: the
                first worker that saved it.

        Raises:
            UnknownKey, UnknownWorker: The run has no such key or worker.
            UnknownStep: The tensor was not saved at that step.
            SplitTensor: Each worker saved a part and `worker` is None. The run does not record the split axis, so read
                and join the parts yourself.
            DamagedChunk: The tensor's file is damaged or missing.
        """
        wanted = wanted_key(key)
        table = self._records.table(wanted_rows(wanted, mode, optimizer, step, step + 1), SAVED_COLUMNS, worker)
        rows = table.filter(table["tensor"]).to_pylist()
        if not rows:
            raise self._not_at(wanted, step, optimizer, "saved whole")
        return self._saved_tensors.read(rows, wanted, step, worker)

    def tensors(
        self, key: Key | str, *, mode: Mode | str = Mode.TRAIN, worker: str | None = None,
        optimizer: str | None = None, steps: Collection[int] | None = None,
    ) -> dict[int, NDArray[Any]]:
        """Return the saved tensors of a key by step, in ascending order; {} if none was saved.

        Args:
            key, mode, worker, optimizer: As for `tensor`.
            steps: Only these steps. None: all.

        Raises:
            UnknownWorker, SplitTensor, DamagedChunk: As for `tensor`.
        """
        wanted = wanted_key(key)
        table = self._records.table(wanted_rows(wanted, mode, optimizer), SAVED_COLUMNS, worker)
        rows: dict[int, list[dict[str, Any]]] = {}
        for row in table.filter(table["tensor"]).to_pylist():
            if steps is None or row["step"] in steps:
                rows.setdefault(row["step"], []).append(row)
        return {step: self._saved_tensors.read(rows[step], wanted, step, worker) for step in sorted(rows)}

    def trace(self) -> Trace:
        """Return the data trace: the samples of each published step. Each call reads it again.

        Raises:
            StoreError: The store cannot be read.
        """
        trace = Trace(self.store, self.manifest.run_id, self._records.superseding())
        self._heard.update(dict.fromkeys(trace.damage))
        return trace

    def views(self) -> Iterator[StepView]:
        """Yield every complete step in order, of all attempts."""
        feed = Feed(self.store, clock=self._clock, patient=False)
        more = True
        while more:
            result = feed.poll()
            self._heard.update(dict.fromkeys(result.damage))
            yield from result.views
            more = result.more

    def follow(
        self, *, interval_secs: float = 0.5, away_secs: float = AWAY_SECS, wait: Callable[[float], object] = time.sleep
    ) -> Iterator[StepView]:
        """Yield every step as it becomes complete, until the run ends.

        An unreachable store is retried; no step is lost or repeated.

        Args:
            interval_secs: Polling interval.
            away_secs: How long the store may be unreachable before its error is raised, which ends the iteration. A new
                iteration starts at the first step.
            wait: Sleeps for some seconds.

        Raises:
            StoreUnavailable: The store was unreachable for longer than `away_secs`.
            StoreError: The store refused an operation, and retrying would not help.
        """
        feed = Feed(self.store, clock=self._clock)
        seen_at = self._clock.monotonic()
        while True:
            try:
                result = feed.poll()
            except StoreUnavailable:
                if self._clock.monotonic() - seen_at >= away_secs:
                    raise
                wait(interval_secs)
                continue
            self._heard.update(dict.fromkeys(result.damage))
            yield from result.views
            seen_at = self._clock.monotonic()
            if result.ended:
                return
            if not result.more:
                wait(interval_secs)

    def arrow(
        self,
        kind: Kind | str | None = None,
        path: str | frozenset[str] = "*",
        *,
        mode: Mode | str | None = None,
        worker: str | None = None,
        optimizer: str | None = None,
        start: int | None = None,
        stop: int | None = None,
        columns: Sequence[str] | str | None = None,
    ) -> pa.Table:
        """Return rows as an Arrow table with the columns of `FORMAT.md`, without superseded rows.

        Args:
            kind, path: As for `keys`; a set of paths: only these.
            mode, worker, optimizer, start, stop: As for `series`.
            columns: Only these columns.

        Raises:
            UnknownName: No such kind, mode, optimizer or column.
            UnknownWorker: The worker published nothing.
        """
        columns = (columns,) if isinstance(columns, str) else columns
        for name in columns or ():
            if name not in SCHEMA.names:
                raise UnknownName(f'"{name}" is not a column. {nearest(str(name), SCHEMA.names)}')
        query = wanted_rows(None, mode, optimizer, start, stop)
        tests = list(query.tests)
        if kind is not None:
            tests.append(equals("kind", kind_from_name(kind).value))
        if isinstance(path, frozenset):
            tests.append(is_among("path", path))
        elif path != "*":
            tests.append(TextTest("path", lambda text: fnmatch.fnmatchcase(text, path)))
        table = self._records.table(Query(tests, start, stop), columns or SCHEMA.names, worker)
        if not len(table):
            self._check_optimizer(optimizer)
        return table

    def pandas(self, kind: Kind | str | None = None, path: str = "*", **filters: Any) -> pandas.DataFrame:
        """Return the rows of `arrow` as a pandas DataFrame."""
        return self.arrow(kind, path, **filters).to_pandas()

    def polars(self, kind: Kind | str | None = None, path: str = "*", **filters: Any) -> polars.DataFrame:
        """Return the rows of `arrow` as a polars DataFrame."""
        import polars

        return polars.DataFrame(self.arrow(kind, path, **filters))

    def condensed(self, worker: str) -> Sequence[SeriesBuckets]:
        """Return all plain numbers of a worker as buckets, in consecutive parts; see `Condensed`."""
        return self._condensed.of_worker(worker)

    def condensed_names(self, worker: str) -> Collection[SeriesName]:
        """Return the names of a worker's plain numbers; see `Condensed`."""
        return self._condensed.names_of_worker(worker)

    def buckets(
        self, kind: Kind, paths: frozenset[str], *, worker: str | None = None
    ) -> Mapping[SeriesName, Buckets]:
        """Return plain numbers in buckets, read in one pass; nothing if no file has buckets, or workers are merged.

        Args:
            kind: One of `PLAIN_KINDS`.
            paths: Paths of the series.
            worker: As for `series`.
        """
        if not any(self._records.survey.curves.values()):
            return {}
        query = Query([equals("kind", kind.value), is_among("path", paths)])
        found: dict[SeriesName, Buckets] = {}
        for name in self._unmerged(kind, worker):
            found = each(self._condensed.of_worker(name, query), kind=kind.value, paths=paths) | found
        return found

    def _buckets(
        self, key: Key, query: Query, mode: Mode | str | None, worker: str | None, optimizer: str | None
    ) -> Buckets | None:
        """Return the buckets of a series; None if they cannot be used: it is merged, or does not exist."""
        for name in self._unmerged(key.kind, worker):  # the first that has any of it counts
            parts = self._condensed.of_worker(name, query)
            buckets = only(parts, kind=key.kind, path=key.path, mode=mode, optimizer=optimizer)
            if buckets is None or len(buckets):
                return buckets
        return None

    def _unmerged(self, kind: Kind, worker: str | None) -> list[str]:
        """Return the workers whose numbers of a kind need no merging, ranks first: that one, all, or none."""
        known = self._records.workers() if worker is None else [worker]
        ranks = [name for name in known if group_of(name) == "r"]
        return [] if kind in MERGED_KINDS and len(ranks) > 1 else sorted(known, key=lambda name: name not in ranks)

    def _view(self, query: Query, worker: str | None) -> StepView | None:
        return view_from_rows(_contributing(self._records.by_worker(query, SCHEMA.names, worker)))

    def _check_key(self, key: Key) -> None:
        known = self._records.known_keys()
        if key not in known:
            raise UnknownKey(f"The run has no {key}. {nearest(str(key), map(str, known))}")

    def _check_optimizer(self, optimizer: str | None) -> None:
        known = self._records.known_optimizers() if optimizer is not None else frozenset()
        if not known or optimizer in known:
            return
        names = known - {""}
        which = nearest(str(optimizer), names) if names else "The run has one unnamed optimizer: omit the argument."
        raise UnknownName(f'No optimizer "{optimizer}" made a step. {which}')

    def _not_at(
        self, key: Key, step: int, optimizer: str | None, what: str
    ) -> UnknownKey | UnknownName | UnknownStep:
        try:
            self._check_key(key)
            self._check_optimizer(optimizer)
        except (UnknownKey, UnknownName) as error:
            return error
        return UnknownStep(f"{key} was not {what} at step {step} ({self.url}).")


def _contributing(tables: dict[str, list[pa.Table]]) -> dict[str, list[pa.Table]]:
    """Return the rows of the relevant workers: all ranks, or else the first process."""
    workers = [name for name, parts in tables.items() if any(len(table) for table in parts)]
    ranks = [name for name in workers if group_of(name) == "r"]
    return {name: tables[name] for name in (ranks or workers[:1])}
