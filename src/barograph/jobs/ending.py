"""Why and how soon an instance must end: somebody asked it to, or it will be taken away."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path

from barograph.errors import StoreError
from barograph.jobs.engines.engine import ASKED
from barograph.jobs.interruptions.signals import SignalSource
from barograph.jobs.interruptions.sources import NoticeWatch, sources_named
from barograph.jobs.job_log import EventLog
from barograph.jobs.script import GRACE_SECS
from barograph.jobs.state import Ended, Outcome

_UPLOAD_SECS = 2.0
"""Time between the end of the script and that of the instance, to store what it left."""


class Cancelled(Exception):
    """The agent was asked to end before its script started."""


class EndRequest:
    """Whether an instance must end.

    Args:
        events: Takes the notices.
        now: Seconds since 1970.

    Attributes:
        asked: Set once it must end.
        grace_secs: Time that the script has then.
    """

    def __init__(self, events: EventLog, *, now: Callable[[], float] = time.time) -> None:
        self._events, self._now = events, now
        self._notices = NoticeWatch(())
        self._reason = ""
        self._asked_file: Path | None = None
        self.asked = threading.Event()
        self.grace_secs = GRACE_SECS

    def listen(self, sources: str, directory: Path) -> None:
        """Listen to interruption sources, as `sources_named` takes them."""
        self._asked_file = directory / ASKED
        self._notices = NoticeWatch(sources_named(sources, directory=directory))

    def poll(self) -> bool:
        """Take a notice, if there is one; return whether the instance must end."""
        notice = self._notices.poll()
        if notice is not None and not (notice.source == SignalSource.name and self._is_asked_by_engine()):
            with contextlib.suppress(StoreError):  # save a checkpoint even if the notice cannot be stored
                self._events.append("notice", **notice.to_json())
            if not notice.advisory:
                self._reason = f"The instance was taken away: {notice.reason.rstrip('.')}."
                if notice.deadline_unix is not None:
                    self.grace_secs = max(1.0, min(GRACE_SECS, notice.deadline_unix - self._now() - _UPLOAD_SECS))
                self.asked.set()
        if self._is_asked_by_engine():  # an engine on another machine cannot send a signal
            self.asked.set()
            if self.was_given_up:
                self.grace_secs = 0.0
        return self.asked.is_set()

    def _is_asked_by_engine(self) -> bool:
        return self._asked_file is not None and self._asked_file.exists()

    @property
    def was_given_up(self) -> bool:
        """Whether an engine on another machine gave the instance up: its job goes on, or has ended, without it."""
        return self._asked_file is not None and self._asked_file.exists() and self._asked_file.stat().st_size > 0

    def close(self) -> None:
        """Withdraw the request of an engine: any machine may remove the directory now."""
        if self._asked_file is not None:
            self._asked_file.unlink(missing_ok=True)

    def check(self, wait_secs: float = 0.0) -> None:
        """Take a notice and wait a little; raise `Cancelled` if the instance must end."""
        self.poll()
        if self.asked.wait(wait_secs):
            raise Cancelled

    def ended(self, exit_code: int | None, otherwise: str) -> Ended:
        """Return the end of an instance that was interrupted.

        Args:
            exit_code: Exit code of the script; None if it did not start.
            otherwise: The reason if there was no notice.
        """
        return Ended(Outcome.INTERRUPTED, exit_code, self._reason or otherwise, announced=bool(self._reason))
