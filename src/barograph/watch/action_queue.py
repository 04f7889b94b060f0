"""Writes findings into the run, and takes actions because of them; what fails is tried again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from barograph.errors import StoreDenied, StoreError
from barograph.model.finding import Finding, FindingState
from barograph.runs.state.control import read_requests, read_stop
from barograph.runs.state.findings import write_event
from barograph.store.base import Store
from barograph.watch.actions import Action, Stop
from barograph.watch.announcer import Announcer
from barograph.watch.notices import Event, Notice


@dataclass(frozen=True, slots=True)
class _Task:
    """Something to do on the store: write a finding's event, or act on it and name the main finding of its problem."""

    finding: Finding
    action: Action | None = None
    lead: Finding | None = None


class ActionQueue:
    """Writes findings into the run, and takes actions because of them.

    Args:
        store: The run.
        actions: Taken once a finding opened, if it is still open and the run still goes on.
        announcer: Gets what was done and what failed.
        record: Write findings into the run.
        dry: Only report what the actions would have done.

    Attributes:
        would_have: Actions not taken because the run was over, or in a dry run: the finding, and one sentence.
        has_asked: Something was requested from the training, perhaps by an earlier watcher.
    """

    def __init__(
        self, store: Store, actions: Iterable[Action], announcer: Announcer, *, record: bool, dry: bool
    ) -> None:
        self.would_have: list[tuple[Finding, str]] = []
        self.has_asked = False
        self._store = store
        self._actions = list(actions)
        self._announcer = announcer
        self._record = record
        self._dry = dry
        self._tasks: list[_Task] = []
        self._to_act_on: list[Finding] = []
        self._taken_over: set[str] = set()

    @property
    def may_act(self) -> bool:
        """Whether there are actions that are taken."""
        return bool(self._actions) and not self._dry

    @property
    def is_writing(self) -> bool:
        """Whether findings wait to be written."""
        return any(task.action is None for task in self._tasks)

    def add(self, finding: Finding) -> None:
        """Add a finding that opened or closed."""
        if self._record:
            self._tasks.append(_Task(finding))
        if finding.state is FindingState.OPEN:
            self._to_act_on.append(finding)

    def take_over(self, findings: Iterable[Finding]) -> None:
        """Take over the open findings of an earlier watcher, which may have had no actions or been killed."""
        self._to_act_on = list(findings)
        self._taken_over = {finding.id for finding in self._to_act_on}
        self.has_asked = bool(self._actions)

    def decide(
        self, goes_on: Callable[[Finding], bool], leads: Callable[[], Mapping[str, Finding]], *, over: bool
    ) -> None:
        """Queue the actions of new findings, the cause before its consequences.

        Args:
            goes_on: Returns whether a finding is still open in the attempt that runs.
            leads: Returns the main finding of each finding's problem, see `problems.lead_findings`.
            over: The run has ended: only report what would have been done.
        """
        if not self._to_act_on:
            return
        known = leads()
        order = {name: place for place, name in enumerate(known)}
        news = sorted(self._to_act_on, key=lambda item: order.get(item.id, len(order)))
        if over or self._dry:
            self._report_what_would_be_done(news, known)
        else:
            self._tasks.extend(_Task(finding, action, known.get(finding.id)) for finding in news if goes_on(finding)
                               for action in self._actions)
        self._to_act_on = []

    def work(self) -> None:
        """Do what is queued; what the store does not take stays queued."""
        waiting: list[_Task] = []
        failing: set[str] = set()
        for task in self._tasks:
            what = type(task.action).__name__ if task.action else "Findings"
            if what in failing:
                # One failed request is enough; with many findings, trying each would take long at every poll.
                waiting.append(task)
                continue
            refused, away = f"{what}: the store refuses it", f"{what} cannot reach the store"
            try:
                self._do(task)
            except StoreError as error:
                waiting.append(task)
                failing.add(what)
                if isinstance(error, StoreDenied):
                    self._announcer.denied(refused, error)
                else:
                    self._announcer.away(away, error)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - third-party actions may raise anything
                self._announcer.problem(f"{what} failed: {type(error).__name__}: {error}")
            else:
                self._announcer.back(away)
                self._announcer.allowed(refused)
        self._tasks = waiting

    def _do(self, task: _Task) -> None:
        if task.action is None:
            write_event(self._store, task.finding)
        elif done := task.action.act(task.finding, self._store, task.lead):
            self.has_asked = True
            self._announcer.notify(Notice(Event.ACTION, done, task.finding))

    def _report_what_would_be_done(self, findings: Iterable[Finding], leads: Mapping[str, Finding]) -> None:
        # The earlier watcher dealt with what was open when this one took over, whether the run went on or not.
        news = [item for item in findings if item.id not in self._taken_over]
        asked, stopped = self._asked_for(news)
        for finding in news:
            for action in self._actions:
                if finding.id in asked or (isinstance(action, Stop) and finding.attempt in stopped):
                    continue
                if text := action.would(finding, leads.get(finding.id)):
                    self.would_have.append((finding, text))
                    self._announcer.notify(Notice(Event.ACTION, text, finding))

    def _asked_for(self, findings: Iterable[Finding]) -> tuple[set[str], set[int]]:
        """Return the IDs of findings because of which something was requested, and the attempts asked to stop.

        In a dry run there are none, because all of it is about what would have been done.
        """
        asked: set[str] = set()
        stopped: set[int] = set()
        if self._dry or not self._record or not self._actions:
            return asked, stopped
        for attempt in {finding.attempt for finding in findings}:
            try:
                stop = read_stop(self._store, attempt=attempt)
                asked |= {item.finding_id for item in read_requests(self._store, attempt=attempt)}
            except StoreError as error:
                self._announcer.away("What was asked of the training cannot be read", error)
                continue
            if stop is not None:
                asked.add(stop.finding_id)
                stopped.add(attempt)
        return asked, stopped
