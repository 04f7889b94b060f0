"""Keeping a run within its limits: the oldest files of a worker go, and a note says so before they do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from barograph.model.manifest import Worker
from barograph.runs.layout import RETENTION, paper_name
from barograph.runs.outbox import Published
from barograph.runs.papers import sealed
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
        for optimizer, step in file.last_steps.items():
            newest[optimizer] = max(step, newest.get(optimizer, 0))
    kept_bytes = sum(file.total_bytes for file in files)
    gone = 0
    for file in files[:-1]:
        too_old = keep_last is not None and all(
            newest[optimizer] - step >= keep_last for optimizer, step in file.last_steps.items()
        )
        if not too_old and (max_bytes is None or kept_bytes <= max_bytes):
            break
        kept_bytes -= file.total_bytes
        gone += 1
    return files[:gone]


def note_removal(store: Store, worker: Worker, files: Iterable[Published]) -> None:
    """Write down which chunks are about to go; then the files may be deleted.

    Raises:
        StoreError: The store does not do what is asked; trying again is safe.
    """
    through = {file.name.attempt: file.name.last for file in files}
    for attempt, last in through.items():
        body = {"worker": worker.name, "attempt": attempt, "removed_through_chunk": last}
        store.put(paper_name(RETENTION, worker.name, attempt), sealed(body))
