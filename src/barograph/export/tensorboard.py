"""A run as event files for TensorBoard: a folder for each mode, and below one for each worker where there are several.

Plain numbers and statistics of tensors are scalars, histograms are histograms, findings are texts. What a resumed
training superseded is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from barograph.errors import ExportError
from barograph.export.event_folders import EventFolders
from barograph.export.event_values import NUMBER_KINDS, EventValues, speaker
from barograph.export.tensor_rows import TENSOR_KINDS, tensor_rows
from barograph.model.key import Kind
from barograph.runs.reading.reader import Run

_COLUMNS = ("step", "optimizer", "mode", "time", "path", "value")
_BATCH_EVENTS = 50_000


@dataclass(frozen=True, slots=True)
class Exported:
    """What was written.

    Attributes:
        run: The run.
        out: Where the folders are.
        folders: Folder to how many events its file has.
        scalars, histograms, texts: How many values of each sort.
    """

    run: str
    out: str
    folders: Mapping[str, int]
    scalars: int
    histograms: int
    texts: int

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON data."""
        return asdict(self)


def export_tensorboard(
    run: Run, out: Path, *, on_progress: Callable[[int, int], object] = lambda done, of: None
) -> Exported:
    """Write a run as event files; all of them, or nothing.

    Args:
        run: Which.
        out: Folder to write to. Files that were written of this run before are replaced.
        on_progress: Told after each kind of each worker how many there were, and of how many.

    Raises:
        ExportError: The folder holds other events, or the run nothing to show.
        StoreDenied: It cannot be written.
        StoreError: The run cannot be read.
    """
    folders = EventFolders(out, run_id=run.manifest.run_id, began_unix=run.manifest.created_unix)
    try:
        writing = _Writing(run, folders, on_progress)
        writing.write()
        if not folders.events:
            raise ExportError(f"The run holds nothing that TensorBoard could show ({run.url}).")
        folders.publish()
    finally:
        folders.close()
    values = writing.values
    return Exported(run.url, str(out), dict(sorted(folders.events.items())), values.scalars, values.histograms,
                    values.texts)


class _Writing:
    def __init__(self, run: Run, folders: EventFolders, on_progress: Callable[[int, int], object]) -> None:
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
            self._put(speaker(finding, self._workers), finding.mode.value, self.values.finding(finding))
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
