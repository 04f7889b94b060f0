"""A run drawn again and again while it goes on, from a thread of its own, at a cost that stays small."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Self

from barograph.errors import BarographError
from barograph.jupyter.display import Display
from barograph.model.clock import Clock
from barograph.report.markup import element
from barograph.report.notebook import run_html
from barograph.report.style import fragment
from barograph.runs.reading.glance import Glance, RunState, glance
from barograph.runs.reading.reader import Run
from barograph.store.base import Store

MOST_COST = 0.05
"""Greatest share of the time that drawing takes: where one drawing takes long, the next is waited for longer."""

MOST_FAILURES = 20
"""A run that so many times one after the other could not be read is not looked at any more."""

SILENT_SECS = 900.0
"""A run of another machine, of which nobody knows whether it lives, is drawn until nothing has changed for so long."""

_GOES_ON = frozenset({RunState.RUNNING, RunState.STARTING, RunState.UNKNOWN})


class LiveView:
    """A run, drawn until it has ended.

    Args:
        run: Which.
        metrics: Curves that are wanted; none: the losses and the first numbers.
        display: Where.
        clock: How long a drawing takes.
        every_secs: Least time between two drawings.
        look: Tells how the run in a store stands.
    """

    def __init__(
        self, run: Run, metrics: Sequence[str] = (), *, display: Display, clock: Clock, every_secs: float = 2.0,
        look: Callable[[Store], Glance] = glance,
    ) -> None:
        self._run = run
        self._metrics = tuple(metrics)
        self._display = display
        self._clock = clock
        self._every_secs = every_secs
        self._look = look
        self._cost_secs = 0.0
        self._shown = ""
        self._failures = 0
        self._changed = clock.monotonic()
        self._updating = threading.Lock()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def __repr__(self) -> str:
        return f"LiveView({self._run.url!r}, {'running' if self.running else 'ended'})"

    def _ipython_display_(self) -> None:
        # It is shown already; as the last line of a cell it would be twice.
        pass

    @property
    def running(self) -> bool:
        """Whether it is still drawn anew."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def wait_secs(self) -> float:
        """How long the next drawing is waited for."""
        return max(self._every_secs, self._cost_secs / MOST_COST)

    def start(self) -> Self:
        """Draw it once, and then from a thread; it ends by itself when the run has."""
        if self.update():
            self._thread = threading.Thread(target=self._draw, name="barograph-live", daemon=True)
            self._thread.start()
        return self

    def update(self) -> bool:
        """Draw the run as it stands, where anything has changed; return whether it goes on."""
        with self._updating:
            begin = self._clock.monotonic()
            # Before it is drawn: what comes after the last sign of life must not be missing at the end.
            goes_on = True
            try:
                now = self._look(self._run.store)
                silent = now.state is RunState.UNKNOWN and begin - self._changed > SILENT_SECS
                goes_on = now.state in _GOES_ON and not silent
                self._run.refresh()
                html = run_html(self._run, self._metrics, now=now)
                self._failures = 0
            except (BarographError, OSError) as error:
                # A store may be away for a moment, and a curve may not have begun.
                self._failures += 1
                goes_on = goes_on and self._failures < MOST_FAILURES
                html = fragment(element("p", str(error), class_="note"))
            if html != self._shown:
                self._shown, self._changed = html, begin
                self._display.show(html)
            self._cost_secs = self._clock.monotonic() - begin
            return goes_on

    def stop(self) -> None:
        """End it; what was drawn last stays."""
        self._stopped.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def wait(self, timeout_secs: float | None = None) -> bool:
        """Return once the run has ended and was drawn the last time; False: that took too long."""
        if self._thread is not None:
            self._thread.join(timeout_secs)
        return not self.running

    def _draw(self) -> None:
        while not self._stopped.wait(self.wait_secs) and self.update():
            pass
