"""The watcher of a job's run: started once the script trains, its output among that of the script."""

from __future__ import annotations

import time

from barograph.errors import StoreError
from barograph.jobs.instance_log import InstanceLog
from barograph.jobs.submission import read_submission
from barograph.model.launch import LAUNCH_VARIABLE, Launch, launch_from_environment
from barograph.processes.streamed_process import StreamedProcess
from barograph.runs.format.layout import WORKERS, metadata_from_name
from barograph.store.base import Store
from barograph.watch.watch_command import watch_command

_LOOK_SECS = 0.5
_LAST_WORDS_SECS = 60.0
_GRACE_SECS = 5.0


class RunWatcher:
    """Watches the run of a job from the instance that trains.

    Args:
        store: Store of the job.
        attempt: Its attempt.
        log: Takes the output.
    """

    def __init__(self, store: Store, attempt: int, log: InstanceLog) -> None:
        self._store, self._attempt, self._log = store, attempt, log
        self._process: StreamedProcess | None = None
        self._look_at = 0.0

    def turn(self) -> None:
        """Start watching when there is something to watch; take what the watcher prints."""
        if self._process is not None:
            self._log.add(self._process.output().out)
        elif time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + _LOOK_SECS
            self._start_if_trained()

    def finish(self, *, patient: bool) -> None:
        """End watching; if there is time, wait for the summary of the run, if the script trained."""
        if not patient:
            if self._process is not None:
                self._process.kill()
                self._process.wait()
            return
        if self._process is None:
            self._start_if_trained()
        if self._process is None:
            return
        if self._process.wait(_LAST_WORDS_SECS) is None:
            self._process.end(_GRACE_SECS)
        self._log.add(self._process.output().out)

    def _start_if_trained(self) -> None:
        try:
            names = [metadata_from_name(item.name) for item in self._store.list(WORKERS)]
            if not any(name and name[2] == self._attempt for name in names):
                return
            launch = launch_from_environment({LAUNCH_VARIABLE: read_submission(self._store).launch})
        except StoreError:
            return
        assert isinstance(launch, Launch)  # without one, nothing is recorded, and there are no workers
        self._process = StreamedProcess(watch_command(self._store.url, launch.settings), merged=True)
