"""Comparison of the numbers of two runs: how many are equal, how far others differ, and the first difference.

Under a budget, the recorded steps depend on the time of steps, so only records that both runs have are
compared. Numbers about time or the machine, or that depend on which steps were inspected, are never equal and are
skipped.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from barograph.model.facts import OF_WHAT_WAS_LOOKED_AT
from barograph.model.key import Key, Kind
from barograph.model.summary import MOMENT_FIELDS
from barograph.runs.format.events import DictionaryColumn
from barograph.runs.reading.reader import RunReader
from barograph.runs.reading.shapes import CURVES, differing_shape

_CLOCK_KINDS = frozenset((Kind.TIME, Kind.MACHINE, Kind.VITAL))
_CLOCK = re.compile(
    r"(?:^|[_/.\-])(?:time|secs?|seconds|ms|elapsed|eta|runtime|duration|latency|speed|throughput|fps|mfu|memory|mem|gpu|"
    r"cpu)(?:$|[_/.\-])|per_?sec|per_second|samples_?/s|it_?/s|timestamp", re.IGNORECASE)
_TEXTS = ("worker", "kind", "path", "optimizer", "mode")
_NUMBERS = ("value", *MOMENT_FIELDS)
_COLUMNS = (*_TEXTS, "tick", "step", *_NUMBERS)


@dataclass(frozen=True, slots=True)
class Parting:
    """Two numbers that should be equal.

    Attributes:
        step: Step number.
        mode: Mode of the step.
        optimizer: Optimizer of the step.
        worker: Worker that recorded it.
        key: Key of the record.
        statistic: Name of the number.
        first, second: The number in each run.
    """

    step: int
    mode: str
    optimizer: str
    worker: str
    key: str
    statistic: str
    first: float
    second: float


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Result of comparing the numbers of two runs.

    Attributes:
        compared: Number of records that both have.
        differing: Number of these with a difference in any bit.
        only_in_one: Number of records of losses and logged numbers that only one has.
        parts: The first difference; None: none.
        loss_parts: The first different loss.
        shape: Structural differences, in steps, losses or logged numbers; "": none.
        apart: Largest relative difference of losses, logged numbers and weights; see `side_by_side`.
        apart_key: Key of that difference.
        passed_over: Logged numbers about time or the machine.
    """

    compared: int = 0
    differing: int = 0
    only_in_one: int = 0
    parts: Parting | None = None
    loss_parts: Parting | None = None
    shape: str = ""
    apart: float = 0.0
    apart_key: str = ""
    passed_over: tuple[str, ...] = ()


def side_by_side(first: RunReader, second: RunReader) -> SideBySide:
    """Compare the numbers of two runs.

    The difference of a loss or a logged number is the largest at any step, as a share of the range of the first run's
    values, or of a hundredth of their magnitude if they hardly change. That of a weight is the difference of its norms
    as a share of the first. The difference of NaN and a number is infinite.

    Args:
        first, second: The runs.

    Raises:
        StoreError: A run cannot be read.
    """
    tables = [_table(run) for run in (first, second)]
    rows = _Rows(tables)
    at_first, at_second = rows.common()
    differs = _differ(tables[0], tables[1], at_first, at_second)
    apart, apart_key = _apart(tables, rows, at_first, at_second)
    shape, only_in_one = differing_shape([first, second], tables, len(at_first))
    return SideBySide(
        compared=len(at_first), differing=int(differs.sum()), only_in_one=only_in_one,
        parts=_first_parting(tables, at_first[differs], at_second[differs]),
        loss_parts=_first_parting(tables, *_of_loss(tables[0], at_first[differs], at_second[differs])),
        shape=shape, apart=apart, apart_key=apart_key,
        passed_over=tuple(sorted({path for run in (first, second) for path in _clock_paths(run)})),
    )


def _clock_paths(run: RunReader) -> list[str]:
    return [key.path for key in run.keys(Kind.SCALAR) if _CLOCK.search(key.path)]


def _table(run: RunReader) -> pa.Table:
    table = run.arrow(columns=_COLUMNS)
    for name in _TEXTS:
        table = table.set_column(table.schema.get_field_index(name), name, table[name].cast(pa.string()))
    away = pc.is_in(table["kind"], pa.array(sorted(str(kind) for kind in _CLOCK_KINDS)))
    clocks = pa.array(_clock_paths(run), pa.string())
    away = pc.or_(away, pc.and_(pc.equal(table["kind"], str(Kind.SCALAR)), pc.is_in(table["path"], clocks)))
    facts = pc.list_element(pc.split_pattern(table["path"], "[", max_splits=1), 0)
    looked_at = pa.array(sorted(OF_WHAT_WAS_LOOKED_AT), pa.string())
    away = pc.or_(away, pc.and_(pc.equal(table["kind"], str(Kind.FACT)), pc.is_in(facts, looked_at)))
    return table.filter(pc.invert(away)).combine_chunks()


class _Rows:
    """The rows of both tables under numbers, so that those of one thing at one step have one."""

    def __init__(self, tables: list[pa.Table]) -> None:
        lengths = [len(table) for table in tables]
        codes = [_codes([table[name] for table in tables]) for name in _TEXTS]
        series = _dense(np.stack(codes, axis=1)) if sum(lengths) else np.zeros(0, np.int64)
        steps = np.concatenate([table["step"].to_numpy() for table in tables])
        ticks = np.concatenate([table["tick"].to_numpy() for table in tables])
        which = np.repeat([0, 1], lengths)
        # Several records of one step correspond by their index.
        order = np.lexsort((ticks, steps, series, which))
        keys = np.stack([which[order], series[order], steps[order]], axis=1)
        is_new = np.ones(len(order), bool)
        is_new[1:] = (keys[1:] != keys[:-1]).any(axis=1)
        starts = np.maximum.accumulate(np.where(is_new, np.arange(len(order)), 0))
        turn = np.empty(len(order), np.int64)
        turn[order] = np.arange(len(order)) - starts
        numbers = _dense(np.stack([series, steps, turn], axis=1)) if len(order) else series
        self.series = np.split(series, lengths[:1])
        self._numbers = np.split(numbers, lengths[:1])

    def common(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the indices, in the first and in the second table, of the common records."""
        _, first, second = np.intersect1d(self._numbers[0], self._numbers[1], assume_unique=True, return_indices=True)
        return first, second


def _codes(columns: list[pa.ChunkedArray]) -> NDArray[np.int64]:
    whole = pa.chunked_array([chunk for column in columns for chunk in column.chunks], pa.string())
    encoded = whole.combine_chunks().dictionary_encode()
    column = DictionaryColumn(encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist())
    return column.ranks()[column.codes]


def _dense(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a number for each row: equal rows have the same, and the numbers are in the order of the rows."""
    found = np.zeros(len(rows), np.int64)
    for column in rows.T:  # by column, which takes a fraction of the time of comparing whole rows
        values, codes = np.unique(column, return_inverse=True)
        if len(values) > 1:
            found = np.unique(found * len(values) + codes, return_inverse=True)[1]
    return found


def _differ(
    first: pa.Table, second: pa.Table, at_first: NDArray[np.intp], at_second: NDArray[np.intp]
) -> NDArray[np.bool_]:
    found = np.zeros(len(at_first), bool)
    for name in _NUMBERS:
        found |= ~_same(_column(first, name)[at_first], _column(second, name)[at_second])
    return found


def _same(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.bool_]:
    same: NDArray[np.bool_] = (one == other) | (np.isnan(one) & np.isnan(other))
    return same


def _column(table: pa.Table, name: str) -> NDArray[np.float64]:
    values: NDArray[np.float64] = table[name].cast(pa.float64(), safe=False).to_numpy()
    return values


def _of_loss(
    first: pa.Table, at_first: NDArray[np.intp], at_second: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    is_loss = np.asarray(first["kind"].to_numpy(), dtype=str)[at_first] == str(Kind.LOSS)
    return at_first[is_loss], at_second[is_loss]


_ORDER = {str(kind): place for place, kind in enumerate((
    Kind.LEARNING_RATE, Kind.FACT, Kind.BATCH, Kind.TARGET, Kind.INPUT, Kind.OUTPUT, Kind.LOSS, Kind.SCALAR,
    Kind.GRADIENT, Kind.GRADIENT_CLIPPED, Kind.UPDATE, Kind.WEIGHT))}
"""Order within a step: inputs, computed values, updates."""


def _first_parting(
    tables: list[pa.Table], at_first: NDArray[np.intp], at_second: NDArray[np.intp]
) -> Parting | None:
    if not len(at_first):
        return None
    first, second = tables
    ticks = first["tick"].to_numpy()[at_first]
    soonest = np.flatnonzero(ticks == ticks.min())
    kinds, paths = (first[name].take(pa.array(at_first[soonest])).to_pylist() for name in ("kind", "path"))
    place = min(range(len(soonest)), key=lambda item: (_ORDER.get(kinds[item], len(_ORDER)), paths[item]))
    one, other = int(at_first[soonest[place]]), int(at_second[soonest[place]])
    row = {name: first[name][one].as_py() for name in (*_TEXTS, "step")}
    for name in _NUMBERS:
        here, there = (_number(table[name][at].as_py()) for table, at in ((first, one), (second, other)))
        if not (here == there or (math.isnan(here) and math.isnan(there))):
            break
    return Parting(row["step"], row["mode"], row["optimizer"], row["worker"], str(Key(Kind(row["kind"]), row["path"])),
                   name, here, there)


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _apart(
    tables: list[pa.Table], rows: _Rows, at_first: NDArray[np.intp], at_second: NDArray[np.intp]
) -> tuple[float, str]:
    kinds = np.asarray(tables[0]["kind"].to_numpy(), dtype=str)[at_first] if len(at_first) else np.zeros(0, str)
    series = rows.series[0][at_first]
    worst, worst_at = 0.0, -1
    for kind in (*CURVES, Kind.WEIGHT):
        is_norm = kind is Kind.WEIGHT
        for one in np.unique(series[kinds == str(kind)]).tolist():
            mine = np.flatnonzero(series == one)
            name = "sum_sq" if is_norm else "value"
            here, there = _column(tables[0], name)[at_first[mine]], _column(tables[1], name)[at_second[mine]]
            distance = _distance(np.sqrt(here) if is_norm else here, np.sqrt(there) if is_norm else there,
                                 share_of_size=1.0 if is_norm else 0.01)
            if distance > worst:
                worst, worst_at = distance, int(at_first[mine[0]])
    if worst_at < 0:
        return 0.0, ""
    kind_, path = (tables[0][name][worst_at].as_py() for name in ("kind", "path"))
    return worst, str(Key(Kind(kind_), path))


def _distance(here: NDArray[np.float64], there: NDArray[np.float64], *, share_of_size: float) -> float:
    differing = ~_same(here, there)
    if not differing.any():
        return 0.0
    finite = np.isfinite(here) & np.isfinite(there)
    if not finite[differing].all():
        return math.inf
    values = here[finite]
    scale = max(float(values.max() - values.min()), share_of_size * float(np.abs(values).max()))
    return float(np.abs(here[differing] - there[differing]).max()) / scale if scale else math.inf
