"""The watching of a run from the command line: until it has ended, and then the summary."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from barograph.cli.figures import count
from barograph.cli.interrupts import Interrupts
from barograph.cli.live import status_line
from barograph.cli.opening import run_at
from barograph.cli.printing import Printer, console_on
from barograph.errors import StoreError
from barograph.model.finding import FindingState
from barograph.model.manifest import Heartbeat
from barograph.model.settings import Settings, settings_from_mapping
from barograph.model.settings_file import settings_from_file
from barograph.rules.registry import rules_from_settings
from barograph.runs.reader import Run
from barograph.runs.roster import Standing
from barograph.watch.actions import Stop
from barograph.watch.loop import Watcher
from barograph.watch.notifiers import Event, Notice, TerminalNotifier
from barograph.watch.summary import summary_of

POLL_SECS = 0.5
_LOOK_SECS = 2.0
"""How often the papers of the workers are read for the line at the bottom: each is a request to the store."""
_JUDGED = ("rules", "rule_settings", "on_finding")
"""Settings that concern watching; the others are of the recording, and may be a newer Barograph's."""


@dataclass(frozen=True, slots=True)
class Options:
    """What was typed.

    Attributes:
        rules: Codes and names; None: those the run was started with.
        on_finding: "notify" or "stop"; None: as the run was started.
        config: Path of a settings file; None: none.
        once: Do not wait for more.
        fresh: Begin at the first step and leave nothing in the run.
        brief: Tell findings and the summary only, and leave interrupts to the training beside.
        as_json: Print the summary as JSON.
    """

    rules: list[str] | None = None
    on_finding: str | None = None
    config: str | None = None
    once: bool = False
    fresh: bool = False
    brief: bool = False
    as_json: bool = False


def watch_run(place: str, options: Options, *, wait: Callable[[float], object] = time.sleep) -> bool:
    """Watch the run at `place` until it has ended, and print the summary; return whether it was interrupted.

    Args:
        place: Of the run.
        options: What was typed.
        wait: Lets some seconds pass.

    Raises:
        UnknownName, SettingsError: A rule, a parameter or a setting is wrong; the message says the nearest.
        NotARun, NewerFormat, DamagedChunk, StoreError: The run cannot be read.
    """
    run = run_at(place)
    return _Watching(run, settings_for(run, options), options, wait).follow()


def settings_for(run: Run, options: Options) -> Settings:
    """Return the settings to watch with: those typed, on top of the file's, on top of those of the run.

    Raises:
        UnknownName, SettingsError: One of them is wrong.
    """
    settings = settings_from_mapping({
        name: value for name, value in run.manifest.settings.items() if name in _JUDGED
    })
    if options.config is not None:
        settings = settings_from_file(options.config)
    typed = {"rules": options.rules, "on_finding": options.on_finding}
    return settings_from_mapping({name: value for name, value in typed.items() if value is not None}, base=settings)


class _Watching:
    """One watching, from the first look to the summary."""

    def __init__(self, run: Run, settings: Settings, options: Options, wait: Callable[[float], object]) -> None:
        self._run, self._options, self._wait = run, options, wait
        self._looked_at = -math.inf
        self._beats: list[Heartbeat] = []
        self._line = ""
        self._steps_made = 0
        self._spinner = Spinner("dots", style="dim")
        # Under --json standard output belongs to the summary alone.
        self._console: Console = console_on(stderr=options.as_json)
        self._notifier = TerminalNotifier(self._console)
        self._watcher = Watcher(
            run.store, rules_from_settings(settings), notifiers=[self._notifier],
            actions=[Stop()] if settings.on_finding == "stop" else [], record=not options.fresh,
            patient=not options.once,
        )

    def follow(self) -> bool:
        """Watch until there is no more to see; return whether it was interrupted."""
        interrupts = Interrupts(ignored=self._options.brief)
        with interrupts, self._bottom_line():
            try:
                self._tell_what_is_known()
                self._poll_until_ended(interrupts)
                self._watcher.close()
            except KeyboardInterrupt:
                interrupts.came = True
                if not interrupts.in_the_middle:
                    self._watcher.close()
        self._sum_up(interrupted=interrupts.came)
        return interrupts.came

    def _tell_what_is_known(self) -> None:
        """Say what an earlier watcher found in a run that goes on: the rest tells only what is new."""
        if self._options.brief:
            return
        if self._goes_on():
            rules = count(len(self._watcher.rules), "rule")
            self._console.print(f"barograph: watching {self._run.url} with {rules}; Ctrl-C ends the watching, not the "
                                "training.", soft_wrap=True)
            for finding in self._watcher.findings:
                if finding.state is FindingState.OPEN:
                    self._notifier.notify(Notice(Event.OPENED, finding=finding))

    def _poll_until_ended(self, interrupts: Interrupts) -> None:
        while True:
            with interrupts.held_back():
                poll = self._watcher.poll()
            if poll.more:
                continue
            if poll.ended or self._options.once:
                return
            if self._has_bottom_line:
                self._line = self._state_line()
            self._wait(POLL_SECS)

    def _goes_on(self) -> bool:
        self._run.refresh()
        states = self._run.workers
        self._steps_made = max((state.last.coverage.steps for state in states if state.last), default=0)
        return not states or any(state.standing in (Standing.RUNNING, Standing.UNKNOWN) for state in states)

    @property
    def _has_bottom_line(self) -> bool:
        return self._console.is_terminal and not self._options.brief

    @contextmanager
    def _bottom_line(self) -> Iterator[None]:
        """Keep a line at the bottom of the terminal up to date; none in a pipe."""
        if not self._has_bottom_line:
            yield
            return
        with Live(get_renderable=self._drawn, console=self._console, transient=True, refresh_per_second=5):
            yield

    def _drawn(self) -> Spinner:
        # Called by the thread that draws, in the middle of a long poll, too.
        judged, made = self._watcher.steps, self._steps_made
        of = f" of {made:,} made" if made > judged else ""
        self._spinner.update(text=Text(self._line or f" barograph  {count(judged, 'step')} judged{of}"))
        return self._spinner

    def _state_line(self) -> str:
        now = time.monotonic()
        if now - self._looked_at >= _LOOK_SECS:
            self._looked_at = now
            try:
                self._run.refresh()
                states = self._run.workers
            except StoreError:
                return " barograph  the store is away; trying again"
            running = [state.last for state in states if state.standing is Standing.RUNNING]
            self._beats = [beat for beat in running if beat is not None]
        return status_line(self._beats, sum(item.state is FindingState.OPEN for item in self._watcher.findings))

    def _sum_up(self, *, interrupted: bool) -> None:
        summary = summary_of(self._run.store, self._watcher)
        if self._options.as_json:
            Printer().json({**summary.to_json(), "interrupted": interrupted})
            return
        self._console.print(summary.to_text(), soft_wrap=True)
        if interrupted:
            self._console.print("  watched   not to the end: it was interrupted", soft_wrap=True)
