"""Follows a run and appends to its TensorBoard event files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from barograph.export.event_values import NUMBER_KINDS, EventValues, reporting_worker
from barograph.export.lasting_folders import LastingFolders
from barograph.export.restarts import Restart, Restarts, trains
from barograph.export.tensor_rows import TENSOR_KINDS, TensorRow
from barograph.export.tensorboard import Exported
from barograph.measures.summary import merge, summary_from_row
from barograph.model.clock import Clock
from barograph.model.key import Key
from barograph.model.step import Mode
from barograph.model.summary import Summary
from barograph.runs.reading.feed import Feed
from barograph.runs.reading.one_worker import workers_in
from barograph.runs.reading.reader import RunReader
from barograph.runs.reading.view import StepView
from barograph.wire.writing import restart_event


class Turn(NamedTuple):
    """Result of one poll.

    Attributes:
        ended: Whether the run has ended and everything is written.
        more: Whether more can be read at once.
        step: Last written training step; -1 before the first.
    """

    ended: bool
    more: bool
    step: int


class TensorboardFollower:
    """Writes each step of a run once, when it is complete; resumes after a restart.

    Args:
        run: Run to follow.
        out: Output directory. Earlier files of `export_tensorboard` for this run are replaced.
        clock: Clock, for workers without heartbeats.

    Raises:
        ExportError: The directory has other events, or another process follows the run there.
        StoreDenied, StoreFull: The directory cannot be written.

    Attributes:
        damage: What cannot be read, one sentence each.
    """

    def __init__(self, run: RunReader, out: Path, *, clock: Clock | None = None) -> None:
        self._run, self._out = run, out
        self._folders = LastingFolders(out, run_id=run.manifest.run_id, began_unix=run.manifest.created_unix)
        notes = self._folders.notes
        self._values = EventValues()
        self._values.scalars, self._values.histograms, self._values.texts = notes.get("values", (0, 0, 0))
        self._alone: str | None = notes.get("alone")
        self._workers: list[str] = list(notes.get("workers", ()))
        self._restarts = Restarts(notes.get("begun", ()))
        self._findings: dict[str, str] = dict(notes.get("findings", {}))
        self._step = int(notes.get("step", -1))
        self._feed = Feed(run.store, notes.get("cursor"), clock=clock)
        self.damage: list[str] = []

    def turn(self) -> Turn:
        """Write what is new.

        Raises:
            StoreUnavailable: The run is unreachable now; try again.
            StoreError: The run cannot be read.
            ExportError, StoreDenied, StoreFull: The files cannot be written.
        """
        result = self._feed.poll()
        for place, view in enumerate(result.views):
            self._write_view(view, result.views[place:])
        if not result.more:
            self._write_findings()
        self.damage.extend(text for text in result.damage if text not in self.damage)
        values = self._values
        self._folders.save({
            "cursor": result.cursor, "alone": self._alone, "workers": self._workers, "begun": self._restarts.state(),
            "findings": self._findings, "step": self._step, "values": [values.scalars, values.histograms, values.texts],
        })
        return Turn(result.ended, result.more, self._step)

    @property
    def exported(self) -> Exported:
        """What has been written so far, including by earlier processes."""
        values = self._values
        return Exported(self._run.url, str(self._out), dict(sorted(self._folders.events.items())), values.scalars,
                        values.histograms, values.texts)

    def close(self) -> None:
        """Release the directory for other processes."""
        self._folders.close()

    def _write_view(self, view: StepView, coming: Sequence[StepView]) -> None:
        if self._alone is None:
            self._alone = self._who_is_alone()
        self._meet(view)
        restart = self._restarts.at(view, coming)
        if restart is not None:
            self._note_restart(view, restart)
        step = view.step
        if trains(view):
            self._step = step.number
        for worker, rows in view.rows.items():
            for key, value in rows.scalars.items():
                if key.kind in NUMBER_KINDS:
                    event = self._values.number(key.kind, key.path, step.optimizer, step.number, step.time_unix, value)
                    self._put(worker, step.mode, event)
        for worker, key, summary in _tensors(view):
            row = TensorRow(worker, step.number, step.optimizer, step.mode.value, key.path, step.time_unix, summary)
            self._put(worker, step.mode, self._values.tensor(key.kind, row))

    def _who_is_alone(self) -> str:
        """Return the only worker, whose directories are named by mode alone; "" if there are several."""
        self._run.refresh()
        published = workers_in(self._run)
        several = any(state.worker.world_size > 1 for state in self._run.workers)
        return published[0] if len(published) == 1 and not several else ""

    def _meet(self, view: StepView) -> None:
        self._workers.extend(name for name in view.workers if name not in self._workers)

    def _note_restart(self, view: StepView, restart: Restart) -> None:
        """Write a restart mark, which supersedes earlier events of the repeated steps."""
        for worker in view.workers:
            for mode in Mode:
                folder = self._folder(worker, mode)
                if self._folders.has(folder):
                    first = restart.first(mode)
                    again = () if restart.supersedes_all else self._folders.standing(folder, first)
                    self._folders.put(folder, restart_event(view.step.time_unix, first))
                    for event in restart.counting(again, mode):
                        self._folders.put(folder, event)

    def _write_findings(self) -> None:
        for finding in self._run.findings:
            if self._findings.get(finding.id) == finding.state.value:
                continue
            self._findings[finding.id] = finding.state.value
            # Written again when it closes.
            self._put(reporting_worker(finding, self._workers), finding.mode, self._values.finding(finding))

    def _put(self, worker: str, mode: Mode, event: bytes) -> None:
        self._folders.put(self._folder(worker, mode), event)

    def _folder(self, worker: str, mode: Mode) -> str:
        return mode.value if worker in (self._alone, "") else f"{worker}/{mode.value}"


def _tensors(view: StepView) -> Iterator[tuple[str, Key, Summary]]:
    """Yield each tensor with its worker; a split tensor once, with its first worker."""
    parts: dict[Key, tuple[str, int, list[Summary]]] = {}
    for worker, rows in view.rows.items():
        histograms = rows.histograms()
        for row, subject in enumerate(rows.table.subjects):
            if subject.key.kind not in TENSOR_KINDS:
                continue
            summary = summary_from_row(rows.moments[row], None if histograms is None else histograms[row])
            if subject.shard:
                parts.setdefault(subject.key, (worker, subject.whole, []))[2].append(summary)
            else:
                yield worker, subject.key, summary
    for key, (worker, whole, held) in parts.items():
        merged = merge(*held)
        if merged.count >= whole:
            yield worker, key, merged
