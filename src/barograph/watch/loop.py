"""The loop that evaluates rules on a run, the same for live and finished runs.

The result for a step depends only on this step and the steps before it, so a watcher that is killed and restarted at
any
point continues as if uninterrupted. It writes findings before it saves its state: if it is killed in between, it
repeats the last part, and every write is idempotent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from barograph.errors import StoreDenied, StoreError
from barograph.judging.judged import Judged, in_order
from barograph.judging.progress import RateJump
from barograph.judging.state import read_state, state_of, write_state
from barograph.model.clock import Clock, SystemClock
from barograph.model.finding import Finding, FindingState, NotEvaluated
from barograph.model.selection import Selection
from barograph.queries.problems import Problem, lead_findings, problems_of
from barograph.rules.base import Rule
from barograph.rules.frameworks import finding_for
from barograph.runs.reading.feed import Feed
from barograph.runs.state.findings import read_findings
from barograph.store.base import Store
from barograph.store.urls import store_from_url
from barograph.watch.action_queue import ActionQueue
from barograph.watch.action_results import ActionResults
from barograph.watch.actions import Action
from barograph.watch.announcer import Announcer
from barograph.watch.executor import Item, RuleExecutor, one_executor
from barograph.watch.executor_group import ExecutorGroup
from barograph.watch.notices import Event, Notice, Notifier
from barograph.watch.notifier_queue import NotifierQueue
from barograph.watch.step_items import StepItems

SAVE_SECS = 5.0
"""Longest time between two saves of a state that changed; a new finding saves it at once."""


@dataclass(frozen=True, slots=True)
class Poll:
    """Result of one poll.

    Attributes:
        steps: Number of evaluated steps.
        notices: Notices, in order.
        more: More steps are available; poll again without waiting.
        drained: Every worker has ended and all steps are evaluated; more workers may still start.
        ended: As `drained`, and no more workers can start.
    """

    steps: int
    notices: tuple[Notice, ...] = ()
    more: bool = False
    drained: bool = False
    ended: bool = False


class Watcher:
    """Watches one run with rules.

    Args:
        store: Store of the run.
        rules: The rules; each may occur once.
        notifiers: Get each finding that opens or closes, and each problem.
        queue: Notifies external recipients while the watching continues; its pending messages are part of the watcher's
            state.
        actions: Requested once a finding opened, if it is still open and the run continues. For a run that has ended,
            the watcher reports what they would have done.
        dry: Only report what actions would have done.
        expected: Selections that something recorded should match; `unmet` lists those without a match.
        clock: Measures the time of rules and the time between saves.
        record: Write findings and state into the run, and continue from the saved state. If False, start at the first
            step
            and write nothing: for a look with other rules.
        patient: See `Feed`.
        executors: Distributes the rules to executors. Default: all run in this thread.
        open_run: Opens the store of another run, for rules that compare with one.

    Raises:
        StoreError: The store cannot be read.
        DamagedChunk: The saved state of the last watcher is damaged.
        BadRule: Two rules have the same code.
    """

    def __init__(
        self,
        store: Store,
        rules: Iterable[Rule],
        *,
        notifiers: Iterable[Notifier] = (),
        queue: NotifierQueue | None = None,
        actions: Iterable[Action] = (),
        dry: bool = False,
        expected: Iterable[Selection] = (),
        clock: Clock | None = None,
        record: bool = True,
        patient: bool = True,
        executors: Callable[[Sequence[Rule], Clock], Iterable[RuleExecutor]] = one_executor,
        open_run: Callable[[str], Store] = store_from_url,
    ) -> None:
        self._store = store
        self._clock = clock or SystemClock()
        self._record = record
        self._announcer = Announcer(notifiers, queue)
        self._executors = ExecutorGroup(rules, executors, self._clock)
        self._items = StepItems(store, self.rules, expected, open_run, self._announcer, self._clock)
        self._queue = ActionQueue(store, actions, self._announcer, record=record, dry=dry)
        self._results = ActionResults(store, self._announcer, self._clock)
        self._findings: dict[str, Finding] = {}
        self._dirty = False
        self._saved_at = self._clock.monotonic()
        self._cursor: Any = self._resumed()
        self._feed = Feed(store, cursor=self._cursor, clock=self._clock, patient=patient)

    @property
    def rules(self) -> tuple[Rule, ...]:
        return self._executors.rules

    @property
    def steps(self) -> int:
        """Number of evaluated steps, including those before a restart."""
        return self._items.steps

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings so far, in their current state, by their first step."""
        still_open = {item.id: finding_for(item, self._feed.loaded) for item in self._executors.open()}
        return in_order({**self._findings, **still_open}.values())

    @property
    def problems(self) -> tuple[str, ...]:
        """Problems of the watching itself, without duplicates."""
        return self._announcer.problems

    @property
    def damage(self) -> tuple[str, ...]:
        """Parts of the run that cannot be read, without duplicates; also among the problems."""
        return self._announcer.damage

    @property
    def unmet(self) -> tuple[str, ...]:
        """Requested records that matched nothing so far, one sentence each."""
        return self._items.unmet

    @property
    def would_have(self) -> tuple[tuple[Finding, str], ...]:
        """Actions that would have been requested if the run had continued: the finding, and one sentence."""
        return tuple(self._queue.would_have)

    @property
    def judged(self) -> Judged:
        """Findings so far."""
        return Judged(self.rules, self.steps, self.findings, self.not_evaluated(), self.problems, self.unmet,
                      self.damage, self.would_have, self._items.progress, self._announcer.was_full)

    @property
    def rate_jumps(self) -> tuple[RateJump, ...]:
        """Steps at which a learning rate jumped."""
        return self._items.rate_jumps

    @property
    def found(self) -> tuple[Problem, ...]:
        """Problems of the run as far as it is evaluated, the worst first."""
        return problems_of(self.findings, self.rate_jumps)

    @property
    def open_problems(self) -> int:
        """Current number of problems."""
        return sum(item.state is FindingState.OPEN for item in self.found)

    def not_evaluated(self) -> tuple[NotEvaluated, ...]:
        """Return the rules that could not be evaluated so far, and what they need."""
        return self._executors.not_evaluated()

    def poll(self) -> Poll:
        """Evaluate every step that became complete since the last poll.

        If the store is unavailable, the watcher reports it and retries at the next poll; it loses and repeats nothing.
        """
        self._announcer.begin_poll()
        try:
            result = self._feed.poll()
        except StoreDenied:
            raise
        except StoreError as error:
            self._announcer.away("The run cannot be read", error)
            return Poll(0, self._announcer.notices)
        self._announcer.back("The run cannot be read")
        for text in result.damage:
            self._announcer.damaged(text)
        self._judge([item for view in result.views for item in self._items.of_view(view)])
        self._cursor = result.cursor
        self._dirty = self._dirty or bool(result.views or result.damage)
        over = result.drained or result.ended
        if not result.more:
            if self._items.feels_pulse:
                signs = self._items.vital_signs(over=over)
                self._judge(signs)
                self._dirty = self._dirty or bool(signs)
            # Only now is it known whether the findings are still open.
            self._queue.decide(self._goes_on, self._leads, over=over)
        self._queue.work()
        if self._queue.may_act and (self._queue.has_asked or over):
            news = self._results.report(self._items.last_attempt, self._leads, at_once=over)
            self._dirty = self._dirty or news
        self._take_delivery_reports()
        self._save(at_once=over or bool(self._announcer.notices))
        return Poll(len(result.views), self._announcer.notices, result.more, result.drained, result.ended)

    def close(self) -> None:
        """Send pending notifications, save the state for the next watcher, and close the executors."""
        self._queue.work()
        if self._queue.is_writing and not self._announcer.is_refused:
            # The summary shows them, so later readers of the run must find them, too.
            self._announcer.problem("Some findings could not be written into the run and will be lost. Watch the run "
                                    "again when its store is writable.")
        self._announcer.close()
        self._take_delivery_reports()
        self._save(at_once=True)
        self._executors.close()

    def _resumed(self) -> Any:
        """Load the state of the last watcher; return the cursor to continue from, or None to start at the first
        step."""
        state = read_state(self._store) if self._record else None
        with state_of(self._store):
            # Also when it starts at the first step again: nothing is reported twice.
            self._announcer.load_queue(state.get("post", {}) if state else {})
        if state is None or not self._executors.fits(state["judges"]):
            return None
        with state_of(self._store):
            self._executors.load(state["judges"])
            self._announcer.load(state)
            self._items.load(state)
            self._results.load(state.get("answered", ()))
        self._findings = {item.id: item for item in read_findings(self._store).findings}
        self._queue.take_over(self._executors.open())
        return state["cursor"]

    def _goes_on(self, finding: Finding) -> bool:
        # Findings of an earlier attempt were known when the run was restarted.
        is_open = any(item.id == finding.id for item in self._executors.open())
        progress = self._items.progress.get(finding.worker)
        return is_open and progress is not None and progress.attempt == finding.attempt

    def _leads(self) -> dict[str, Finding]:
        return lead_findings(self.found)

    def _judge(self, items: Sequence[Item]) -> None:
        # Collect all before reporting any: an earlier finding may be a consequence of a later one.
        loaded = self._feed.loaded
        results = [replace(one, findings=tuple(finding_for(item, loaded) for item in one.findings))
                   for one in self._executors.judge(items)]
        self._findings |= {finding.id: finding for one in results for finding in one.findings}
        for one in results:
            for finding in one.findings:
                self._queue.add(finding)
                event = Event.OPENED if finding.state is FindingState.OPEN else Event.CLOSED
                self._announcer.notify(Notice(event, finding=finding))
            for text in one.problems:
                self._announcer.problem(text)

    def _take_delivery_reports(self) -> None:
        self._dirty = self._announcer.take_delivery_reports() or self._dirty

    def _save(self, *, at_once: bool) -> None:
        due = at_once or self._clock.monotonic() - self._saved_at >= SAVE_SECS
        # Pending writes are not saved as done. Pending actions may be: a watcher that continues from here acts on the
        # findings that are open then.
        if not (self._record and self._dirty and due) or self._queue.is_writing:
            return
        judges, problems = self._executors.states()
        for problem in problems:
            self._announcer.problem(problem)
        state = {"cursor": self._cursor, "judges": judges, **self._items.to_json(), **self._announcer.to_json(),
                 "answered": self._results.to_json()}
        denied = "Nothing is recorded in the run, which may not be written"
        try:
            write_state(self._store, state)
        except StoreDenied as error:
            self._announcer.denied(denied, error)
            self._saved_at = self._clock.monotonic()
        except StoreError as error:
            self._announcer.away("The watcher's state cannot be saved", error)
        else:
            self._announcer.back("The watcher's state cannot be saved")
            self._announcer.allowed(denied)
            self._dirty = False
            self._saved_at = self._clock.monotonic()
