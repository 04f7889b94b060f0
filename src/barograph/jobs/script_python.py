"""The Python of a job's script on an instance: built with the versions that the first instance resolved for all."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol, TypeVar

from barograph.errors import JobError
from barograph.jobs.ending import EndRequest
from barograph.jobs.environment import prepare
from barograph.jobs.job_packages import known_pins, write_pins
from barograph.jobs.requirements import Requirements
from barograph.jobs.unable import not_the_users_fault
from barograph.provenance.packages import asked, packages_of
from barograph.provenance.secrets import Secrets
from barograph.runs.state.origins import write_packages
from barograph.store.base import Store

_T = TypeVar("_T")
_LOOK_SECS = 0.1


class Eventually(Protocol):
    """Returns what is read from a store, once it can be reached."""

    def __call__(self, do: Callable[[], _T]) -> _T: ...


class ScriptPython:
    """Prepares the Python of a job's script.

    Args:
        store: Store of the job.
        index: Which instance.
        code: Directory of the code.
        cache: Directory of the environments of this machine.
        end: Whether the instance must end.
        eventually: Waits for the store.
        say: Takes lines that say what is being done.
    """

    def __init__(
        self, store: Store, index: int, code: Path, cache: Path, *, end: EndRequest,
        eventually: Eventually, say: Callable[[str], None],
    ) -> None:
        self._store, self._index, self._code, self._cache = store, index, code, cache
        self._end, self._eventually, self._say = end, eventually, say

    def prepare(self, found: Requirements) -> Path:
        """Return a Python with the packages of the script, built unless it is cached.

        Raises:
            JobRefused: The requirements cannot be met.
            Unable: The environment cannot be built here.
            Cancelled: The instance must end.
        """
        with not_the_users_fault():
            try:
                prepared = prepare(replace(found, pins=self._pins(found)), self._code, cache=self._cache,
                                   progress=self._say, cancelled=self._end.poll)
            except JobError:
                self._end.check()
                raise
        self._eventually(lambda: write_pins(self._store, found, self._code, prepared.pins))
        if self._index == 0:
            self._record_packages(prepared.python)
        return prepared.python

    def _pins(self, found: Requirements) -> str:
        """Return the versions of an earlier attempt or of the first instance, which resolves them for all."""
        while True:
            pins = self._eventually(lambda: known_pins(self._store, found, self._code))
            if pins is not None or self._index == 0:
                return pins or ""
            self._end.check(_LOOK_SECS)

    def _record_packages(self, python: Path) -> None:
        """Record the packages: the provenance of the run, of its first attempt, has those of the submitting Python."""
        interpreter = asked(os.fspath(python))
        if interpreter is not None:
            packages = packages_of(interpreter, Secrets(os.environ))
            self._eventually(lambda: write_packages(self._store, 0, interpreter, packages))
