"""Implementation of `barograph export chrome` and `barograph export otel`."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

from barograph.cli.interrupts import Interrupts
from barograph.cli.opening import print_damage, run_at
from barograph.errors import BarographError, EndpointFailed, ExportError, StoreDenied, StoreFull
from barograph.export.chrome_trace import write_trace
from barograph.export.names import Attributes
from barograph.export.otel_metrics import (
    Destination,
    Endpoint,
    JsonFile,
    batches,
    check_installed,
    endpoint_of,
    metrics_of,
)
from barograph.export.readings import Reading, readings_in, readings_of
from barograph.runs.reading.reader import RunReader
from barograph.runs.reading.view import StepView
from barograph.watch.figures import count

SEND_SECS = 1.0
"""Seconds between two batches with --follow."""
AWAY_SECS = 60.0
"""Seconds that an endpoint may refuse data with --follow."""
_MOST_WAITING = 1_000_000


def export_chrome(place: str, out: Path) -> None:
    """Write the run at `place` as a trace.

    Raises:
        ExportError: The run has nothing to put into a trace.
        StoreDenied, StoreFull: The file cannot be written.
        NotARun, NewerFormat, DamagedChunk, StoreError: The run cannot be read.
    """
    run = run_at(place)
    readings = readings_of(run)
    if not readings:
        raise _nothing(run)
    name = run.manifest.name
    with _opened(out) as file:
        events = write_trace(file, readings, run.findings, name=name, url=run.url)
    print(f"Wrote {count(events, 'event')} to {out}. Open it at https://ui.perfetto.dev or chrome://tracing.")
    print_damage(run, place)


class Handed(NamedTuple):
    """Result of an export.

    Attributes:
        numbers: Numbers that were exported.
        interrupted: Ctrl-C came before the run ended.
    """

    numbers: int
    interrupted: bool = False


def export_otel(
    place: str, endpoint: str | None, json_file: Path | None, *, follow: bool,
    wait: Callable[[float], object] = time.sleep,
) -> bool:
    """Export the numbers of the run at `place` as metrics; return whether it was interrupted.

    Raises:
        MissingExtra: OpenTelemetry is not installed.
        EndpointFailed: The endpoint did not accept them.
        ExportError: The run has no numbers.
        SettingsError: No endpoint was given.
        StoreDenied, StoreFull: The file cannot be written.
        NotARun, NewerFormat, DamagedChunk, StoreError: The run cannot be read.
    """
    check_installed()
    address = None if json_file is not None else endpoint_of(endpoint, os.environ)
    run = run_at(place)
    with contextlib.ExitStack() as stack:
        if json_file is not None:
            destination: Destination = JsonFile(stack.enter_context(_opened(json_file)))
        else:
            destination = sender = Endpoint(address or "")
            stack.callback(sender.close)
        where = f"to {json_file or address}"
        if follow:
            print(f"following {run.url} {where}. Ctrl-C stops the export, not the training.", flush=True)
        handed = follow_run(run, destination, wait=wait) if follow else Handed(send_all(run, destination))
    if not handed.numbers and not handed.interrupted:
        raise _nothing(run)
    print(f"{'Wrote' if json_file else 'Sent'} {count(handed.numbers, 'number')} {where}.")
    if handed.interrupted:
        print("Interrupted before the run ended. Running the command again starts at the first step.")
    print_damage(run, place)
    return handed.interrupted


def send_all(run: RunReader, destination: Destination) -> int:
    """Export every number recorded so far; return how many."""
    readings = readings_of(run)
    resources = resources_of(run)
    for batch in batches(readings):
        _send(destination, list(batch), resources)
    return len(readings)


def follow_run(
    run: RunReader, destination: Destination, *, monotonic: Callable[[], float] = time.monotonic,
    wait: Callable[[float], object] = time.sleep,
) -> Handed:
    """Export every number as it is recorded, until the run ends or Ctrl-C; return how many.

    Data that an endpoint refuses is sent again with the next batch, for up to a minute.
    """
    sending = _Sending(run, destination, monotonic)
    try:
        with sending.interrupts:
            for view in run.follow(wait=wait):
                sending.add(view)
            sending.send()
    except KeyboardInterrupt:
        with contextlib.suppress(EndpointFailed):
            sending.end()
        return Handed(sending.accepted, interrupted=True)
    return Handed(sending.accepted)


class _Sending:
    """Exports a running run.

    Attributes:
        accepted: Numbers that were accepted.
        interrupts: Delays Ctrl-C between sending a batch and counting it.
    """

    def __init__(self, run: RunReader, destination: Destination, monotonic: Callable[[], float]) -> None:
        self.accepted = 0
        self.interrupts = Interrupts(ignored=False)
        self._run, self._destination, self._monotonic = run, destination, monotonic
        self._waiting: list[Reading] = []
        self._sent_at = monotonic()
        self._refused_since: float | None = None

    def add(self, view: StepView) -> None:
        """Add the numbers of a step; send the waiting ones if that is due."""
        self._waiting.extend(readings_in(view))
        now = self._monotonic()
        if now - self._sent_at < SEND_SECS or not self._waiting:
            return
        self._sent_at = now
        try:
            self.send()
            self._refused_since = None
        except EndpointFailed:
            self._refused_since = now if self._refused_since is None else self._refused_since
            if now - self._refused_since >= AWAY_SECS:
                raise
            self.interrupts.end_of_poll()
            del self._waiting[: max(0, len(self._waiting) - _MOST_WAITING)]

    def send(self) -> None:
        """Send the waiting numbers in batches."""
        self._run.refresh()
        resources = resources_of(self._run)
        while self._waiting:
            batch = list(next(batches(self._waiting)))
            with self.interrupts.held_back():
                _send(self._destination, batch, resources)
                self.accepted += len(batch)
                del self._waiting[: len(batch)]

    def end(self) -> None:
        """Send the remaining numbers, unless the endpoint refuses them."""
        if self._refused_since is None and not self.interrupts.in_the_middle:
            self.interrupts = Interrupts(ignored=False)
            self.send()


def resources_of(run: RunReader) -> dict[str, Attributes]:
    """Return the OpenTelemetry resource attributes of each worker."""
    name = run.manifest.name or run.manifest.run_id
    return {
        state.worker.name: {
            "service.name": "barograph", "service.instance.id": f"{run.manifest.run_id}/{state.worker.name}",
            "host.name": state.worker.host, "process.pid": state.worker.pid, "barograph.run.id": run.manifest.run_id,
            "barograph.run.name": name, "barograph.worker": state.worker.name,
        }
        for state in run.workers
    }


def _send(destination: Destination, batch: list[Reading], resources: dict[str, Attributes]) -> None:
    metrics = metrics_of(batch, resources)
    if metrics is not None:
        destination.send(metrics)


def _nothing(run: RunReader) -> ExportError:
    return ExportError(f"The run has no losses, times or machine metrics to export ({run.url}).")


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[IO[str]]:
    try:
        with path.open("w", encoding="utf-8") as file:
            yield file
    except OSError as error:
        if isinstance(error, BarographError):
            raise
        kind = StoreFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else StoreDenied
        raise kind(f"Cannot write {path}: {error.strerror}.") from error
