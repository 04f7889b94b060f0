"""Summaries of the tensors of a run by worker; tensors split over workers are merged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from barograph.measures.summary import merge
from barograph.model.key import Kind
from barograph.model.summary import MOMENT_FIELDS, Summary
from barograph.runs.reading.reader import RunReader

TENSOR_KINDS = (
    Kind.WEIGHT, Kind.GRADIENT, Kind.GRADIENT_CLIPPED, Kind.UPDATE, Kind.INPUT, Kind.OUTPUT, Kind.OPTIMIZER_STATE,
    Kind.CUSTOM, Kind.BATCH, Kind.TARGET,
)
"""Kinds with summaries."""

_COLUMNS = ("step", "optimizer", "mode", "time", "path", "shard", "whole", *MOMENT_FIELDS, "exponents",
            "exponent_counts")
_COUNTS = ("count", "nan", "posinf", "neginf", "zeros")


class TensorRow(NamedTuple):
    """Summary of one tensor at one step.

    Attributes:
        worker: Worker that recorded it; for a split tensor, the first.
        step, optimizer, mode, path: As in the records.
        time_unix: End of the step.
        summary: The summary.
    """

    worker: str
    step: int
    optimizer: str
    mode: str
    path: str
    time_unix: float
    summary: Summary


def tensor_rows(run: RunReader, kind: Kind, workers: Sequence[str]) -> Iterator[TensorRow]:
    """Yield every summary of a kind by worker. A tensor with a missing part is left out.

    Args:
        run: The run.
        kind: Kind of the tensors.
        workers: Workers to include.
    """
    parts: dict[tuple[int, str, str, str], list[tuple[TensorRow, int]]] = {}
    for worker in workers:
        for batch in run.arrow(kind, worker=worker, columns=_COLUMNS).to_batches():
            # As integers: Python's datetime would depend on the local time zone.
            times = batch["time"].to_numpy(zero_copy_only=False).astype("int64") / 1e6
            for found, time_unix in zip(batch.to_pylist(), times.tolist(), strict=True):
                if found["count"] is None:
                    continue
                row = _row(worker, found, time_unix)
                if found["shard"]:
                    parts.setdefault(row[1:5], []).append((row, found["whole"] or 0))
                else:
                    yield row
    for held in parts.values():
        whole = held[0][1]
        summary = merge(*(row.summary for row, _ in held))
        if summary.count >= whole:
            yield held[0][0]._replace(summary=summary)


def _row(worker: str, found: dict[str, Any], time_unix: float) -> TensorRow:
    moments = {name: int(found[name]) if name in _COUNTS else found[name] for name in MOMENT_FIELDS}
    exponents = dict(zip(found["exponents"] or (), found["exponent_counts"] or (), strict=True))
    return TensorRow(worker, found["step"], found["optimizer"], found["mode"], found["path"], time_unix,
                     Summary(**moments, exponents=exponents))
