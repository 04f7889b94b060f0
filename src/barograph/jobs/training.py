"""The time in which the script of an instance runs: its output, heartbeats, checkpoints and findings are stored."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from barograph.errors import StoreError, StoreFull
from barograph.jobs.channels import failure_of
from barograph.jobs.ending import EndRequest
from barograph.jobs.heartbeat import Heartbeat
from barograph.jobs.instance_log import InstanceLog
from barograph.jobs.patience import Patience, full_reason
from barograph.jobs.script import Script, Trained
from barograph.jobs.uploads import CheckpointSync
from barograph.jobs.watcher import RunWatcher
from barograph.processes.command import Command
from barograph.processes.orphans import reap_orphans
from barograph.runs.state.claim import begin_attempt
from barograph.runs.state.process import process_now
from barograph.store.base import Store

if TYPE_CHECKING:
    from barograph.jobs.data.delivery import Delivery

_TURN_SECS = 0.1
_SYNC_SECS = 10.0
_RETRY_SECS = 5.0


class Training:
    """Runs the script of one instance to its end.

    Args:
        store: Store of the job.
        attempt: Attempt of the job.
        index: Index of the instance.
        log: Output of the script.
        heartbeat: Signs of life.
        end: Requests to end.
        patiently: Retries while the store is unreachable.
    """

    def __init__(
        self, store: Store, attempt: int, index: int, *, log: InstanceLog, heartbeat: Heartbeat, end: EndRequest,
        patiently: Patience,
    ) -> None:
        self._store, self._attempt, self._index = store, attempt, index
        self._log, self._heartbeat, self._end, self._patiently = log, heartbeat, end, patiently
        self._sync_at = self._store_at = 0.0

    def run(
        self, commands: Sequence[Command], sync: CheckpointSync, deliveries: list[Delivery], *, ends_with_us: bool,
        is_recorded: bool,
    ) -> Trained:
        """Run the script.

        Args:
            commands: The commands that start it.
            sync: Stores its checkpoints.
            deliveries: Data that arrives while it runs.
            ends_with_us: Whether its processes end when this one is killed.
            is_recorded: Whether there is a run to analyze.

        Raises:
            StoreError: The store was unreachable for too long.
        """
        watcher = RunWatcher(self._store, self._attempt, self._log) if self._index == 0 and is_recorded else None
        script = Script(commands, self._log, ends_with_us=ends_with_us)
        begin: Callable[[], object] | None = None
        if self._index == 0:
            begin = partial(begin_attempt, self._store, self._attempt, started_unix=time.time(),
                            process=process_now(script.pid))
        begin, was_asked = _begun(begin), False
        try:
            while (code := script.turn(_TURN_SECS)) is None:
                if self._end.poll():
                    was_asked = was_asked or script.is_running
                    script.terminate(self._end.grace_secs)
                elif failure_of(deliveries) is not None:
                    script.terminate(_TURN_SECS)  # it would wait for data for ever
                begin = _begun(begin)
                self._care(sync, max((item.opened_epochs for item in deliveries), default=0))
                if watcher:
                    watcher.turn()
        finally:
            script.kill()
        cores = script.use.mean_cores()  # now: what follows may wait for the store
        if begin:
            try:
                self._patiently(begin, waits_for_room=not code)
            except StoreFull:
                if not code:  # otherwise the script may have filled the disk
                    raise
        if watcher:
            # The next attempt's watcher continues where this one stops; an instance that is taken away has no time.
            watcher.finish(patient=not self._end.asked.is_set())
        return Trained(code, script.tail, was_asked, cores)

    def _care(self, sync: CheckpointSync, opened_epochs: int) -> None:
        """Do what is due while the script runs. A store that is unreachable for a while is no reason to end it."""
        now = time.monotonic()
        if now < self._store_at:
            return
        try:
            self._log.write()
            self._heartbeat.beat(opened_epochs=opened_epochs)
            if now >= self._sync_at:
                self._sync_at = now + _SYNC_SECS
                reap_orphans()
                sync.upload(is_stopping=self._end.asked.is_set)
        except StoreError as error:
            if isinstance(error, StoreFull):
                self._heartbeat.tell_full(full_reason(error))
            # What was not written is written later. Each try may take seconds, in which no notice is seen.
            self._store_at = time.monotonic() + _RETRY_SECS


def _begun(begin: Callable[[], object] | None) -> Callable[[], object] | None:
    """Note the begin of the attempt; return what is to be tried again, because the store was unreachable."""
    if begin is not None:
        try:
            begin()
        except StoreError:
            return begin
    return None
