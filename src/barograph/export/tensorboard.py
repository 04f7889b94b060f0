"""Export of a run as TensorBoard event files: a directory per mode and, for several workers, per worker below it.

Numbers and statistics of tensors become scalars, histograms stay histograms, findings become texts. Steps superseded
by a resumed training are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from barograph.errors import ExportError
from barograph.export.event_folders import EventFolders
from barograph.export.event_values import NUMBER_KINDS, EventValues, reporting_worker
from barograph.export.tensor_rows import TENSOR_KINDS, tensor_rows
from barograph.model.key import Kind
from barograph.runs.reading.reader import RunReader

_COLUMNS = ("step", "optimizer", "mode", "time", "path", "value")
_BATCH_EVENTS = 50_000


@dataclass(frozen=True, slots=True)
class Exported:
    """Result of an export.

    Attributes:
        run: The run.
        out: Output directory.
        folders: Directory to the number of events in its file.
        scalars, histograms, texts: Number of values of each type.
    """

    run: str
    out: str
    folders: Mapping[str, int]
    scalars: int
    histograms: int
    texts: int

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return asdict(self)


def export_tensorboard(
    run: RunReader, out: Path, *, on_progress: Callable[[int, int], object] = lambda done, of: None
) -> Exported:
    """Write a run as event files, atomically.

    Args:
        run: Run to export.
        out: Output directory. Earlier files of this run are replaced.
        on_progress: Called after each kind of each worker with the number done and the total.

    Raises:
        ExportError: The directory has other events, or the run has nothing to show.
        StoreDenied: The directory cannot be written.
        StoreError: The run cannot be read.
    """
    folders = EventFolders(out, run_id=run.manifest.run_id, began_unix=run.manifest.created_unix)
    try:
        writing = _Writing(run, folders, on_progress)
        writing.write()
        if not folders.events:
            raise ExportError(f"The run has nothing that TensorBoard can show ({run.url}).")
        folders.publish()
    finally:
        folders.close()
    values = writing.values
    return Exported(run.url, str(out), dict(sorted(folders.events.items())), values.scalars, values.histograms,
                    values.texts)


class _Writing:
    def __init__(self, run: RunReader, folders: EventFolders, on_progress: Callable[[int, int], object]) -> None:
        self._run = run
        self._folders = folders
        self._on_progress = on_progress
        published = dict.fromkeys(run.arrow(columns="worker")["worker"].unique().to_pylist())
        self._workers = [name for name in dict.fromkeys(state.worker.name for state in run.workers)
                         if name in published]
        self._waiting: dict[str, list[bytes]] = {}
        self.values = EventValues()

    def write(self) -> None:
        total, done = len(self._workers) * len(NUMBER_KINDS) + len(TENSOR_KINDS), 0
        for worker in self._workers:
            for kind in NUMBER_KINDS:
                self._write_numbers(worker, kind)
                done += 1
                self._on_progress(done, total)
        for kind in TENSOR_KINDS:
            self._write_tensors(kind)
            done += 1
            self._on_progress(done, total)
        for finding in self._run.findings:
            self._put(reporting_worker(finding, self._workers), finding.mode.value, self.values.finding(finding))
        for folder in [*self._waiting]:
            self._flush(folder)

    def _write_numbers(self, worker: str, kind: Kind) -> None:
        table = self._run.arrow(kind, worker=worker, columns=_COLUMNS)
        times = (table["time"].to_numpy().astype("int64") / 1e6).tolist()
        columns = [table[name].to_pylist() for name in _COLUMNS if name != "time"]
        for time_unix, step, optimizer, mode, path, value in zip(times, *columns, strict=True):
            if value is not None:
                self._put(worker, mode, self.values.number(kind, path, optimizer, step, time_unix, value))

    def _write_tensors(self, kind: Kind) -> None:
        for row in tensor_rows(self._run, kind, self._workers):
            self._put(row.worker, row.mode, self.values.tensor(kind, row))

    def _put(self, worker: str, mode: str, event: bytes) -> None:
        folder = mode if len(self._workers) < 2 else f"{worker}/{mode}"
        waiting = self._waiting.setdefault(folder, [])
        waiting.append(event)
        if len(waiting) >= _BATCH_EVENTS:
            self._flush(folder)

    def _flush(self, folder: str) -> None:
        self._folders.write(folder, self._waiting.pop(folder))
