"""Training jobs in Python.

    from barograph.jobs import Job

    model = Job(["train.py", "--lr", "0.1"], data={"train": "s3://bucket/digits"}).submit().wait().model
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from barograph.errors import JobError
from barograph.jobs.controller_process import ENSURE_SECS, ensure_controller
from barograph.jobs.home import JobsHome
from barograph.jobs.instance_log import LogReader
from barograph.jobs.job_log import STOP
from barograph.jobs.job_report import JobReport, JobView, view_of
from barograph.jobs.outputs import fetched_model, outputs_of
from barograph.jobs.spec import JobSpec, spec_from_file, spec_from_options
from barograph.jobs.state import Phase
from barograph.jobs.submitting import problems_of, submit
from barograph.runs.format.metadata import sealed

if TYPE_CHECKING:
    from barograph.model.items import ArtifactLink

_LOOK_SECS = 0.2


class Job:
    """A training job: described, then submitted.

    Args:
        command: Script with its arguments, or any command.
        options: Options of `barograph submit`, with underscores: `data`, `instances`, `cpus`, `memory`, `spot` …

    Raises:
        UnknownName, SettingsError: An option does not exist or has a wrong value.

    Example:
        >>> Job(["train.py", "--lr", "0.1"], instances=2, memory="4GiB").spec.memory_bytes
        4294967296
    """

    def __init__(self, command: Sequence[str] = (), **options: Any) -> None:
        self.spec: JobSpec = spec_from_options({"command": command, **options})

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """Return the job of a job file; raises as `Job`."""
        job = cls.__new__(cls)
        job.spec = spec_from_file(Path(path))
        return job

    def problems(self) -> list[str]:
        """Return everything that keeps the job from running, a sentence each; nothing is started."""
        return problems_of(self.spec, JobsHome())

    def submit(self, *, to: str = "") -> SubmittedJob:
        """Submit the job and return at once.

        Args:
            to: Where to store the job and its run; "": a new place in the usual root.

        Raises:
            JobRefused: The job has problems; the message lists them.
            StoreError: The store rejects it.
        """
        submitted = submit(self.spec, to=to)
        return SubmittedJob(JobView(submitted.name, submitted.store))


class SubmittedJob:
    """A job that was submitted.

    Args:
        view: Follows it.
    """

    def __init__(self, view: JobView) -> None:
        self._view = view

    @classmethod
    def named(cls, name: str) -> Self:
        """Return a job by its name or its place.

        Raises:
            UnknownJob: There is no such job.
        """
        return cls(view_of(name, JobsHome()))

    def __repr__(self) -> str:
        return f"<job {self.name}>"

    @property
    def name(self) -> str:
        """Name of the job."""
        return self._view.name

    @property
    def url(self) -> str:
        """Where the job and its run are stored."""
        return self._view.store.url

    @property
    def report(self) -> JobReport:
        """The job as it is now."""
        return self._view.report()

    def wait(self, timeout_secs: float | None = None, *, wait: Callable[[float], object] = time.sleep) -> Self:
        """Wait for the end of the job, also while its store is unreachable.

        Args:
            timeout_secs: Longest time to wait; None: any time.
            wait: Sleeps for some seconds.

        Raises:
            JobError: The job failed or was stopped; the message says why. Or it has not ended in time.
        """
        deadline = None if timeout_secs is None else time.monotonic() + timeout_secs
        home, ensure_at = JobsHome(), 0.0
        while not (state := self._view.latest()).phase.is_over:
            if time.monotonic() >= ensure_at:  # the controller may have been killed
                ensure_at = time.monotonic() + ENSURE_SECS
                ensure_controller(home)
            if deadline is not None and time.monotonic() >= deadline:
                raise JobError(f"The job {self.name} has not ended within {timeout_secs:g} s.")
            wait(_LOOK_SECS)
        if state.phase is not Phase.FINISHED:
            raise JobError(f"The job {self.name} {state.phase}. {state.reason}".strip())
        return self

    def stop(self, reason: str = "requested by the user") -> None:
        """Ask the job to save a checkpoint and to stop; returns at once.

        Raises:
            StoreError: The store rejects the request.
        """
        request_stop(self._view, reason)

    def logs(self) -> Iterator[str]:
        """Yield the output so far, of all instances of the last attempt."""
        state = self._view.refresh()
        for index in sorted(state.handles):
            yield from LogReader(self._view.store, state.attempt, index).new()

    @property
    def artifacts(self) -> tuple[ArtifactLink, ...]:
        """Files that the script left, named as in `model/weights.pt` and `output/metrics.json`."""
        return outputs_of(self._view.store)

    @property
    def model(self) -> Path:
        """Directory on this machine with the model's files, fetched on first use.

        Raises:
            JobError: The job left no model.
            StoreError, DamagedChunk: A file cannot be read.
        """
        return fetched_model(self._view.store, JobsHome().cache / "models" / self.name)


def request_stop(view: JobView, reason: str) -> None:
    """Ask a job to stop, once."""
    view.store.put(STOP, sealed({"reason": reason}))
