"""Watches a command started by `barograph run`: findings while it runs, the summary at the end.

It runs in its own thread, so that a hanging store does not block signals to the command, and errors of the watching do
not end the command: in any case the main thread waits for the command and exits like it.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO, cast

from rich.console import Console

from barograph.cli.record.live import LiveView, can_be_drawn_on, status
from barograph.errors import EXIT_STOPPED, BarographError, StoreError
from barograph.machine.container import Container
from barograph.model.manifest import CAUGHT, EndState
from barograph.model.settings import Settings
from barograph.processes.process import ended_reason
from barograph.queries.memory_at_end import out_of_memory
from barograph.queries.summary import RunSummary, summary_of
from barograph.rules.base import Rule
from barograph.rules.vitals import ScriptError
from barograph.runs.reading.reader import RunReader
from barograph.runs.state.claim import workers_of
from barograph.runs.state.vitals import SETTLE_SECS, heartbeat_of
from barograph.store.base import Store
from barograph.watch.actions import actions_from_settings, asked_and_not_allowed
from barograph.watch.addressing import notifiers_of
from barograph.watch.closing import closing_text
from barograph.watch.file_notifier import FileNotifier
from barograph.watch.lasting_stream import LastingStream
from barograph.watch.loop import Watcher
from barograph.watch.notices import Notifier
from barograph.watch.recipient import Recipient
from barograph.watch.seats import is_ours, seats
from barograph.watch.terminal import TerminalNotifier

_POLL_SECS = 0.2
_KILLED = (-9, 128 + 9)
"""Exit codes after SIGKILL: of a process, and of a shell whose last command was killed."""


class Supervision:
    """Watches a run in a thread, from the start until `close`.

    Args:
        store: Store of the run.
        rules: Rules to evaluate.
        settings: `on_finding`, `findings_to`, `close_timeout_secs` (time limit for evaluating the rest after the
            command has ended) and `rule_timeout_secs`, which is added for each rule that is not built in, since it may
            take that long.
        attempt: Attempt of the run.
        live: Show the state at the bottom of the terminal, if standard error is one.
        as_json: Print the summary as JSON, and nothing else on standard error.
        recipients: External recipients of notifications.
    """

    def __init__(
        self, store: Store, rules: tuple[Rule, ...], settings: Settings, attempt: int, *, live: bool, as_json: bool,
        recipients: Mapping[str, Recipient] | None = None,
    ) -> None:
        self._store = store
        self._rules = rules
        self._actions = actions_from_settings(settings)
        self._expected = settings.collections
        self._queue = notifiers_of(settings, store.url, recipients=recipients or {})
        self._queue_secs = settings.notify_timeout_secs if self._queue else 0.0
        self._patience_secs = settings.close_timeout_secs + SETTLE_SECS
        self._executors = seats(rule_timeout_secs=settings.rule_timeout_secs)
        self._rules_secs = settings.rule_timeout_secs * sum(not is_ours(rule) for rule in rules)
        self._attempt = attempt
        self._container = Container()
        self._kills_before = self._container.kills()
        self._as_json = as_json
        self._stream = LastingStream(sys.stderr)
        self._notifiers = self._notifiers_for(settings)
        self._view = LiveView(self._stream) if live and not as_json and can_be_drawn_on(self._stream) else None
        self._reported: dict[str, None] = {}
        self._summary: RunSummary | None = None
        self._over = threading.Event()
        for name in asked_and_not_allowed(settings):
            self._tell(f"action {name} needs permission of the training: --allow {name} here, or "
                       f'attach(…, allow={{"{name.replace("-", "_")}"}}) in the script')
        if self._view:
            self._view.open()
        self._thread = threading.Thread(target=self._run, name="barograph-watch", daemon=True)
        self._thread.start()

    def close(self, exit_code: int) -> None:
        """Print the summary once everything is evaluated; called when the command has ended.

        Args:
            exit_code: Exit code of the command; the negative signal number if a signal killed it.
        """
        self._over.set()
        try:
            # A little longer than the thread's own limit, which it checks only between two requests.
            self._thread.join(self._patience_secs + self._queue_secs + 1)
            if self._rules_secs and self._thread.is_alive():
                self._tell(f"waiting up to {self._rules_secs:g} s for third-party rules (rule_timeout_secs); Ctrl-C "
                           "stops waiting")
                self._thread.join(self._rules_secs)
        except KeyboardInterrupt:
            self._tell("not watched to its end, since it was interrupted")
        if self._view:
            self._view.close()
        if self._as_json:
            self._say(json.dumps(self._to_json(exit_code), indent=1, allow_nan=False))
        elif self._summary is None:
            self._say("\nbarograph: the run was not watched to its end, so nothing is said of how it went.\n"
                      f"  run       {self._store.url}")
        else:
            self._say(closing_text(self._summary, command=self._ended(exit_code), width=self._width))

    def _ended(self, exit_code: int) -> str:
        """Return how the command failed; "" if it did not."""
        if not exit_code:
            return ""
        why = ""
        if exit_code in _KILLED:
            with contextlib.suppress(BarographError):  # an unreadable run gives no evidence
                why = out_of_memory(RunReader(self._store), kills=self._container.kills() - self._kills_before)
        return ended_reason(exit_code) + (f" ({why})" if why else "")

    def tell(self, trouble: str) -> None:
        """Print a problem, once, and keep it for the JSON summary."""
        self._tell(trouble)

    def exit_code(self, exit_code: int) -> int:
        """Return the exit code after a command that exited with `exit_code`.

        This is the command's own code, except for 1, the code of an exception: launchers use it whatever the code of
        their workers, and so do scripts that handle exceptions themselves. If a worker was stopped by Barograph, the
        code for that replaces it, unless the script caught the stop and chose its code itself.
        """
        workers = self._summary.workers if self._summary else ()
        stopped = any(item.state is EndState.STOPPED and not item.reason.endswith(CAUGHT) for item in workers)
        return EXIT_STOPPED if exit_code == 1 and stopped else exit_code

    def _notifiers_for(self, settings: Settings) -> list[Notifier]:
        notifiers: list[Notifier] = []
        if not self._as_json:
            console = Console(file=cast(TextIO, self._stream), highlight=False)
            # The script prints its own error, and the summary follows.
            notifiers.append(TerminalNotifier(console, without={ScriptError.code}))
        if settings.findings_to:
            notifiers.append(FileNotifier(Path(settings.findings_to), self._store.url))
        return notifiers

    def _run(self) -> None:
        try:
            self._watch()
        except (Exception, SystemExit) as error:  # noqa: BLE001 - failures are reported, and the training continues
            self._tell(f"cannot continue to watch this run. {type(error).__name__}: {error}")

    def _watch(self) -> None:
        watcher = self._watcher()
        while watcher is None and not self._over.wait(_POLL_SECS):
            watcher = self._watcher()
        if watcher is None:
            return
        while not self._over.wait(_POLL_SECS):
            self._poll(watcher)
            self._draw(watcher)
        to_the_end = self._see_the_rest(watcher)
        watcher.close()
        summary = summary_of(self._store, watcher.judged)
        self._summary = summary if to_the_end else summary.but_not_seen(
            f"Steps still waiting after {self._patience_secs:g} s were not evaluated."
        )

    def _watcher(self) -> Watcher | None:
        try:
            watcher = Watcher(self._store, self._rules, notifiers=self._notifiers, actions=self._actions,
                              queue=self._queue, expected=self._expected, executors=self._executors)
        except StoreError as error:
            self._tell(f"cannot watch this run yet; retrying. {error}")
            return None
        for notifier in self._notifiers:
            if isinstance(notifier, TerminalNotifier):
                notifier.found = lambda: watcher.found
        return watcher

    def _poll(self, watcher: Watcher) -> bool:
        """Return whether every worker has ended and all steps are evaluated."""
        try:
            return watcher.poll().drained
        except BarographError as error:
            # Some errors would end a standalone watcher (rejected credentials, a missing directory); next to a training
            # there is time to retry.
            self._tell(f"cannot watch this run now; retrying. {error}")
            return False

    def _see_the_rest(self, watcher: Watcher) -> bool:
        """Return whether everything was evaluated before the time limit."""
        deadline = time.monotonic() + self._patience_secs + self._rules_secs
        while not self._poll(watcher):
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_SECS)
        return True

    def _draw(self, watcher: Watcher) -> None:
        if self._view is None or self._over.is_set():
            return
        try:
            beats = [heartbeat_of(self._store, worker) for worker in workers_of(self._store, self._attempt)]
        except StoreError:
            return  # the watcher has reported that the store is unavailable
        self._view.draw(status([beat for beat in beats if beat is not None], watcher.open_problems))

    @property
    def _width(self) -> int | None:
        """Columns of the terminal; None if standard error is none."""
        return shutil.get_terminal_size().columns if self._stream.isatty() else None

    def _to_json(self, exit_code: int) -> dict[str, object]:
        reported = list(self._reported)
        if self._summary is None:
            return {"url": self._store.url, "attempt": self._attempt, "verdict": "Not watched to its end.",
                    "problems": [], "warnings": reported, "exit_code": exit_code}
        data = self._summary.to_json()
        return {**data, "warnings": [*data["warnings"], *reported], "exit_code": exit_code}

    def _tell(self, text: str) -> None:
        if text not in self._reported:
            self._reported[text] = None
            if not self._as_json:
                self._say(f"barograph: {text}")

    def _say(self, text: str) -> None:
        # Standard error may be gone; we still forward the command's exit code.
        self._stream.write(f"{text}\n")
        self._stream.flush()
