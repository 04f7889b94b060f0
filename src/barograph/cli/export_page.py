"""What `barograph export` does: opens the run, hands it on, and says how much that was."""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from barograph.cli.opening import run_at, tell_damage
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
from barograph.runs.reader import Run
from barograph.watch.figures import count

SEND_SECS = 1.0
"""Time between two batches of a run that is followed."""
AWAY_SECS = 60.0
"""How long an endpoint may refuse while a run is followed."""
_MOST_WAITING = 1_000_000


def export_chrome(place: str, out: Path) -> None:
    """Write the run at `place` as a trace, and say so.

    Raises:
        ExportError: The run holds nothing that a trace could show.
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
    print(f"{count(events, 'event')} in {out}. Open it at https://ui.perfetto.dev or chrome://tracing.")
    tell_damage(run, place)


def export_otel(place: str, endpoint: str | None, json_file: Path | None, *, follow: bool) -> None:
    """Hand the numbers of the run at `place` on as metrics, and say how many.

    Raises:
        MissingExtra: OpenTelemetry is not installed.
        EndpointFailed: The endpoint did not take them.
        ExportError: The run holds none.
        SettingsError: Nothing says where to send them.
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
        told = follow_run(run, destination) if follow else send_all(run, destination)
    if not told:
        raise _nothing(run)
    print(f"{count(told, 'number')} {'in' if json_file else 'to'} {json_file or address}.")
    tell_damage(run, place)


def send_all(run: Run, destination: Destination) -> int:
    """Hand on every number there is by now; return how many."""
    readings = readings_of(run)
    resources = resources_of(run)
    for batch in batches(readings):
        _send(destination, list(batch), resources)
    return len(readings)


def follow_run(
    run: Run, destination: Destination, *, monotonic: Callable[[], float] = time.monotonic,
    wait: Callable[[float], object] = time.sleep,
) -> int:
    """Hand on every number as it is recorded, until the run has ended; return how many.

    What an endpoint does not take is offered again with what came since, for a minute.
    """
    waiting: list[Reading] = []
    told = 0
    sent_at = monotonic()
    refused_since: float | None = None
    for view in run.follow(wait=wait):
        waiting.extend(readings_in(view))
        now = monotonic()
        if now - sent_at < SEND_SECS or not waiting:
            continue
        sent_at = now
        try:
            told += _offer(run, destination, waiting)
            refused_since = None
        except EndpointFailed:
            refused_since = now if refused_since is None else refused_since
            if now - refused_since >= AWAY_SECS:
                raise
            del waiting[: max(0, len(waiting) - _MOST_WAITING)]
    return told + _offer(run, destination, waiting)


def resources_of(run: Run) -> dict[str, Attributes]:
    """Return what is known of each worker, by OpenTelemetry's names."""
    name = run.manifest.name or run.manifest.run_id
    return {
        state.worker.name: {
            "service.name": "barograph", "service.instance.id": f"{run.manifest.run_id}/{state.worker.name}",
            "host.name": state.worker.host, "process.pid": state.worker.pid, "barograph.run.id": run.manifest.run_id,
            "barograph.run.name": name, "barograph.worker": state.worker.name,
        }
        for state in run.workers
    }


def _offer(run: Run, destination: Destination, waiting: list[Reading]) -> int:
    """Hand on what waits, a batch at a time; what was taken waits no more."""
    run.refresh()
    resources = resources_of(run)
    told = 0
    while waiting:
        batch = list(next(batches(waiting)))
        _send(destination, batch, resources)
        told += len(batch)
        del waiting[: len(batch)]
    return told


def _send(destination: Destination, batch: list[Reading], resources: dict[str, Attributes]) -> None:
    metrics = metrics_of(batch, resources)
    if metrics is not None:
        destination.send(metrics)


def _nothing(run: Run) -> ExportError:
    return ExportError(f"The run holds no losses, times or figures of the machine to hand on ({run.url}).")


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[IO[str]]:
    try:
        with path.open("w", encoding="utf-8") as file:
            yield file
    except OSError as error:
        if isinstance(error, BarographError):
            raise
        kind = StoreFull if error.errno in (errno.ENOSPC, errno.EDQUOT) else StoreDenied
        raise kind(f"{path} cannot be written: {error.strerror}.") from error
