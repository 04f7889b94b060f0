"""The loop that shows a run to rules: live, and after the fact, the same.

What it does with a step depends on the steps before it and on nothing else, so a watcher that is killed
and started again at any point goes on as if nothing had been. It writes what it found before it
remembers that it did: killed in between it does the last part again, and every write is idempotent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from barograph.errors import BadRule, BarographError, StoreDenied, StoreError
from barograph.judging.judge import identity
from barograph.judging.judged import Judged, in_order
from barograph.judging.progress import Progress, RateJump, progress_from_json, rate_jumps_in
from barograph.judging.state import read_state, state_of, write_state
from barograph.model.clock import Clock, SystemClock
from barograph.model.finding import Finding, FindingState, NotEvaluated
from barograph.model.key import Kind
from barograph.model.selection import Selection
from barograph.queries.problems import problems_of
from barograph.rules.base import Rule
from barograph.runs.reading.feed import Feed
from barograph.runs.reading.view import StepView
from barograph.runs.state.control import read_answers, read_requests, read_stop
from barograph.runs.state.findings import read_findings, write_event
from barograph.store.base import Store
from barograph.store.urls import store_from_url
from barograph.watch.actions import Action
from barograph.watch.beside import Beside
from barograph.watch.executor import Item, NewAttempt, RuleExecutor, one_executor
from barograph.watch.expectations import Expectations
from barograph.watch.notices import Event, Notice, Notifier
from barograph.watch.notifier_queue import NotifierQueue
from barograph.watch.pulse import Pulse

_MACHINE_ALONE = frozenset({Kind.MACHINE})
ANSWERS_SECS = 0.5
"""Least time between two looks for what the training did of what was asked; each is a request to the store."""

SAVE_SECS = 5.0
"""Longest time between two saves of a state that changed; a new finding saves it at once."""


@dataclass(frozen=True, slots=True)
class Poll:
    """What one turn of the loop did.

    Attributes:
        steps: Steps judged.
        notices: What was told, in order.
        more: There is more to judge at once; poll again without waiting.
        drained: Every worker has ended, and all of it was seen; more workers may yet be started.
        ended: As `drained`, and nobody is left to start more.
    """

    steps: int
    notices: tuple[Notice, ...] = ()
    more: bool = False
    drained: bool = False
    ended: bool = False


@dataclass(frozen=True, slots=True)
class _Task:
    """Something to do on the store: write a finding's event, or act on it."""

    finding: Finding
    action: Action | None = None


class Watcher:
    """Watches one run with rules.

    Args:
        store: The run's.
        rules: Which; a rule may stand there once.
        notifiers: Told of each finding that opens and closes, and of each problem.
        post: Likewise, of those who are outside: it tells them while the watching goes on, and what it owes them is
            kept in the watcher's state.
        actions: Asked once a finding opened, if it is still open and the run still goes on. What they would have
            done about a run that is over is said.
        dry: Only say what actions would have done.
        expected: What must have been recorded of something; `unmet` says what was not.
        clock: For the time rules take, and between saves.
        record: Write findings and state into the run, and go on from the state that is there. Without, it
            starts at the first step and leaves nothing behind: for a look with other rules.
        patient: See `Feed`.
        executors: Says where the rules run; they are all here, in this thread, where it is not given.
        open_run: Opens the store of another run, for rules that compare with one.

    Attributes:
        rules: The rules it watches with.

    Raises:
        StoreError: The store cannot be read.
        DamagedChunk: What the last watcher remembers is not what a watcher writes.
        BadRule: Two rules have one code.
    """

    def __init__(
        self,
        store: Store,
        rules: Iterable[Rule],
        *,
        notifiers: Iterable[Notifier] = (),
        post: NotifierQueue | None = None,
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
        self.rules = tuple(rules)
        codes = [rule.code for rule in self.rules]
        if len(set(codes)) < len(codes):
            raise BadRule(f"Two of the rules have one code; they are {', '.join(sorted(codes))}.")
        self._place = {code: number for number, code in enumerate(codes)}
        self._executors = tuple(executors(self.rules, self._clock))
        self._not_evaluated: tuple[NotEvaluated, ...] | None = None
        self._open_run = open_run
        self._others: dict[str, Beside | None] = {rule.other_run: None for rule in self.rules if rule.other_run}
        self._notifiers = list(notifiers)
        self._post = post
        self._actions = list(actions)
        self._dry = dry
        self._answers_at = -math.inf
        self._asked = False
        self._taken_over: set[str] = set()
        self._answered: dict[str, None] = {}
        self._would_have: list[tuple[Finding, str]] = []
        self._expected = Expectations(expected)
        self._record = record
        self._findings: dict[str, Finding] = {}
        self._progress: dict[str, Progress] = {}
        self._problems: list[str] = []
        self._damage: list[str] = []
        self._outages: set[str] = set()
        self._refused: set[str] = set()
        self._steps = 0
        self._tasks: list[_Task] = []
        self._to_act_on: list[Finding] = []
        self._notices: list[Notice] = []
        self._dirty = False
        self._saved_at = self._clock.monotonic()
        self._pulse = Pulse(store, self._clock)
        self._feels_pulse = any(Kind.VITAL in need.kinds for rule in self.rules for need in rule.needs)
        self._feed = Feed(store, cursor=self._resumed(), clock=self._clock, patient=patient)

    @property
    def steps(self) -> int:
        """Steps judged so far, those before a restart included."""
        return self._steps

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings so far, as they stand now, by the step they began."""
        return in_order({**self._findings, **{item.id: item for item in self._open()}}.values())

    @property
    def problems(self) -> tuple[str, ...]:
        """What went wrong with the watching itself, once each."""
        return tuple(self._problems)

    @property
    def damage(self) -> tuple[str, ...]:
        """What could not be read of the run, once each; every one is among the problems, too."""
        return tuple(self._damage)

    @property
    def unmet(self) -> tuple[str, ...]:
        """What was expected and met nothing so far, one sentence each."""
        return self._expected.unmet()

    @property
    def would_have(self) -> tuple[tuple[Finding, str], ...]:
        """What was not done and would have been, had the run still gone on: the finding, and one sentence."""
        return tuple(self._would_have)

    @property
    def judged(self) -> Judged:
        """What the rules found so far."""
        return Judged(self.rules, self.steps, self.findings, self.not_evaluated(), self.problems, self.unmet,
                      self.damage, self.would_have, dict(self._progress))

    @property
    def rate_jumps(self) -> tuple[RateJump, ...]:
        """Steps at which a learning rate jumped."""
        return rate_jumps_in(self._progress)

    @property
    def open_problems(self) -> int:
        """How many problems there are now."""
        found = problems_of(self.findings, self.rate_jumps)
        return sum(item.state is FindingState.OPEN for item in found)

    def not_evaluated(self) -> tuple[NotEvaluated, ...]:
        """Return the rules that could not judge what they are for, so far, and what would feed them."""
        if self._not_evaluated is not None:
            return self._not_evaluated
        found = [item for executor in self._executors for item in executor.not_evaluated()]
        return tuple(sorted(found, key=lambda item: self._place[item.code]))

    def poll(self) -> Poll:
        """Judge every step that became complete since the last poll.

        A store that is away is reported and tried again at the next poll; nothing is lost or told twice.
        """
        self._notices = []
        try:
            result = self._feed.poll()
        except StoreDenied:
            raise
        except StoreError as error:
            self._away("The run cannot be read", error)
            return Poll(0, tuple(self._notices))
        self._back("The run cannot be read")
        for text in result.damage:
            if text not in self._damage:
                self._damage.append(text)
            self._problem(text)
        self._judge([item for view in result.views for item in self._items_of(view)])
        self._cursor: Any = result.cursor
        self._dirty = self._dirty or bool(result.views or result.damage)
        over = result.drained or result.ended
        if self._feels_pulse and not result.more:
            self._feel_pulse(over=over)
        if not result.more:
            # Only now is it known whether what was found still goes on.
            if over or self._dry:
                self._say_what_would_be_done()
            else:
                going_on = [finding for finding in self._to_act_on if self._goes_on(finding)]
                self._tasks.extend(_Task(finding, action) for finding in going_on for action in self._actions)
            self._to_act_on = []
        self._work()
        self._hear_answers(at_once=over)
        self._take_delivery_reports()
        self._save(at_once=over or bool(self._notices))
        return Poll(len(result.views), tuple(self._notices), result.more, result.drained, result.ended)

    def close(self) -> None:
        """Have told what is still to be told, save what the next watcher goes on from, and let go of the executors."""
        self._work()
        if any(task.action is None for task in self._tasks) and not self._refused:
            # The summary shows them; whoever asks the run later must not take them for never found.
            self._problem("Some findings could not be written into the run and will be lost. Watch the run again when "
                          "its store is writable.")
        if self._post is not None:
            self._post.close()
            self._take_delivery_reports()
        self._save(at_once=True)
        # An executor that is asked after its end begins another process, which nobody would end.
        self._not_evaluated = self.not_evaluated()
        for executor in self._executors:
            executor.close()

    def _resumed(self) -> Any:
        self._cursor = None
        state = read_state(self._store) if self._record else None
        self._told: Any = state.get("post", {}) if state else {}
        with state_of(self._store):
            if self._post is not None:
                # Also where it starts at the first step again: what was told once is not told again.
                self._post.load(self._told)
        mine = [identity(rule) for rule in self.rules]
        if state is None or [item["rule"] for item in state["judges"]] != mine:
            return None
        with state_of(self._store):
            for executor in self._executors:
                executor.load([state["judges"][self._place[rule.code]] for rule in executor.rules])
            self._problems, self._steps = state["problems"], state["steps"]
            self._damage = state["damage"]
            self._pulse.load(state["pulse"])
            self._progress = {group: progress_from_json(saved) for group, saved in state["progress"].items()}
        self._findings = {item.id: item for item in read_findings(self._store).findings}
        # The last watcher may have had no actions, or was killed before it came to act.
        self._to_act_on = self._open()
        self._taken_over = {finding.id for finding in self._to_act_on}
        self._answered = dict.fromkeys(state.get("answered", ()))
        self._asked = bool(self._actions)  # by the watcher before this one, perhaps
        self._cursor = state["cursor"]
        return self._cursor

    def _goes_on(self, finding: Finding) -> bool:
        # What opened in an earlier life of the run was known when it was started again.
        is_open = any(item.id == finding.id for item in self._open())
        return is_open and self._progress[finding.worker].attempt == finding.attempt

    def _open(self) -> list[Finding]:
        return [finding for executor in self._executors for finding in executor.open()]

    def _say_what_would_be_done(self) -> None:
        # What was open when this watcher took over, the one before it has dealt with, while the run went on or not.
        news = [item for item in self._to_act_on if item.id not in self._taken_over]
        asked = self._asked_for(news)
        for finding in news:
            for action in self._actions:
                if finding.id not in asked and (text := action.would(finding)):
                    self._would_have.append((finding, text))
                    self._notify(Notice(Event.ACTION, text, finding))

    def _asked_for(self, findings: Iterable[Finding]) -> set[str]:
        """Return the ids of findings because of which something was asked, by a watcher that was killed before it could
        remember that; in a dry look of none, since all of it is about what would have been."""
        if self._dry or not self._record or not self._actions:
            return set()
        asked: set[str] = set()
        for attempt in {finding.attempt for finding in findings}:
            try:
                stop = read_stop(self._store, attempt=attempt)
                asked |= {item.finding_id for item in read_requests(self._store, attempt=attempt)}
            except StoreError as error:
                self._away("What was asked of the training cannot be read", error)
                continue
            asked |= {stop.finding_id} if stop else set()
        return asked

    def _hear_answers(self, *, at_once: bool) -> None:
        """Tell what the training did of what was asked."""
        now = self._clock.monotonic()
        if self._dry or not self._actions or not (self._asked or at_once) or (
                now - self._answers_at < ANSWERS_SECS and not at_once):
            return
        self._answers_at = now
        attempt = max((item.attempt for item in self._progress.values()), default=0)
        try:
            answers = read_answers(self._store, attempt=attempt, known=self._answered)
        except StoreError as error:
            self._away("What the training answers cannot be read", error)
            return
        self._back("What the training answers cannot be read")
        for name, done in answers.items():
            self._answered[name] = None
            self._dirty = True
            finding = self._findings.get(done.finding_id)
            why = f", because of {finding.code} {finding.rule}" if finding else ""
            self._notify(Notice(Event.ACTION, f"{done.worker} {done.result} after {done.step} steps{why}", finding))

    def _items_of(self, view: StepView) -> Iterator[Item]:
        """Yield what is to be judged of a step: what its coming says of the time before it, and the step."""
        self._steps += view.kinds != _MACHINE_ALONE
        self._expected.take(view)
        progress = self._progress.setdefault(view.group, Progress(view.attempt))
        if view.attempt > progress.attempt:
            yield NewAttempt(view.group)
        progress.take(view)
        if self._feels_pulse:
            yield from self._pulse.before(view)
        yield self._with_others(view) if self._others else view

    def _with_others(self, view: StepView) -> StepView:
        found: dict[str, StepView] = {}
        for place in self._others:
            try:
                other = self._others[place] = self._others[place] or Beside(self._open_run(place), self._clock)
                same = other.of(view)
            except BarographError as error:
                self._problem(f"The run {place}, which this one is to be compared with, cannot be read: {error}")
                continue
            if same is not None:
                found[place] = same
        return view.with_beside(found)

    def _feel_pulse(self, *, over: bool) -> None:
        """Judge the signs of life of a run from which nothing more can be read just now."""
        try:
            signs = list(self._pulse.at_end() if over else self._pulse.now())
        except StoreDenied:
            raise
        except StoreError as error:
            self._away("The heartbeats cannot be read", error)
            return
        self._back("The heartbeats cannot be read")
        for sign in signs:
            self._progress.setdefault(sign.group, Progress(sign.attempt))
        self._judge(signs)
        self._dirty = self._dirty or bool(signs)

    def _judge(self, items: Sequence[Item]) -> None:
        if not items:
            return
        for executor in self._executors:
            executor.begin(items)
        said = [one for executor in self._executors for one in executor.finish()]
        # As if all had sat together: by step, and then in the order of the rules.
        for one in sorted(said, key=lambda one: (one.item, self._place[one.code])):
            for finding in one.findings:
                self._tell(finding)
            for text in one.problems:
                self._problem(text)

    def _tell(self, finding: Finding) -> None:
        self._findings[finding.id] = finding
        opened = finding.state is FindingState.OPEN
        if self._record:
            self._tasks.append(_Task(finding))
        if opened:
            self._to_act_on.append(finding)
        self._notify(Notice(Event.OPENED if opened else Event.CLOSED, finding=finding))

    def _problem(self, text: str) -> None:
        if text not in self._problems:
            self._problems.append(text)
            self._notify(Notice(Event.PROBLEM, text))

    def _away(self, what: str, error: StoreError) -> None:
        if what not in self._outages:
            self._outages.add(what)
            self._notify(Notice(Event.PROBLEM, f"{what} now; trying again. {error}"))

    def _denied(self, what: str, error: StoreDenied) -> None:
        if what not in self._refused:
            self._refused.add(what)
            # Not only told: whoever reads the summary must know that something was not done.
            self._problem(f"{what}; trying again. {error}")

    def _back(self, what: str) -> None:
        if what in self._outages:
            self._outages.discard(what)
            self._notify(Notice(Event.PROBLEM, f"{what} no more: the store is back."))

    def _allowed(self, what: str) -> None:
        if what in self._refused:
            self._refused.discard(what)
            self._notify(Notice(Event.PROBLEM, f"{what} no more: the store allows it again."))

    def _notify(self, notice: Notice) -> None:
        self._notices.append(notice)
        failed = []
        for notifier in self._notifiers:
            try:
                notifier.notify(notice)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - a notifier may be anybody's, and raise anything
                failed.append(f"{type(notifier).__name__} could not tell: {type(error).__name__}: {error}")
        if self._post is not None:
            self._post.take(notice)
        for text in failed:
            self._problem(text)

    def _take_delivery_reports(self) -> None:
        if self._post is not None:
            for text in self._post.problems():
                self._problem(text)
            self._dirty = self._post.changed() or self._dirty

    def _work(self) -> None:
        waiting: list[_Task] = []
        failing: set[str] = set()
        for task in self._tasks:
            what = type(task.action).__name__ if task.action else "Findings"
            if what in failing:
                # One request tells; with many findings, trying each would take long at every turn.
                waiting.append(task)
                continue
            refused, away = f"{what}: the store refuses it", f"{what} cannot reach the store"
            try:
                self._do(task)
            except StoreError as error:
                waiting.append(task)
                failing.add(what)
                if isinstance(error, StoreDenied):
                    self._denied(refused, error)
                else:
                    self._away(away, error)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - an action may be anybody's, and raise anything
                self._problem(f"{what} failed: {type(error).__name__}: {error}")
            else:
                self._back(away)
                self._allowed(refused)
        self._tasks = waiting

    def _do(self, task: _Task) -> None:
        if task.action is None:
            write_event(self._store, task.finding)
        elif done := task.action.act(task.finding, self._store):
            self._asked = True
            self._notify(Notice(Event.ACTION, done, task.finding))

    def _save(self, *, at_once: bool) -> None:
        due = at_once or self._clock.monotonic() - self._saved_at >= SAVE_SECS
        # What waits to be written is not remembered as done. What waits to be acted on may be: who goes on from
        # here acts on what is open then.
        if not (self._record and self._dirty and due) or any(task.action is None for task in self._tasks):
            return
        judges: dict[str, dict[str, Any]] = {}
        for executor in self._executors:
            states, problems = executor.state()
            judges.update({rule.code: saved for rule, saved in zip(executor.rules, states, strict=True)})
            for problem in problems:
                self._problem(problem)
        state = {
            "cursor": self._cursor, "judges": [judges[rule.code] for rule in self.rules],
            "progress": {group: item.to_json() for group, item in self._progress.items()},
            "pulse": self._pulse.to_json(),
            "problems": self._problems, "damage": self._damage, "steps": self._steps,
            "answered": list(self._answered),
            "post": self._post.to_json() if self._post else self._told,
        }
        denied = "Nothing is recorded in the run, which may not be written"
        try:
            write_state(self._store, state)
        except StoreDenied as error:
            self._denied(denied, error)
            self._saved_at = self._clock.monotonic()
        except StoreError as error:
            self._away("The watcher's state cannot be saved", error)
        else:
            self._back("The watcher's state cannot be saved")
            self._allowed(denied)
            self._dirty = False
            self._saved_at = self._clock.monotonic()
