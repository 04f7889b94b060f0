"""Which worker's records are shown: one worker that trained by itself, or all ranks merged."""

from __future__ import annotations

from barograph.runs.reading.one_worker import OneWorker, default_worker, workers_in
from barograph.runs.reading.reader import RunReader


def chosen(run: RunReader, worker: str | None = None) -> tuple[RunReader, str | None]:
    """Return the run as one worker recorded it, and that worker; the run itself and None if all are merged.

    Args:
        run: The run.
        worker: Name of a worker. None: the first of several independent processes; otherwise all merged.

    Raises:
        UnknownWorker: There is no such worker.
    """
    shown = worker if worker is not None else default_worker(run)
    return (OneWorker(run.store, shown) if shown is not None else run), shown


def figures_of(run: RunReader, shown: str | None) -> str:
    """Return which worker's figures are shown, and which others there are; "" if all are merged or there is one."""
    others = [name for name in workers_in(run) if name != shown] if shown is not None else []
    return f"of {shown}; also {', '.join(others)}: --worker {others[0]}" if others else ""
