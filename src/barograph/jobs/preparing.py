"""Builds the command that starts a script on an instance: interpreter, arguments and environment."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from barograph.jobs.algorithms.registry import algorithm_named
from barograph.jobs.ending import EndRequest
from barograph.jobs.failure_rate import launch_after
from barograph.jobs.launchers import LaunchPlan, World, launch_plan
from barograph.jobs.layout import InstanceLayout, Place, filled, variables
from barograph.jobs.requirements import requirements_of
from barograph.jobs.resuming import Resuming
from barograph.jobs.script import recording_environment
from barograph.jobs.submission import Submission
from barograph.store.base import Store

if TYPE_CHECKING:
    from barograph.jobs.script_python import Eventually


class Preparation:
    """Prepares the script of one instance.

    Args:
        store: Store of the job.
        attempt: Attempt of the job.
        submission: The job.
        place: The instance among the others.
        layout: Directories of the instance.
        eventually: Returns what is read from the store, once it can be reached.
    """

    def __init__(
        self, store: Store, attempt: int, submission: Submission, place: Place, layout: InstanceLayout,
        eventually: Eventually,
    ) -> None:
        self._store, self._attempt, self._submission = store, attempt, submission
        self._place, self._layout, self._eventually = place, layout, eventually

    def python(
        self, cache: Path, end: EndRequest, *, begins: Callable[[], object], say: Callable[[str], None]
    ) -> str:
        """Return the Python of the script, with its packages; "": this one.

        Args:
            cache: Directory that the jobs of this machine share.
            end: Requests to end.
            begins: Called if packages are to be installed.
            say: Takes a line for the output.

        Raises:
            Cancelled: The instance must end.
            JobError: The packages cannot be installed.
        """
        if not self._submission.code:
            return ""
        found = requirements_of(self._layout.code, self._submission.spec.requirements)
        if found is None:
            return self._submission.python if Path(self._submission.python).exists() else ""
        from barograph.jobs.script_python import ScriptPython  # loaded here: most scripts use this Python's packages

        begins()
        return str(ScriptPython(
            self._store, self._place.index, self._layout.code, cache / "environments", end=end,
            eventually=self._eventually, say=say).prepare(found))

    def plan(self, going_on: Resuming, python: str) -> LaunchPlan:
        """Return the commands that start the script here.

        Args:
            going_on: Where it resumes.
            python: Its Python.
        """
        submission, spec, layout, place = self._submission, self._submission.spec, self._layout, self._place
        words = spec.words
        if spec.algorithm:
            target = ("--target", spec.target) if spec.target else ()
            words = (str(algorithm_named(spec.algorithm).copy_script(layout.code)), *words, *target)
        environment = {**os.environ, **variables(layout, spec, place, job=submission.name, gpus=spec.gpus)}
        # Another machine need not have the directory of the submitting shell.
        has_own = submission.code or spec.algorithm or spec.engine != "local"
        directory = layout.code if has_own else Path(submission.directory)
        return launch_plan(
            filled(words, layout, list(spec.data), environment),
            World(place.addresses, place.index, spec.processes, place.port, f"{submission.name}-{self._attempt}"),
            directory=directory, python=python, cpus=spec.cpus, environment=recording_environment(
                environment, self._eventually(lambda: launch_after(submission.launch, spec, self._store)),
                attempt=self._attempt, resume=going_on.order))
