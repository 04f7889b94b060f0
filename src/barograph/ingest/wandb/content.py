"""Merged contents of the logs of a Weights & Biases run; a resumed run has several."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from barograph.errors import DamagedSource, ImportFailed
from barograph.ingest.trackers.foreign import ForeignSeries
from barograph.ingest.wandb.messages import (
    ARTIFACT,
    CONFIG,
    DEEPEST,
    ENVIRONMENT,
    EXIT,
    HISTORY,
    RUN,
    STATS,
    SUMMARY,
    USE_ARTIFACT,
    items_in,
    kind_and_body,
    message_in,
    real_from,
    texts_in,
    time_in,
    whole_in,
)
from barograph.wire.leveldb_log import HEADER, LogFault, is_log, log_records_in

_MOST_DAMAGE = 20
_OWN = "_"
"""Prefix of Weights & Biases' own values."""


@dataclass(slots=True)
class Content:
    """A run, read from its logs.

    Attributes:
        run: Strings of its last run message, by field number.
        remote, commit: Code.
        environment: Strings of environment messages.
        started_unix, last_unix: Start time and last known time; 0.0: unknown.
        config, summary: Values by name, nested.
        exit_code: None: it has not ended, or its end was not written.
        artifacts: Strings of artifact messages, with whether the run wrote the artifact.
        points: Metric to steps, times and values.
        machine: The same for system metrics.
        damage: Damage, one sentence each.
    """

    run: dict[int, list[str]] = field(default_factory=dict)
    remote: str = ""
    commit: str = ""
    environment: dict[int, list[str]] = field(default_factory=dict)
    started_unix: float = 0.0
    last_unix: float = 0.0
    config: dict[str, Any] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    exit_code: int | None = None
    artifacts: list[tuple[bool, dict[int, list[str]]]] = field(default_factory=list)
    points: dict[str, tuple[array[int], array[float], array[float]]] = field(default_factory=dict)
    machine: dict[str, tuple[array[int], array[float], array[float]]] = field(default_factory=dict)
    damage: list[str] = field(default_factory=list)
    _step: int = 0

    @property
    def series(self) -> dict[str, ForeignSeries]:
        """Metrics by name."""
        found = {name: _series(points) for name, points in self.points.items()}
        for name, points in self.machine.items():
            while name in found:
                name += "_"
            found[name] = _series(points)._replace(of_machine=True)
        return found

    def add(self, path: Path, *, with_numbers: bool) -> None:
        """Read a log.

        Args:
            path: Path of the file.
            with_numbers: Also read the histories of metrics, which are most of it.

        Raises:
            ImportFailed: It is not a Weights & Biases log, or cannot be read.
        """
        try:
            with path.open("rb") as file:
                if not is_log(file.read(HEADER.size)):
                    raise ImportFailed(f"Not a Weights & Biases log: the header is wrong ({path}).")
                file.seek(0)
                for record in log_records_in(file):
                    if isinstance(record, LogFault):
                        self._note(record.reason, record.start, path, normal=record.at_end)
                        continue
                    try:
                        self._take(memoryview(record.payload), with_numbers)
                    except DamagedSource as error:
                        self._note(f"a record is invalid: {error}", record.start, path)
        except OSError as error:
            raise ImportFailed(f"Cannot read a Weights & Biases log: {error.strerror} ({path}).") from error

    def _note(self, reason: str, start: int, path: Path, *, normal: bool = False) -> None:
        # A killed or active process leaves a partial record; the missing end says enough.
        if not normal and len(self.damage) < _MOST_DAMAGE:
            self.damage.append(f"Lost a record at byte {start:,}: {reason} ({path}).")

    def _take(self, record: memoryview, with_numbers: bool) -> None:
        kind, body = kind_and_body(record)
        if kind == HISTORY and with_numbers:
            self._take_history(body)
        elif kind == STATS and with_numbers:
            self._take_stats(body)
        elif kind == RUN:
            self._take_run(body)
        elif kind in (CONFIG, SUMMARY):
            table = self.config if kind == CONFIG else self.summary
            for item in items_in(body, 1):
                _put(table, item.path, item.value)
            for item in items_in(body, 2):
                _remove(table, item.path)
        elif kind == ENVIRONMENT:
            self.environment.update(texts_in(body))
            code = texts_in(message_in(body, 9))
            self.remote, self.commit = code.get(1, [self.remote])[0], code.get(2, [self.commit])[0]
        elif kind in (ARTIFACT, USE_ARTIFACT):
            self.artifacts.append((kind == ARTIFACT, texts_in(body)))
        elif kind == EXIT:
            self.exit_code = whole_in(body, 1)

    def _take_run(self, body: memoryview) -> None:
        self.run.update(texts_in(body))
        self.exit_code = None
        self.started_unix = self.started_unix or time_in(body, 17)
        for item in items_in(message_in(body, 4), 1):
            _put(self.config, item.path, item.value)
        code = texts_in(message_in(body, 21))
        self.remote, self.commit = code.get(1, [self.remote])[0], code.get(2, [self.commit])[0]

    def _take_history(self, body: memoryview) -> None:
        items = list(items_in(body, 1))
        values = {item.path[0]: item.value for item in items if len(item.path) == 1}
        step, time_unix = values.get("_step"), values.get("_timestamp")
        self._step = step if isinstance(step, int) else whole_in(message_in(body, 2), 1)
        when = real_from(time_unix) if isinstance(time_unix, int | float) else self.last_unix
        self.last_unix = max(self.last_unix, when) if when == when else self.last_unix
        # Media parts are logged separately, and recognized when merged.
        table: dict[str, Any] = {}
        for item in items:
            if not item.path[0].startswith(_OWN):
                _put(table, item.path, item.value)
        for path, value in leaves(table):
            if isinstance(value, bool | int | float):
                self._add_point(".".join(path), when, value)

    def _take_stats(self, body: memoryview) -> None:
        when = time_in(body, 2)
        for item in items_in(body, 3):
            if isinstance(item.value, int | float):
                self._add_point(item.path[0], when, item.value, of_machine=True)

    def _add_point(self, name: str, when: float, value: float, *, of_machine: bool = False) -> None:
        points = self.machine if of_machine else self.points
        steps, times, values = points.setdefault(name, (array("q"), array("d"), array("d")))
        try:
            steps.append(self._step)
        except OverflowError:
            raise DamagedSource("a step exceeds 64 bits") from None
        times.append(when)
        values.append(real_from(value))


def _series(points: tuple[array[int], array[float], array[float]]) -> ForeignSeries:
    steps, times, values = points
    return ForeignSeries(np.array(steps, np.int64), np.array(times), np.array(values))


def leaves(table: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the values of nested dictionaries with their paths; a dictionary with a `_type` is one value.

    Example:
        >>> list(leaves({"a": {"b": 1}, "image": {"_type": "image-file", "width": 4}}))
        [(('a', 'b'), 1), (('image',), {'_type': 'image-file', 'width': 4})]
    """
    for name, value in table.items():
        if isinstance(value, Mapping) and "_type" not in value and len(path) < DEEPEST:
            yield from leaves(value, (*path, str(name)))
        else:
            yield (*path, str(name)), value


def _put(table: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    for name in path[:-1]:
        below = table.get(name)
        if not isinstance(below, dict):
            below = table[name] = {}
        table = below
    table[path[-1]] = value


def _remove(table: dict[str, Any], path: tuple[str, ...]) -> None:
    for name in path[:-1]:
        below = table.get(name)
        if not isinstance(below, dict):
            return
        table = below
    table.pop(path[-1], None)
