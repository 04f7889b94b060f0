"""Structural differences of two runs: steps, and losses and logged numbers that only one has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from barograph.model.key import Key, Kind
from barograph.runs.reading.reader import RunReader
from barograph.runs.reading.roster import WorkerState

CURVES = (Kind.LOSS, Kind.SCALAR)
"""Kinds of series: losses and logged numbers."""


def differing_shape(runs: Sequence[RunReader], tables: Sequence[pa.Table], common: int) -> tuple[str, int]:
    """Return the structural differences of two runs ("" if none), and the number of curve records that only one has.

    Args:
        runs: Both runs.
        tables: Their records, with strings for worker, kind, path, optimizer and mode.
        common: Number of records that both have.

    Raises:
        StoreError: A run cannot be read.
    """
    first, second = (_curves(table) for table in tables)
    workers = [_workers(run) for run in runs]
    whole = all(state.last is None or state.last.coverage.complete for known in workers for state in known.values())
    alone = [f"only the {which} run has {key}" for which, keys in (
        ("first", sorted(first.keys() - second.keys())), ("second", sorted(second.keys() - first.keys())))
        for key in keys if whole or key.startswith(f"{Kind.SCALAR}:") or not (first and second)]
    other = _other_steps(*workers)
    if whole and not other:
        # Under a budget, the last recorded step depends on the time of steps.
        ends = [_last_steps(table) for table in tables]
        other = [f"{_series_in_words(which)}: last step {ends[0][which]} in the first run, {ends[1][which]} in the "
        "second" for which in sorted(ends[0].keys() & ends[1].keys()) if ends[0][which] != ends[1][which]]
    missing = sum(abs(first.get(key, 0) - second.get(key, 0)) for key in {*first, *second})
    if common == 0 and not (alone or other):
        return "the runs have no records in common", missing
    return "; ".join([*other[:2], *alone[:3]]), missing


def _workers(run: RunReader) -> dict[str, WorkerState]:
    """Return workers by name, each from its last attempt."""
    return {state.worker.name: state for state in sorted(run.workers, key=lambda state: state.worker.attempt)}


def _other_steps(first: Mapping[str, WorkerState], second: Mapping[str, WorkerState]) -> list[str]:
    """Return the differences of finished workers in the number of steps."""
    made = [{name: state.ending.last.step for name, state in known.items() if state.ending}
            for known in (first, second)]
    return [f"{name} made {made[0][name]:,} steps in the first run, {made[1][name]:,} in the second"
            for name in sorted(made[0].keys() & made[1].keys()) if made[0][name] != made[1][name]]


def _curves(table: pa.Table) -> dict[str, int]:
    kept = table.filter(pc.is_in(table["kind"], pa.array([str(kind) for kind in CURVES])))
    counted = Counter(zip(kept["kind"].to_pylist(), kept["path"].to_pylist(), strict=True))
    return {str(Key(Kind(kind), path)): count for (kind, path), count in counted.items()}


def _last_steps(table: pa.Table) -> dict[tuple[str, str, str], int]:
    grouped = table.group_by(["worker", "optimizer", "mode"]).aggregate([("step", "max")])
    return {(row["worker"], row["optimizer"], row["mode"]): row["step_max"] for row in grouped.to_pylist()}


def _series_in_words(which: tuple[str, str, str]) -> str:
    worker, optimizer, mode = which
    return " ".join([worker, mode, *([f"of {optimizer}"] if optimizer else [])])
