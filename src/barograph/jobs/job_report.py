"""Jobs as commands, Python and the web UI show them: computed here, rendered there."""

from __future__ import annotations

import contextlib
import math
import shutil
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from barograph.errors import BarographError, DamagedChunk, NotARun, ObjectNotFound, StoreUnavailable
from barograph.jobs.cost import Bill, Interval, bill
from barograph.jobs.engines.engine import is_elsewhere
from barograph.jobs.home import DamagedRecord, JobRecord, JobsHome
from barograph.jobs.job_log import EVENTS, NOW, EventLog, instance_folder
from barograph.jobs.silence import limit_secs
from barograph.jobs.state import JobState, Phase, state_after
from barograph.jobs.submission import Submission, read_submission
from barograph.model.plain import plain
from barograph.runs.format.metadata import unsealed
from barograph.runs.state.claim import workers_of
from barograph.runs.state.vitals import last_heartbeat_of
from barograph.store.base import Store
from barograph.store.failures import NO_SPACE
from barograph.store.files import FileStore
from barograph.store.urls import store_from_url
from barograph.watch.figures import duration

_ROOM_BYTES = 4096
"""A disk with less has no room for an event."""
_SILENT_SECS = 30.0
"""An agent reports every two seconds."""
_DOING = ("preparing", "downloading", "training", "uploading")


@dataclass(frozen=True, slots=True)
class JobReport:
    """One job.

    Attributes:
        name: Its name.
        url: Its store, which is also that of its run.
        phase: What it is doing, or how it ended; None if it cannot be read.
        doing: What its first instance is doing: "starting", "preparing", "downloading", "training",
            "uploading", "stopping"; "" if none runs. Of a job that cannot be read: "damaged" or "unreadable".
        reason: Why it waits, or why it ended; why it cannot be read.
        command: What it runs.
        engine: Where.
        instances: How many instances it has.
        attempt: The current or last attempt, from 0; -1 before the first.
        submitted_unix: Time of submission.
        ended_unix: Time of its end; NaN while it goes on.
        waited_secs: Time without instances so far.
        trained_secs: Time with instances so far.
        step: Optimizer steps so far.
        loss: Last loss; None if none was recorded.
        interruptions: Attempts that ended because an instance was taken away or lost.
        repeated_steps: Steps that were made again, as far as known.
        exit_code: Exit code of its script; None if unknown.
        users_fault: Whether it failed by its script or what was given to it.
        done_bytes, total_bytes: How much of the data has arrived while it is downloaded; 0 otherwise.
        bill: Instance hours, and their cost if the prices are known; None before the first instance.
    """

    name: str
    url: str
    phase: Phase | None
    doing: str = ""
    reason: str = ""
    command: tuple[str, ...] = ()
    engine: str = ""
    instances: int = 0
    attempt: int = -1
    submitted_unix: float = math.nan
    ended_unix: float = math.nan
    waited_secs: float = 0.0
    trained_secs: float = 0.0
    step: int = 0
    loss: float | None = None
    interruptions: int = 0
    repeated_steps: int = 0
    exit_code: int | None = None
    users_fault: bool = False
    done_bytes: int = 0
    total_bytes: int = 0
    bill: Bill | None = None

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.phase is not None and self.phase.is_over

    def to_json(self) -> dict[str, Any]:
        """Return it as strict JSON data."""
        data: dict[str, Any] = plain(self)
        return data


class JobView:
    """Follows one job through its store.

    Args:
        name: Name of the job.
        store: Its store.

    Raises:
        NotARun, DamagedChunk, StoreError: The job cannot be read.
    """

    def __init__(self, name: str, store: Store) -> None:
        self.name, self.store = name, store
        self.submission: Submission = read_submission(store)
        self._log = EventLog(store, EVENTS)
        self._doing: tuple[int, EventLog] | None = None
        self._word = ""
        self.state = JobState()

    def refresh(self) -> JobState:
        """Read what has happened, and return the state of the job.

        Raises:
            DamagedChunk: One of its events is damaged, and how it ended is unknown.
            StoreError: The store cannot be read.
        """
        self.state = state_after(self._log.new(), self.state)
        if self.state.damaged and not self.state.phase.is_over:
            raise DamagedChunk(f"An event of the job {self.name} is damaged: its checksum does not match "
                               f"({self.store.url}/{self.state.damaged}).")
        return self.state

    def latest(self) -> JobState:
        """Return the state of the job as `refresh`; the last one that is known while the store is unreachable."""
        try:
            return self.refresh()
        except StoreUnavailable:
            return self.state

    def report(self) -> JobReport:
        """Return the job as it is now; errors as `refresh`."""
        state, spec = self.refresh(), self.submission.spec
        now = time.time()
        runs = state.phase in (Phase.RUNNING, Phase.STOPPING)
        trained = state.trained_secs + (max(0.0, now - state.since_unix) if runs else 0.0)
        ended = state.since_unix if state.phase.is_over else math.nan
        workers = [beat for worker in workers_of(self.store, state.attempt)
                 if (beat := last_heartbeat_of(self.store, worker)) is not None] if state.attempt >= 0 else []
        lead = max(workers, key=lambda worker: worker.step, default=None)
        doing = "stopping" if state.phase is Phase.STOPPING else self._what_it_does() if runs else ""
        heartbeat = self._heartbeat() if runs else {}
        downloads = doing == "downloading"
        return JobReport(
            self.name, self.store.url, state.phase, doing,
            state.reason or (self._why_it_waits(heartbeat) if runs else "") or (
                _silence(heartbeat, state, now) if 0 in state.open_instances else ""),
            spec.shown, spec.engine, spec.instances, state.attempt, state.submitted_unix, ended,
            max(0.0, (now if math.isnan(ended) else ended) - state.submitted_unix - trained), trained,
            lead.step if lead else 0, lead.loss if lead and lead.coverage.loss_seen else None,
            state.interruptions, state.repeated_steps, state.exit_code, state.users_fault,
            int(heartbeat.get("done_bytes", 0)) if downloads else 0,
            int(heartbeat.get("total_bytes", 0)) if downloads else 0, self._bill(now, lead.step if lead else 0))

    def _why_it_waits(self, heartbeat: Mapping[str, Any]) -> str:
        """Return why the first instance waits; from its heartbeat, or because the disk is too full to write one."""
        if waiting := str(heartbeat.get("waiting", "")):
            return waiting
        with contextlib.suppress(OSError):  # its directory was deleted
            if isinstance(self.store, FileStore) and shutil.disk_usage(self.store.root).free < _ROOM_BYTES:
                return f"{NO_SPACE} Free some space ({self.store.url})."
        return ""

    def _heartbeat(self) -> Mapping[str, Any]:
        """Return the heartbeat of the first instance; nothing before its first one."""
        name = f"{instance_folder(self.state.attempt, 0)}/{NOW}"
        try:
            return unsealed(self.store.get(name), name)
        except (ObjectNotFound, DamagedChunk):
            return {}

    def _bill(self, now_unix: float, steps: int) -> Bill | None:
        state, spec = self.state, self.submission.spec
        if not state.intervals:
            return None
        return bill([Interval(start, end, spec.spot) for start, end in state.intervals], price=spec.price,
                    spot_price=spec.spot_price, steps=steps, repeated_steps=state.repeated_steps,
                    interruptions=state.interruptions, now_unix=now_unix)

    def _what_it_does(self) -> str:
        if self._doing is None or self._doing[0] != self.state.attempt:
            self._doing = self.state.attempt, EventLog(self.store, instance_folder(self.state.attempt, 0))
            self._word = "starting"
        for event in self._doing[1].new():
            if event.kind in _DOING:
                self._word = event.kind
        return self._word


def _silence(heartbeat: Mapping[str, Any], state: JobState, now_unix: float) -> str:
    """Return how long the agent of the first instance has not reported, if that is long; "" otherwise."""
    silent_secs = now_unix - float(heartbeat.get("time_unix", now_unix))
    if silent_secs < _SILENT_SECS:
        return ""
    handle = state.handles[0]
    minutes = f"After {limit_secs(handle) / 60:g} minutes, "
    if state.phase is not Phase.STOPPING:
        then = f"{minutes}Barograph replaces the instance."
    else:
        then = f"{minutes}Barograph no longer waits for it." if is_elsewhere(handle) else "Barograph kills it soon."
    return f"Its agent has not reported for {duration(silent_secs)}: it is frozen, or cannot reach the store. {then}"


def view_of(name: str, home: JobsHome) -> JobView:
    """Return the view of a job by its name, the beginning or the end of it, or by its place.

    Raises:
        UnknownJob: There is no such job.
        NotARun, DamagedChunk, StoreError: It cannot be read.
    """
    if "/" in name:
        store = store_from_url(name)
        return JobView(read_submission(store).name, store)
    record = home.named(name)
    return JobView(record.name, store_from_url(record.url))


def reports_of(records: Iterable[JobRecord | DamagedRecord]) -> list[JobReport]:
    """Return the reports of jobs. A job that cannot be read says why in `reason`."""
    return [_report(record) for record in records]


def _report(record: JobRecord | DamagedRecord) -> JobReport:
    if isinstance(record, DamagedRecord):
        return JobReport(record.name, str(record.path), None, "damaged", record.reason)
    try:
        return JobView(record.name, store_from_url(record.url)).report()
    except NotARun:
        return _unreadable(record, "unreadable", f"Its files are gone. To forget the job:  barograph stop "
                                                 f"{record.name} ({record.url}).")
    except BarographError as error:
        return _unreadable(record, "damaged" if isinstance(error, DamagedChunk) else "unreadable", str(error))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        # Its checksums are right: another Barograph wrote it.
        return _unreadable(record, "unreadable", f"It cannot be understood: {type(error).__name__}: {error} "
                                                 f"({record.url}).")


def _unreadable(record: JobRecord, state: str, reason: str) -> JobReport:
    return JobReport(record.name, record.url, None, state, reason, engine=record.engine)
