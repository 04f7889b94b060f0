"""One job as its controller manages it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict

from barograph.errors import DamagedChunk, JobError, ObjectNotFound
from barograph.experiments.artifacts import ARTIFACTS, root_of
from barograph.jobs.decisions import End, Finish, Requeue, Start, decide, end_of_lost
from barograph.jobs.engines.engine import Engine, Handle, Order, is_elsewhere
from barograph.jobs.home import JobRecord, JobsHome
from barograph.jobs.job_log import EVENTS, STOP, Event, EventLog, NotLeading, instance_folder
from barograph.jobs.keeping import Keeping
from barograph.jobs.script import GRACE_SECS
from barograph.jobs.silence import Silence, limit_secs
from barograph.jobs.state import JobState, Outcome, Phase, state_after
from barograph.jobs.submission import read_submission
from barograph.model.clock import Clock
from barograph.runs.format.layout import (
    ATTEMPTS,
    CHECKPOINTS,
    CURVES,
    ENDINGS,
    FOLDERS,
    HEARTBEATS,
    JOB,
    RECORDS,
    TENSORS,
    TRACE,
    WORKERS,
)
from barograph.runs.format.metadata import unsealed
from barograph.runs.state.process import may_run
from barograph.store.base import Store
from barograph.store.files import FileStore
from barograph.store.urls import store_from_url
from barograph.watch.figures import duration

_OF_INSTANCES = (JOB, ATTEMPTS, WORKERS, HEARTBEATS, ENDINGS, RECORDS, TENSORS, CHECKPOINTS, TRACE, CURVES)
"""Folders that only processes of the job write to, or its controller."""
_OF_OTHERS = tuple(folder for folder in FOLDERS if folder not in _OF_INSTANCES)
PROBLEM = "The controller cannot manage this job: "
_OLD_SECS = 1.0
_BUCKETS = ("s3:", "s3a:", "gs:", "az:")
_BUCKET_PAUSE_SECS = 1.0
_QUEUED_PAUSE_SECS = 1.0
"""Seconds between checks of a job that waits behind others: a thousand of them must not cost a core."""
_KILL_SECS = GRACE_SECS + 60.0
"""Time for an instance to save and upload after it was asked to end."""


class ManagedJob:
    """A job and what its controller knows about it.

    Args:
        record: The job in its user's directory.
        home: That directory.
        engine: Provides the instances.
        clock: The time.
        keeping: Keeps instances between jobs.
        open_store: Returns the store at a URL.

    Raises:
        NotARun, DamagedChunk, StoreError: The job cannot be read.
    """

    def __init__(
        self, record: JobRecord, home: JobsHome, engine: Engine, clock: Clock, keeping: Keeping | None = None, *,
        open_store: Callable[[str], Store] = store_from_url,
    ) -> None:
        self.record, self._keeping = record, keeping
        self._home, self._engine, self._clock = home, engine, clock
        self._store = open_store(record.url)
        self._spec = read_submission(self._store).spec
        self._log = EventLog(self._store, EVENTS, clock=clock.unix)
        self._state = state_after(self._log.new())
        self._agents: dict[int, EventLog] = {}
        self._news: dict[int, list[Event]] = {}
        self._started: dict[int, Handle] = {}
        self._silence = Silence(self._store, clock)
        self._kill_at: float | None = None
        # A look at a bucket takes requests that cost time and money.
        self._pause_secs = _BUCKET_PAUSE_SECS if record.url.startswith(_BUCKETS) else 0.0
        self._look_at = self._rests_until = 0.0
        self._waits = False
        self._has_decided = False
        if self._state.phase in (Phase.RUNNING, Phase.STOPPING):
            engine.adopt(record.name, self._spec, self._state.handles)

    @property
    def state(self) -> JobState:
        """Its state."""
        return self._state

    @property
    def queue(self) -> str:
        """Name of the queue that it waits in: each cluster has one, and this machine."""
        return f"{self.record.engine} {self._engine.queue(self.record.name, self._spec)}"

    @property
    def has_decided(self) -> bool:
        """Whether the last turn wrote an event."""
        return self._has_decided

    def abandon(self) -> None:
        """End its instances and release them: its record was deleted."""
        self._end_instances()
        self._engine.release(self.record.name)

    def turn(self, *, may_start: bool) -> bool:
        """Take what has happened and do what is due; return whether the job waits for instances.

        Args:
            may_start: It may reserve instances: no job before it waits for some.

        Raises:
            StoreError: The store is unreachable.
        """
        self._has_decided = False
        now = self._clock.monotonic()
        if now < self._look_at or (now < self._rests_until and not may_start):
            return self._waits
        self._look_at, self._rests_until = now + self._pause_secs, 0.0
        self._take(self._log.new())
        if self._state.phase.is_over:
            self._close()
            return False
        try:
            self._take_requests()
            self._take_news()
            self._waits = self._act(may_start=may_start)
            if self._state.reason.startswith(PROBLEM) and not self._state.phase.is_over:
                self._wait("")
        except NotLeading:
            self._waits = False  # what the other controller decided is taken at the next turn
        if self._waits and not may_start:
            self._rests_until = now + _QUEUED_PAUSE_SECS
        return self._waits

    def _act(self, *, may_start: bool) -> bool:
        decision = decide(self._state, self._spec, self._clock.unix())
        match decision:
            case Start():
                if not may_start or (reason := self._reserve()):
                    self._wait("Waits for the jobs before it." if not may_start else reason)
                    return True
                self._note("starting", attempt=decision.attempt)
                self._agents, self._news, self._started = {}, {}, {}
            case End():
                self._note("stopping", reason=decision.reason)
            case Requeue():
                self._end_instances()
                self._engine.release(self.record.name, is_over=False)
                self._remove_unfinished()
                self._note("requeued", cause=decision.cause, reason=decision.reason)
            case Finish():
                keeps = self._keeps(decision)
                if not keeps:
                    self._end_instances()
                self._note("over", phase=decision.phase, reason=decision.reason, exit_code=decision.exit_code,
                           users_fault=decision.users_fault)
                self._close(keeps=keeps)
        if self._state.phase is Phase.RUNNING:
            self._start_missing()
        if self._state.phase is Phase.STOPPING:
            self._end_open()
        return False

    def _reserve(self) -> str:
        """Reserve the instances, preferably kept ones; return why the job must wait, "" if they are reserved."""
        keeping = self._keeping
        if keeping:
            keeping.take_over(self.record, self._spec)
        reason = self._engine.reserve(self.record.name, self._spec)
        waited_secs = self._clock.unix() - self._state.since_unix
        if reason and keeping and keeping.make_room(self.record, self._spec, waited_secs):
            reason = self._engine.reserve(self.record.name, self._spec)
        return reason

    def _keeps(self, end: Finish) -> bool:
        """Return whether the instances stay: also after an error of the script, which is corrected and tried again."""
        return bool(self._keeping and self._spec.keep_alive_secs and self._state.handles and
                    (end.phase is Phase.FINISHED or end.users_fault))

    def _wait(self, reason: str) -> None:
        if reason != self._state.reason:
            self._note("waiting", reason=reason)

    def _start_missing(self) -> None:
        """Start the instances of the attempt that were not, also those a killed controller did not come to."""
        for index in range(self._spec.instances):
            if index in self._state.handles or index in self._state.ended:
                continue
            try:
                if index not in self._started:  # started, but the store was unreachable then
                    self._started[index] = self._engine.start(Order(
                        self.record.name, self.record.url, self._spec, self._state.attempt, index,
                        self._home.environment(self.record.name)))
            except (OSError, JobError) as error:
                # A node that left is an interruption; what this machine refuses, it would refuse for ever.
                self._note("ended", index=index, outcome=Outcome.LOST if isinstance(error, JobError) else
                           Outcome.FAILED, reason=f"The instance cannot be started: {str(error).rstrip('.')}.")
                continue
            self._note("started", index=index, handle=dict(self._started[index]))

    def _take_requests(self) -> None:
        if self._state.stop:
            return
        try:
            body = unsealed(self._store.get(STOP), STOP)
        except ObjectNotFound:
            return
        except DamagedChunk:
            body = {}
        self._note("stop", reason=str(body.get("reason", "requested by the user")))

    def _take_news(self) -> None:
        """Take what the agents of the open instances wrote, and see which of them are gone."""
        for index in self._state.open_instances:
            # First whether it is gone: what it wrote before its end is there then.
            gone = self._engine.is_gone(self._state.handles[index])
            log = self._agents.setdefault(index, EventLog(
                self._store, instance_folder(self._state.attempt, index), clock=self._clock.unix))
            news = self._news.setdefault(index, [])
            news += log.new()
            # Those that are noted count as taken, also if the store fails or another controller takes over meanwhile.
            for number in range(self._state.noted.get(index, 0), len(news)):
                self._take_event(index, number, news[number])
            if index not in self._state.ended and (why := self._why_lost(index, gone)):
                if not gone or is_elsewhere(self._state.handles[index]):
                    self._engine.kill(self._state.handles[index])
                secs = self._clock.unix() - self._state.since_unix
                self._note("ended", index=index, **asdict(end_of_lost(why, [event.kind for event in news], secs)))

    def _why_lost(self, index: int, gone: str) -> str:
        """Return why an instance is lost; "" if it is not.

        Args:
            index: Which of the instances.
            gone: Why its agent is gone, as far as the engine can see.
        """
        handle = self._state.handles[index]
        # The agent on another machine cannot be seen from here. Without its heartbeat, a controller of another machine
        # that shares the directory of jobs would start a second one.
        if gone and not is_elsewhere(handle):
            return gone
        silent_secs = self._silence.secs(self._state.attempt, index)
        if silent_secs < limit_secs(handle) or not (gone or self._silence.was_heard(self._state.attempt, index)):
            return ""
        silent = f"was silent for {duration(silent_secs)}"
        return f"Its agent on {handle['host']} {silent}." if gone else f"Its agent {silent} and was killed."

    def _take_event(self, index: int, number: int, event: Event) -> None:
        if event.kind == "ended":
            self._note("ended", index=index, number=number, **{
                name: event.data.get(name) for name in ("outcome", "exit_code", "reason", "announced")})
        elif event.kind in ("notice", "resumed"):
            self._note(event.kind, **{**event.data, "index": index, "number": number})

    def _end_open(self) -> None:
        """Ask the open instances to end; kill those that do not."""
        now = self._clock.monotonic()
        if self._kill_at is None:
            self._kill_at = now + _KILL_SECS
            for index in self._state.open_instances:
                self._engine.ask_to_end(self._state.handles[index])
        elif now >= self._kill_at:
            for index in self._state.open_instances:
                self._engine.kill(self._state.handles[index])

    def _end_instances(self) -> None:
        self._kill_at = None
        for index, handle in self._state.handles.items():
            if index in self._state.open_instances or not is_elsewhere(handle):
                self._engine.kill(handle)

    def _close(self, *, keeps: bool = False) -> None:
        if self._keeping and keeps:
            self._keeping.keep(self.record, self._spec)
        else:
            self._engine.release(self.record.name)
        self._remove_unfinished()
        if not self.record.over:
            self._home.close(self.record)
        if self._keeping and keeps:
            self._keeping.keep_address(self.record)

    def _remove_unfinished(self) -> None:
        """Remove what killed processes of the job were writing to its store. Only its own have ended for sure."""
        if isinstance(self._store, FileStore):
            self._store.remove_unfinished(_OF_INSTANCES)
            self._store.remove_unfinished(_OF_OTHERS, older_than_secs=_OLD_SECS)
            # Artifacts lie beside the runs. Looking through them takes time, so only where an instance did not finish.
            root = root_of(self._store)
            if isinstance(root, FileStore) and (self._state.attempt or self._state.phase is not Phase.FINISHED):
                root.remove_unfinished([ARTIFACTS], older_than_secs=_OLD_SECS, is_running=may_run)

    def _note(self, kind: str, **data: object) -> None:
        self._take([self._log.append(kind, **data)])
        self._has_decided = True

    def _take(self, events: list[Event]) -> None:
        self._state = state_after(events, self._state)
