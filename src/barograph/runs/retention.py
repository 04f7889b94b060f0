"""Keeping a run within its limits: the oldest files of a worker go, and a note says so before they do."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence

import pyarrow as pa

from barograph.errors import DamagedChunk, ObjectNotFound
from barograph.model.manifest import Worker
from barograph.runs.events import read_table
from barograph.runs.layout import RECORDS, RETENTION, TENSORS, paper_name
from barograph.runs.outbox import Published
from barograph.runs.papers import sealed
from barograph.runs.proof import proved
from barograph.runs.survey import surveyed
from barograph.store.base import Store


def beyond_limits(files: Sequence[Published], *, keep_last: int | None, max_bytes: int | None) -> Sequence[Published]:
    """Return the oldest files that are to go. The newest file always stays.

    Args:
        files: Of one worker, in order.
        keep_last: Steps of each optimizer to keep; a file goes when all its steps are older. None: all.
        max_bytes: Bytes of records and tensors to keep. None: all.
    """
    newest: dict[str, int] = {}
    for file in files:
        if file.name.attempt < files[-1].name.attempt:
            continue  # a later attempt may have gone back to an earlier step
        for optimizer, step in file.last_steps.items():
            newest[optimizer] = max(step, newest.get(optimizer, 0))
    kept_bytes = sum(file.total_bytes for file in files)
    gone = 0
    for file in files[:-1]:
        too_old = keep_last is not None and all(
            newest.get(optimizer, step) - step >= keep_last for optimizer, step in file.last_steps.items()
        )
        if not too_old and (max_bytes is None or kept_bytes <= max_bytes):
            break
        kept_bytes -= file.total_bytes
        gone += 1
    return files[:gone]


def files_of_earlier_attempts(store: Store, worker: Worker) -> list[Published]:
    """Return what a worker of this name published in earlier attempts; damaged files are passed over.

    Raises:
        StoreError: The store cannot be read.
    """
    found = surveyed([*store.list(f"{RECORDS}/{worker.name}"), *store.list(f"{TENSORS}/{worker.name}")])
    earlier: list[Published] = []
    for (attempt, name), files in found.chunks.items():
        if attempt < worker.attempt:
            tensors = [(item, found.size_bytes[str(item)]) for item in found.tensors.get((attempt, name), ())]
            for file in files:
                mine = tuple(item for item in tensors if file.first <= item[0].chunk <= file.last)
                with contextlib.suppress(DamagedChunk, ObjectNotFound):
                    table = read_table(proved(store, str(file), file.digest), str(file))
                    size_bytes = found.size_bytes[str(file)]
                    earlier.append(Published(file, size_bytes, len(table), mine, _last_steps(table)))
    return earlier


def _last_steps(table: pa.Table) -> dict[str, int]:
    last = table.group_by("optimizer").aggregate([("step", "max")])
    return dict(zip(last["optimizer"].to_pylist(), last["step_max"].to_pylist(), strict=True))


def note_removal(store: Store, worker: Worker, files: Iterable[Published]) -> None:
    """Write down which chunks are about to go; then the files may be deleted.

    Raises:
        StoreError: The store does not do what is asked; trying again is safe.
    """
    through = {file.name.attempt: file.name.last for file in files}
    for attempt, last in through.items():
        body = {"worker": worker.name, "attempt": attempt, "removed_through_chunk": last}
        store.put(paper_name(RETENTION, worker.name, attempt), sealed(body))
