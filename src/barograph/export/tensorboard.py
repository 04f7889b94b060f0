"""A run as event files for TensorBoard: a folder for each mode, and below one for each worker where there are several.

Plain numbers and statistics of tensors are scalars, histograms are histograms, findings are texts. What a resumed
training superseded is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from barograph.errors import ExportError
from barograph.export.event_buckets import buckets_of
from barograph.export.event_folders import EventFolders
from barograph.export.tensor_rows import TENSOR_KINDS, tensor_rows
from barograph.model.finding import Finding
from barograph.model.key import Kind
from barograph.model.summary import Summary
from barograph.runs.reader import Run
from barograph.wire.writing import histogram, scalar, summary_event, tagged, text

NUMBER_KINDS = (Kind.LOSS, Kind.LEARNING_RATE, Kind.SCALAR, Kind.TIME, Kind.MACHINE, Kind.IMPORTANCE, Kind.TREE)
"""Kinds that are plain numbers over time and say something as a curve."""

STATISTICS: Mapping[str, Callable[[Summary], float]] = {
    name: attrgetter(name) for name in ("mean", "std", "l2", "mean_abs", "min", "max", "sparsity", "nonfinite")
}
"""Of a tensor, each a scalar of its own."""

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
    return Exported(run.url, str(out), dict(sorted(folders.events.items())), writing.scalars, writing.histograms,
                    writing.texts)


class _Writing:
    def __init__(self, run: Run, folders: EventFolders, on_progress: Callable[[int, int], object]) -> None:
        self._run = run
        self._folders = folders
        self._on_progress = on_progress
        published = dict.fromkeys(run.arrow(columns="worker")["worker"].unique().to_pylist())
        self._workers = [name for name in dict.fromkeys(state.worker.name for state in run.workers)
                         if name in published]
        self._waiting: dict[str, list[bytes]] = {}
        self.scalars = self.histograms = self.texts = 0

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
            self._write_finding(finding)
        for folder in [*self._waiting]:
            self._flush(folder)

    def _write_numbers(self, worker: str, kind: Kind) -> None:
        table = self._run.arrow(kind, worker=worker, columns=_COLUMNS)
        times = (table["time"].to_numpy().astype("int64") / 1e6).tolist()
        tags: dict[tuple[str, str], bytes] = {}
        columns = [table[name].to_pylist() for name in _COLUMNS if name != "time"]
        for time_unix, step, optimizer, mode, path, value in zip(times, *columns, strict=True):
            if value is None:
                continue
            tag = tags.get((path, optimizer))
            if tag is None:
                tag = tags[path, optimizer] = tagged(_named(f"{kind.value}/{path}", optimizer), "scalars")
            self._put(worker, mode, summary_event(time_unix, step, [scalar(tag, value)]))
            self.scalars += 1

    def _write_tensors(self, kind: Kind) -> None:
        for row in tensor_rows(self._run, kind, self._workers):
            name = _named(f"{kind.value}/{row.path}", row.optimizer)
            summary = row.summary
            values = [
                scalar(tagged(f"{name}/{statistic}", "scalars"), measure(summary))
                for statistic, measure in STATISTICS.items()
            ]
            self.scalars += len(values)
            buckets = buckets_of(summary)
            if len(buckets):
                values.append(histogram(tagged(name, "histograms"), buckets))
                self.histograms += 1
            self._put(row.worker, row.mode, summary_event(row.time_unix, row.step, values))

    def _write_finding(self, finding: Finding) -> None:
        # The group of ranks has no records of its own: the first of them speaks.
        of_group = [name for name in self._workers if name.startswith(finding.worker)]
        worker = finding.worker if finding.worker in self._workers else next(iter(of_group or self._workers), "")
        tag = tagged(_named(f"findings/{finding.code} {finding.rule}", finding.optimizer), "text")
        event = summary_event(finding.opened_unix, finding.opened_step, [text(tag, "\n\n".join(_said(finding)))])
        self._put(worker, finding.mode.value, event)
        self.texts += 1

    def _put(self, worker: str, mode: str, event: bytes) -> None:
        folder = mode if len(self._workers) < 2 else f"{worker}/{mode}"
        waiting = self._waiting.setdefault(folder, [])
        waiting.append(event)
        if len(waiting) >= _BATCH_EVENTS:
            self._flush(folder)

    def _flush(self, folder: str) -> None:
        self._folders.write(folder, self._waiting.pop(folder))


def _named(name: str, optimizer: str) -> str:
    """Return a tag that tells the series of several optimizers apart."""
    return f"{name} ({optimizer})" if optimizer else name


def _said(finding: Finding) -> Iterator[str]:
    yield f"**{finding.severity.value}** · {finding.message}"
    yield f"What to do: {finding.remedy}"
    for item in finding.evidence:
        yield f"Step {item.step}: {f'{item.key} ' if item.key else ''}{item.statistic} {item.value:.6g}. {item.text}"
    if finding.closed_step is not None:
        yield f"Over since step {finding.closed_step}."
