"""Watches a run from the command line until it has ended, then prints the summary."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from barograph.cli.interrupts import Interrupts
from barograph.cli.opening import run_at
from barograph.cli.options import OF_TRAINING, on_top_of, replaced, tables_set, whole_path
from barograph.cli.printing import Printer, console_on
from barograph.cli.record.engines import PROCESSES, joined, line_on
from barograph.cli.record.live import line_of, status
from barograph.errors import SettingsError, StoreError
from barograph.model.finding import FindingState
from barograph.model.manifest import Heartbeat
from barograph.model.selection import Selection
from barograph.model.settings import Settings, settings_from_mapping
from barograph.model.settings_file import settings_from_file
from barograph.queries.summary import summary_of
from barograph.rules.across_runs import SimilarAcrossRuns
from barograph.rules.registry import installed_alone, rules_from_settings
from barograph.runs.reading.memory import give_memory_back
from barograph.runs.reading.reader import RunReader
from barograph.runs.reading.roster import Standing
from barograph.watch.actions import actions_from_settings
from barograph.watch.addressing import notifiers_of
from barograph.watch.closing import closing_text
from barograph.watch.figures import count
from barograph.watch.file_notifier import FileNotifier
from barograph.watch.loop import Watcher
from barograph.watch.notices import Event, Notice, Notifier
from barograph.watch.seats import seats
from barograph.watch.terminal import TerminalNotifier
from barograph.watch.watch_command import NOTIFY_VARIABLE

POLL_SECS = 0.5
_LOOK_SECS = 2.0
"""Seconds between two reads of the heartbeats for the bottom line; each is a request to the store."""
_SPINNER_WIDTH = 3
"""Columns of the spinner, its gap, and one free column."""

_JUDGED = ("rules", "rule_settings", "on_finding", "allow", "action_settings", "rule_timeout_secs", "recorder",
           "checkpoints")
"""Settings of the watcher; the others configure the recording and may come from a newer Barograph."""


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the command.

    Attributes:
        rules: Codes and names; None: those of the run.
        on_finding: "notify" or "stop"; None: as in the run.
        findings_to: Additional file that events are appended to; None: only the settings file's.
        config: Path of a settings file; None: none.
        once: Do not wait for new steps.
        fresh: Start at the first step, and write nothing into the run.
        brief: Print only findings and the summary, and leave Ctrl-C to the training in this process group.
        as_json: Print the summary as JSON.
        notify: URLs of additional recipients.
        set_: Settings of rules and actions, as typed.
        processes: Number of processes.
        engine: Where they run: see `barograph.cli.record.engines`.
        against: Path or URL of a run to compare with; None: none.
    """

    rules: list[str] | None = None
    on_finding: str | None = None
    findings_to: str | None = None
    config: str | None = None
    once: bool = False
    fresh: bool = False
    brief: bool = False
    as_json: bool = False
    notify: tuple[str, ...] = ()
    set_: tuple[str, ...] = ()
    processes: int = 1
    engine: str = PROCESSES
    against: str | None = None


def watch_run(place: str, options: Options, *, wait: Callable[[float], object] = time.sleep) -> bool:
    """Watch the run at `place` until it has ended, and print the summary; return whether it was interrupted.

    Args:
        place: Path or URL of the run.
        options: Options of the command.
        wait: Sleeps for some seconds.

    Raises:
        UnknownName, SettingsError: A rule, a parameter or a setting is invalid; the message suggests the closest.
        NotARun, NewerFormat, DamagedChunk, StoreError: The run cannot be read.
        MissingExtra, ClusterUnreachable: The engine cannot be used.
    """
    run = run_at(place)
    settings, not_used = settings_for(run, options)
    if options.against is not None:
        settings = _compared(settings, run_at(options.against))
    joined(options.engine)
    give_memory_back()
    return _Watching(run, settings, not_used, options, wait).follow()


def settings_for(run: RunReader, options: Options) -> tuple[Settings, tuple[str, ...]]:
    """Return the watcher's settings: options on top of the file, on top of the run.

    Of the rules that the run names, only those installed here are used; the names of the others are returned, too. Code
    that is not installed is loaded only if the user asks for it.

    Raises:
        UnknownName, SettingsError: A setting is invalid.
        BadRule: A rule that the user asks for cannot be loaded.
    """
    theirs = settings_from_mapping({
        name: value for name, value in run.manifest.settings.items() if name in _JUDGED
    })
    # First without the run's settings, to separate what the user asks for.
    asked_for = asked_settings(options, replaced(theirs, rules=(), rule_settings={})).rules
    trusted, not_used = installed_alone(theirs, besides=asked_for)
    return asked_settings(options, trusted), () if asked_for else not_used


def asked_settings(options: Options, base: Settings) -> Settings:
    """Return the user's settings: options on top of the file, on top of `base`.

    Raises:
        UnknownName, SettingsError: A setting is invalid, or configures only the training.
    """
    typed: dict[str, Any] = {
        "rules": options.rules, "on_finding": options.on_finding, "findings_to": options.findings_to,
        "notify": [*options.notify, *_handed_over()] or None, **tables_set(options.set_),
    }
    for name, takes_place in OF_TRAINING.items():
        if name in typed:
            raise SettingsError(f"--set {name}.…: {takes_place} in the training. Set it where that starts, with "
                                "barograph run.")
    asked = settings_from_file(options.config, base=base) if options.config is not None else base
    return on_top_of(asked, typed)


def _compared(settings: Settings, other: RunReader) -> Settings:
    """Return the settings with the rule that compares with the other run."""
    rules = [*settings.rules, SimilarAcrossRuns.code]
    if any(rule.code == SimilarAcrossRuns.code for rule in rules_from_settings(settings)):
        rules = list(settings.rules)
    return on_top_of(replaced(settings, rules=tuple(rules)),
                     {"rule_settings": {SimilarAcrossRuns.code: {"other": other.url}}})


def watcher_for(run: RunReader, settings: Settings, options: Options, notifiers: Iterable[Notifier]) -> Watcher:
    """Return a watcher for a run.

    Args:
        run: The run.
        settings: Result of `settings_for`.
        options: Options of the command.
        notifiers: Notifiers in addition to those of the settings.

    Raises:
        UnknownName, SettingsError, BadRule: A rule or a parameter is invalid.
    """
    all_notifiers = list(notifiers)
    if settings.findings_to:
        all_notifiers.append(FileNotifier(Path(whole_path(settings.findings_to)), run.url))
    # A read-only look must not change a training, unless that is explicitly requested.
    dry = options.fresh and options.on_finding is None
    return Watcher(
        run.store, rules_from_settings(settings), notifiers=all_notifiers, queue=notifiers_of(settings, run.url),
        actions=actions_from_settings(settings), dry=dry, expected=_collections_of(run),
        record=not options.fresh, patient=not options.once,
        executors=seats(processes=options.processes, rule_timeout_secs=settings.rule_timeout_secs,
                     line=line_on(options.engine)),
    )


def _collections_of(run: RunReader) -> tuple[Selection, ...]:
    """Return the collections of the recording; none if a newer Barograph wrote them in another format."""
    try:
        return settings_from_mapping({"collections": run.manifest.settings.get("collections", {})}).collections
    except SettingsError:
        return ()


def _handed_over() -> list[dict[str, Any]]:
    """Return the recipients that `attach` passes through the environment, since the process list is public."""
    text = os.environ.get(NOTIFY_VARIABLE, "")
    try:
        return list(json.loads(text)) if text else []
    except ValueError:
        raise SettingsError(f"{NOTIFY_VARIABLE} cannot be read. Barograph sets it; do not set it yourself.") from None


class _Watching:
    """Watches one run, from the first poll to the summary."""

    def __init__(
        self, run: RunReader, settings: Settings, not_used: tuple[str, ...], options: Options,
        wait: Callable[[float], object],
    ) -> None:
        self._run, self._not_used, self._options, self._wait = run, not_used, options, wait
        self._looked_at = -math.inf
        self._beats: list[Heartbeat] = []
        self._parts: list[str] = []
        self._steps_made = 0
        self._spinner = Spinner("dots", style="dim")
        # With --json, standard output contains only the summary.
        self._console: Console = console_on(stderr=options.as_json, lasting=True)
        self._notifier = TerminalNotifier(self._console)
        self._watcher = watcher_for(run, settings, options, [self._notifier])
        self._notifier.found = lambda: self._watcher.found

    def follow(self) -> bool:
        """Watch until nothing more can come; return whether it was interrupted."""
        interrupts = Interrupts(ignored=self._options.brief)
        with interrupts, self._bottom_line():
            try:
                self._print_known_findings()
                self._poll_until_ended(interrupts)
                self._watcher.close()
            except KeyboardInterrupt:
                interrupts.came = True
                if not interrupts.in_the_middle:
                    self._watcher.close()
        self._sum_up(interrupted=interrupts.came)
        return interrupts.came

    def _print_known_findings(self) -> None:
        """Print what an earlier watcher found in a running run, since only new findings are printed later."""
        if self._not_used:
            self._console.print(
                f"barograph: rules of this run that are not installed here were skipped: {', '.join(self._not_used)}. "
                f"To load one of your own, name it: --rules {self._not_used[0]}",
                soft_wrap=True,
            )
        if self._options.brief:
            return
        if self._goes_on():
            rules = count(len(self._watcher.rules), "rule")
            self._console.print(f"barograph: watching {self._run.url} with {rules}. Ctrl-C stops the watcher, not the "
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
                self._parts = self._state()
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
        # Called by the drawing thread, also during a long poll.
        judged, made = self._watcher.steps, self._steps_made
        of = f" of {made:,} made" if made > judged else ""
        line = line_of(self._parts or [f"{count(judged, 'step')} evaluated{of}"], self._console.width - _SPINNER_WIDTH)
        self._spinner.update(text=Text(line))
        return self._spinner

    def _state(self) -> list[str]:
        now = time.monotonic()
        if now - self._looked_at >= _LOOK_SECS:
            self._looked_at = now
            try:
                self._run.refresh()
                states = self._run.workers
            except StoreError:
                return ["store unavailable; retrying"]
            running = [state.last for state in states if state.standing is Standing.RUNNING]
            self._beats = [beat for beat in running if beat is not None]
        return status(self._beats, self._watcher.open_problems)

    def _sum_up(self, *, interrupted: bool) -> None:
        summary = summary_of(self._run.store, self._watcher.judged).but_not_seen(
            *(f"Rule {name} is not installed here and did not run." for name in self._not_used),
            *(["What was not judged yet: the watching was interrupted."] if interrupted else []),
        )
        if self._options.as_json:
            Printer().json({**summary.to_json(), "interrupted": interrupted})
            return
        width = self._console.width if self._console.is_terminal else None
        self._console.print(closing_text(summary, interrupted=interrupted, width=width), soft_wrap=True)
