"""Redraws a run in a thread while it is active, at limited cost."""

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
from barograph.runs.reading.reader import RunReader
from barograph.store.base import Store

MOST_COST = 0.05
"""Maximum share of time spent drawing: after a slow redraw, the next waits longer."""

MOST_FAILURES = 20
"""After this many consecutive read errors, the run is given up."""

SILENT_SECS = 900.0
"""A run on another machine, whose liveness is unknown, is drawn until it is unchanged for this long."""

_GOES_ON = frozenset({RunState.RUNNING, RunState.STARTING, RunState.UNKNOWN})


class LiveView:
    """A view that redraws a run until it ends.

    Args:
        run: Run to draw.
        metrics: Names of curves; none: the losses and the first scalars.
        display: Output to draw on.
        clock: Clock.
        every_secs: Minimum time between two redraws.
        look: Returns the state of the run in a store.
    """

    def __init__(
        self, run: RunReader, metrics: Sequence[str] = (), *, display: Display, clock: Clock, every_secs: float = 2.0,
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
        # It is displayed already; the last line of a cell would display it twice.
        pass

    @property
    def running(self) -> bool:
        """Whether it is still redrawn."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def wait_secs(self) -> float:
        """Time until the next redraw."""
        return max(self._every_secs, self._cost_secs / MOST_COST)

    def start(self) -> Self:
        """Draw the run now, then from a thread until it ends."""
        if self.update():
            self._thread = threading.Thread(target=self._draw, name="barograph-live", daemon=True)
            self._thread.start()
        return self

    def update(self) -> bool:
        """Redraw the run if it has changed; return whether it is still active."""
        with self._updating:
            begin = self._clock.monotonic()
            # Checked before drawing, so that nothing before the end is missed.
            goes_on = True
            try:
                now = self._look(self._run.store)
                silent = now.state is RunState.UNKNOWN and begin - self._changed > SILENT_SECS
                goes_on = now.state in _GOES_ON and not silent
                self._run.refresh()
                html = run_html(self._run, self._metrics, now=now)
                self._failures = 0
            except (BarographError, OSError) as error:
                # A store may be briefly unreachable, and a curve may not exist yet.
                self._failures += 1
                goes_on = goes_on and self._failures < MOST_FAILURES
                html = fragment(element("p", str(error), class_="note"))
            if html != self._shown:
                self._shown, self._changed = html, begin
                self._display.show(html)
            self._cost_secs = self._clock.monotonic() - begin
            return goes_on

    def stop(self) -> None:
        """Stop redrawing; the last drawing stays."""
        self._stopped.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()

    def wait(self, timeout_secs: float | None = None) -> bool:
        """Wait until the run has ended and is drawn; return False after a timeout."""
        if self._thread is not None:
            self._thread.join(timeout_secs)
        return not self.running

    def _draw(self) -> None:
        while not self._stopped.wait(self.wait_secs) and self.update():
            pass
