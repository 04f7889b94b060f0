"""`barograph watch ROOT --all`: every run below a root watched as one service, alone or in several processes."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console
from rich.text import Text

from barograph.cli.figures import count
from barograph.cli.interrupts import Interrupts
from barograph.cli.opening import run_at, store_at
from barograph.cli.printing import Printer, console_on
from barograph.cli.watching import POLL_SECS, Options, asked_settings, settings_for, watcher_for
from barograph.errors import SettingsError, WatchError
from barograph.model.finding import FindingState
from barograph.model.settings import Settings
from barograph.rules.registry import rules_from_settings
from barograph.runs.reader import Run
from barograph.store.base import Store
from barograph.watch.loop import Watcher
from barograph.watch.notices import Notice
from barograph.watch.seats import seats
from barograph.watch.service import Part, RunVerdict, Service
from barograph.watch.terminal import text_of
from barograph.watch.wording import shown

_MOST_DEATHS = 5
"""A process of the service that died is begun anew; after so many deaths in all the service gives up."""


def serve(place: str, options: Options, part: str = "", *, wait: Callable[[float], object] = time.sleep) -> bool:
    """Watch every run below `place` until interrupted, or once; return whether it was interrupted.

    Args:
        place: Directory or URL that the runs lie below.
        options: What was typed.
        part: "0/4" for the first of four services that share the runs out; "": all of them.
        wait: Lets some seconds pass.

    Raises:
        SettingsError: An option is wrong, or makes no sense for many runs.
        StoreError: The place cannot be read.
    """
    if options.brief:
        raise SettingsError("--brief is for one run; a service with --all says no more than findings anyway.")
    # What is wrong with the settings is said once and before anything is watched, not of each run.
    settings = asked_settings(options, Settings())
    rules_from_settings(settings)
    seats(processes=options.processes, rule_timeout_secs=settings.rule_timeout_secs)
    root = store_at(place)
    root.list("barograph-is-this-place-there")  # a place that cannot be read is said at once, and not in every turn
    if options.processes > 1 and not part:
        return _Processes(place, options, wait).follow()
    return _Serving(place, root, options, _part_from(part), wait).follow()


class RunNotifier:
    """Tells on a terminal what is found in one of many runs, with the run's name before it.

    Args:
        console: Where to.
        name: Of the run.
    """

    def __init__(self, console: Console, name: str) -> None:
        self._console = console
        self._name = name

    def notify(self, notice: Notice) -> None:
        """Write a few lines."""
        self._console.print(Text.assemble((f"{shown(self._name)}: ", "bold"), text_of(notice)), soft_wrap=True)


class _Serving:
    """One service in this process."""

    def __init__(
        self, place: str, root: Store, options: Options, part: Part, wait: Callable[[float], object]
    ) -> None:
        self._place, self._options, self._wait = place.rstrip("/"), options, wait
        self._console: Console = console_on(stderr=options.as_json, lasting=True)
        self._service = Service(root, self._store_of, self._watcher_of, part=part)
        self._of_many = part.of > 1

    def follow(self) -> bool:
        interrupts = Interrupts(ignored=False)
        with interrupts:
            try:
                self._poll(interrupts)
            except KeyboardInterrupt:
                interrupts.came = True
            if not interrupts.in_the_middle:
                self._service.close()
        self._sum_up()
        return interrupts.came

    def _poll(self, interrupts: Interrupts) -> None:
        if not self._of_many:
            self._console.print(f"barograph: watching every run below {self._place}; Ctrl-C ends the watching, not the "
                                "trainings.", soft_wrap=True)
        while True:
            with interrupts.held_back():
                turn = self._service.poll()
            for name in turn.begun:
                self._console.print(f"barograph: {shown(name)} is watched", soft_wrap=True)
            for problem in turn.problems:
                self._console.print(f"barograph: {shown(problem)}", soft_wrap=True)
            if turn.more:
                continue
            if self._options.once:
                return
            self._wait(POLL_SECS)

    def _url_of(self, name: str) -> str:
        return f"{self._place}/{name}" if name else self._place

    def _store_of(self, name: str) -> Store:
        return store_at(self._url_of(name))

    def _watcher_of(self, name: str, store: Store) -> Watcher:
        run: Run = run_at(self._url_of(name))
        settings, _ = settings_for(run, self._options)
        one = replace(self._options, processes=1)
        return watcher_for(run, settings, one, [RunNotifier(self._console, name or ".")])

    def _sum_up(self) -> None:
        verdicts = list(self._service.verdicts())
        if self._options.as_json:
            Printer().json([_to_json(self._place, verdict) for verdict in verdicts])
            return
        if not self._of_many:
            self._console.print(_summed(verdicts), soft_wrap=True)


class _Processes:
    """A service in several processes, which share the runs out."""

    def __init__(self, place: str, options: Options, wait: Callable[[float], object]) -> None:
        self._place, self._options, self._wait = place, options, wait
        self._deaths = 0

    def follow(self) -> bool:
        count_ = self._options.processes
        children = [self._begin(number) for number in range(count_)]
        interrupts = Interrupts(ignored=False)
        with interrupts:
            try:
                self._mind(children)
            except KeyboardInterrupt:
                interrupts.came = True  # the terminal has told them as well
        said = [child.communicate()[0] if child.stdout else b"" for child in children]
        for child in children:
            child.wait()
        if self._options.as_json:
            verdicts = [verdict for text in said if text for verdict in json.loads(text)]
            Printer().json(sorted(verdicts, key=lambda verdict: str(verdict["name"])))
        return interrupts.came

    def _mind(self, children: list[subprocess.Popen[bytes]]) -> None:
        """Wait for all; begin anew what died without being told to."""
        while any(child.poll() is None for child in children):
            for number, child in enumerate(children):
                if child.poll() not in (None, 0):
                    self._deaths += 1
                    if self._deaths > _MOST_DEATHS:
                        for other in children:
                            other.terminate()
                        raise WatchError(f"The processes of the service died {self._deaths} times, the last one with "
                                         f"exit code {child.returncode}; what it said stands above.")
                    children[number] = self._begin(number)
            self._wait(POLL_SECS)

    def _begin(self, number: int) -> subprocess.Popen[bytes]:
        options = self._options
        arguments = [
            sys.executable, "-m", "barograph", "watch", self._place, "--all", "--part", f"{number}/{options.processes}",
            *(["--once"] if options.once else []), *(["--fresh"] if options.fresh else []),
            *(["--json"] if options.as_json else []),
        ]
        for name, value in (("--rules", ",".join(options.rules) if options.rules else None),
                            ("--on-finding", options.on_finding), ("--findings-to", options.findings_to),
                            ("--config", options.config)):
            if value is not None:
                arguments += [name, value]
        for name, values in (("--notify", options.notify), ("--set", options.set_)):
            for value in values:
                arguments += [name, value]
        return subprocess.Popen(arguments, stdout=subprocess.PIPE if options.as_json else None)


def _part_from(text: str) -> Part:
    if not text:
        return Part()
    number, _, of = text.partition("/")
    if not (number.isdecimal() and of.isdecimal() and int(number) < int(of)):
        raise SettingsError(f'part is "{text}"; it must be as 0/4 is, the first of four.')
    return Part(int(number), int(of))


def _summed(verdicts: Sequence[RunVerdict]) -> str:
    if not verdicts:
        return "\nbarograph: No run was there."
    lines = ["", f"barograph: {count(len(verdicts), 'run')} watched."]
    for verdict in verdicts:
        open_ = [finding for finding in verdict.findings if finding.state is FindingState.OPEN]
        found = count(len(verdict.findings), "finding") if verdict.findings else "no findings"
        state = "goes on" if verdict.going_on else "ended"
        worst = f": {open_[0].code} {open_[0].rule}" if open_ else ""
        lines.append(f"  {shown(verdict.name) or '.'}  {state}, {count(verdict.steps, 'step')} judged, {found}, "
                     f"{len(open_)} open{worst}")
    return "\n".join(lines)


def _to_json(place: str, verdict: RunVerdict) -> dict[str, Any]:
    return {
        "name": verdict.name, "url": f"{place}/{verdict.name}" if verdict.name else place,
        "going_on": verdict.going_on, "steps": verdict.steps,
        "findings": [finding.to_json() for finding in verdict.findings],
    }


