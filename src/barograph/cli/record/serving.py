"""`barograph watch ROOT --all`: watch every run below a root as one service, in one or several processes."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, Protocol

from rich.console import Console

from barograph.cli.interrupts import Interrupts
from barograph.cli.opening import run_at, store_at
from barograph.cli.printing import Printer, console_on
from barograph.cli.record.engines import PROCESSES, RAY, joined
from barograph.cli.record.watching import POLL_SECS, Options, asked_settings, settings_for, watcher_for
from barograph.errors import SettingsError, WatchError
from barograph.model.finding import FindingState
from barograph.model.settings import Settings
from barograph.model.settings_file import settings_from_file
from barograph.processes.command import Command
from barograph.processes.local_process import Group, LocalProcess
from barograph.processes.parent import end_with_parent
from barograph.processes.process import HostLost
from barograph.rules.registry import rules_from_settings
from barograph.runs.reading.memory import give_memory_back
from barograph.runs.reading.reader import RunReader
from barograph.store.base import Store
from barograph.store.files import FileStore
from barograph.watch.far_command import FarCommand, Order
from barograph.watch.figures import count
from barograph.watch.loop import Watcher
from barograph.watch.seats import seats
from barograph.watch.service import Part, RunVerdict, Service
from barograph.watch.terminal import TerminalNotifier
from barograph.watch.wording import shown

_MOST_LOSSES = 5
"""A part lost with its machine is restarted on another machine; after so many losses in a row without a sign of life,
the service gives up."""

_MOST_DEATHS = 5
_DEATHS_LOOKS = round(3600 / POLL_SECS)
"""A dead process of the service is restarted; after more deaths within so many polls (an hour), the service gives
up."""


def serve(place: str, options: Options, part: str = "", *, wait: Callable[[float], object] = time.sleep) -> bool:
    """Watch every run below `place` until interrupted, or once; return whether it was interrupted.

    Args:
        place: Directory or URL that contains the runs.
        options: Options of the command.
        part: "0/4" for the first of four services that share the runs; "": all runs.
        wait: Sleeps for some seconds.

    Raises:
        SettingsError: An option is invalid, or not supported for many runs.
        StoreError: The place cannot be read.
        MissingExtra, ClusterUnreachable: The engine cannot be used.
    """
    if options.brief:
        raise SettingsError("--brief works for one run only; with --all, only problems are printed anyway.")
    if options.against is not None:
        raise SettingsError("--against works for one run only.")
    # Report errors of the settings once and first, not for each run.
    settings = asked_settings(options, Settings())
    rules_from_settings(settings)
    seats(processes=options.processes, rule_timeout_secs=settings.rule_timeout_secs)
    root = store_at(place)
    root.list("barograph-is-this-place-there")  # fail now if the place cannot be read
    if part:
        end_with_parent()
    elif joined(options.engine) == RAY:
        order = order_for(root, Path.cwd(), options)
        return _Shared(options, wait, lambda number: _far_command(order, place, options, number)).follow()
    elif options.processes > 1:
        return _Shared(options, wait, lambda number: _Command(_arguments(place, options, number), options)).follow()
    give_memory_back()
    return _Serving(place, root, options, _part_from(part), wait).follow()


class _Serving:
    """One service in this process."""

    def __init__(
        self, place: str, root: Store, options: Options, part: Part, wait: Callable[[float], object]
    ) -> None:
        self._place, self._options, self._wait = place.rstrip("/"), options, wait
        self._console: Console = console_on(stderr=options.as_json, lasting=True)
        self._reported: set[str] = set()
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
            self._console.print(f"barograph: watching every run below {self._place}. Ctrl-C stops the watcher, not the "
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
        run: RunReader = run_at(self._url_of(name))
        settings, not_used = settings_for(run, self._options)
        if not_used and name not in self._reported:
            self._reported.add(name)
            self._console.print(f"barograph: {shown(name or '.')} was started with rules that are not installed "
                                f"here and do not run: {shown(', '.join(not_used))}.", soft_wrap=True)
        one = replace(self._options, processes=1, engine=PROCESSES)
        notifier = TerminalNotifier(self._console, name=name or ".")
        watcher = watcher_for(run, settings, one, [notifier])
        notifier.found = lambda: watcher.found
        return watcher

    def _sum_up(self) -> None:
        verdicts = list(self._service.verdicts())
        if self._options.as_json:
            Printer().json([_to_json(self._place, verdict) for verdict in verdicts])
            return
        if not self._of_many:
            self._console.print(_summed(verdicts), soft_wrap=True)


class _Working(Protocol):
    """A service that watches a part of the runs, here or on another machine. There, each method may raise HostLost."""

    def poll(self) -> int | None:
        """Return its exit code; None while it runs."""
        ...

    def said(self) -> bytes:
        """Return its JSON summary, if requested."""
        ...

    def interrupt(self) -> None:
        """End it as Ctrl-C does."""
        ...

    def terminate(self) -> None:
        """Kill it."""
        ...


class _Shared:
    """A service in several processes, which share the runs."""

    def __init__(
        self, options: Options, wait: Callable[[float], object], begin: Callable[[int], _Working]
    ) -> None:
        self._options, self._wait, self._begin = options, wait, begin
        self._looks = 0
        self._deaths: list[int] = []
        self._losses: Counter[int] = Counter()

    def follow(self) -> bool:
        interrupts = Interrupts(ignored=False)
        working: dict[int, _Working] = {}
        with interrupts:
            try:
                self._mind(working)
            except KeyboardInterrupt:
                interrupts.came = True
                self._end(working)
        if self._options.as_json:
            verdicts = [verdict for one in working.values() if (text := one.said()) for verdict in json.loads(text)]
            Printer().json(sorted(verdicts, key=lambda verdict: str(verdict["name"])))
        return interrupts.came

    def _mind(self, working: dict[int, _Working]) -> None:
        """Wait for all processes; restart those that died unexpectedly or were lost with their machine."""
        done = False
        while not done:
            self._looks += 1
            codes = [self._looked_at(working, number) for number in range(self._options.processes)]
            done = all(code == 0 for code in codes)
            if not done:
                self._wait(POLL_SECS)

    def _looked_at(self, working: dict[int, _Working], number: int) -> int | None:
        try:
            if number not in working:
                working[number] = self._begin(number)
            code = working[number].poll()
        except HostLost as lost:
            working.pop(number, None)
            self._losses[number] += 1
            print(f"barograph: a part of the service was lost with its machine and is restarted: {lost}",
                  file=sys.stderr)
            if self._losses[number] > _MOST_LOSSES:
                self._give_up(working, f"A part of the service cannot run on any machine: {lost}")
            return None
        self._losses[number] = 0
        if code:
            self._deaths = [look for look in self._deaths if look > self._looks - _DEATHS_LOOKS] + [self._looks]
            if len(self._deaths) > _MOST_DEATHS:
                self._give_up(working, f"The processes of the service died {len(self._deaths)} times within an hour, "
                                       f"the last one with exit code {code}; see its output above.")
            del working[number]
        return code

    def _give_up(self, working: dict[int, _Working], why: str) -> NoReturn:
        for one in working.values():
            one.terminate()
        raise WatchError(why)

    def _end(self, working: dict[int, _Working]) -> None:
        for number, one in list(working.items()):
            try:
                one.interrupt()
                while one.poll() is None:
                    self._wait(POLL_SECS)
            except HostLost:
                del working[number]


class _Command:
    """A service in another process of this machine."""

    def __init__(self, arguments: Sequence[str], options: Options) -> None:
        # A file, since nobody reads before the end: a full pipe would block it.
        self._summary = tempfile.TemporaryFile() if options.as_json else None  # noqa: SIM115 - `said` closes it
        # In its own process group: we forward Ctrl-C exactly once, also if only we received it.
        self._process = LocalProcess(Command((sys.executable, "-m", "barograph", *arguments, *_config(options))),
                                     stdin=None, stdout=self._summary, group=Group.OWN)

    def poll(self) -> int | None:
        return self._process.poll()

    def said(self) -> bytes:
        if self._summary is None:
            return b""
        with self._summary:
            self._summary.seek(0)
            return self._summary.read()

    def interrupt(self) -> None:
        """Send it Ctrl-C; on Windows the terminal has already done so."""
        if os.name != "nt" and self._process.poll() is None:
            self._process.interrupt()

    def terminate(self) -> None:
        self._process.terminate()


def order_for(root: Store, directory: Path, options: Options) -> Order:
    """Return the configuration of a service on another machine, without its part.

    Args:
        root: Store that contains the runs.
        directory: Working directory.
        options: Options of the command.

    Raises:
        SettingsError: The settings file cannot be read.
    """
    place = witness = ""
    if isinstance(root, FileStore):
        place = str(root.root)
        witness = min((entry.name for entry in root.root.iterdir()), default="") if root.root.is_dir() else ""
    config = None
    if options.config is not None:
        settings_from_file(options.config)  # raises a detailed error
        config = Path(options.config).read_text(encoding="utf-8")
    return Order((), config, str(directory), place, witness, tuple(item or str(directory) for item in sys.path))


def _far_command(order: Order, place: str, options: Options, number: int) -> FarCommand:
    arguments = _arguments(order.place or place, options, number)
    return FarCommand(replace(order, arguments=arguments),
                      None if options.as_json else sys.stdout.buffer, sys.stderr.buffer)


def _arguments(place: str, options: Options, number: int) -> tuple[str, ...]:
    """Return the arguments of the service for one part of the runs, without the settings file."""
    arguments = [
        "watch", place, "--all", "--part", f"{number}/{options.processes}",
        *(["--once"] if options.once else []), *(["--fresh"] if options.fresh else []),
        *(["--json"] if options.as_json else []),
    ]
    for name, value in (("--rules", ",".join(options.rules) if options.rules else None),
                        ("--on-finding", options.on_finding), ("--findings-to", options.findings_to)):
        if value is not None:
            arguments += [name, value]
    for name, values in (("--notify", options.notify), ("--set", options.set_)):
        for value in values:
            arguments += [name, value]
    return tuple(arguments)


def _config(options: Options) -> list[str]:
    return ["--config", options.config] if options.config is not None else []


def _part_from(text: str) -> Part:
    if not text:
        return Part()
    number, _, of = text.partition("/")
    if not (number.isdecimal() and of.isdecimal() and int(number) < int(of)):
        raise SettingsError(f'part is "{text}"; write it as 0/4, the first of four.')
    return Part(int(number), int(of))


def _summed(verdicts: Sequence[RunVerdict]) -> str:
    if not verdicts:
        return "\nbarograph: No runs found."
    lines = ["", f"barograph: {count(len(verdicts), 'run')} watched."]
    for verdict in verdicts:
        open_ = [problem for problem in verdict.found if problem.state is FindingState.OPEN]
        state = "running" if verdict.going_on else "ended"
        worst = f": {shown(open_[0].title)}" if open_ else ""
        lines.append(f"  {shown(verdict.name) or '.'}  {state}, {count(verdict.steps, 'step')} evaluated, "
                     f"{_found(verdict, len(open_))}{worst}")
    return "\n".join(lines)


def _found(verdict: RunVerdict, still_open: int) -> str:
    """Return the number of problems; "no problems" only if something was evaluated and everything could be read."""
    not_all = f"; {count(len(verdict.damage), 'part')} could not be read" if verdict.damage else ""
    if verdict.found:
        return f"{count(len(verdict.found), 'problem')}{not_all}, {still_open} open"
    if not verdict.steps:
        return f"nothing could be evaluated{not_all}" if not_all else "nothing to evaluate"
    return f"no problems in the rest{not_all}" if not_all else "no problems"


def _to_json(place: str, verdict: RunVerdict) -> dict[str, Any]:
    return {
        "name": verdict.name, "url": f"{place}/{verdict.name}" if verdict.name else place,
        "going_on": verdict.going_on, "steps": verdict.steps,
        "findings": [finding.to_json() for finding in verdict.findings],
        "problems": list(verdict.problems), "damage": list(verdict.damage),
    }


