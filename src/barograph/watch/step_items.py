"""Converts the steps of a run to the input of rules, and counts them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from barograph.errors import BarographError, StoreDenied, StoreError
from barograph.judging.progress import Progress, RateJump, progress_from_json, rate_jumps_in
from barograph.model.clock import Clock
from barograph.model.key import Kind
from barograph.model.selection import Selection
from barograph.rules.base import Rule
from barograph.runs.reading.view import StepView
from barograph.store.base import Store
from barograph.watch.announcer import Announcer
from barograph.watch.beside import Beside
from barograph.watch.executor import Item, NewAttempt
from barograph.watch.expectations import Expectations
from barograph.watch.pulse import Pulse

_MACHINE_ALONE = frozenset({Kind.MACHINE})


class StepItems:
    """Converts the steps of a run to the input of rules.

    Args:
        store: Store of the run.
        rules: Their requirements determine what is added to a step.
        expected: Selections that something recorded should match.
        open_run: Opens another run, for rules that compare with one.
        announcer: Reports problems.
        clock: Measures silence.

    Attributes:
        steps: Number of steps so far, including those before a restart.
        feels_pulse: Whether a rule needs vital views.
    """

    def __init__(
        self, store: Store, rules: Sequence[Rule], expected: Iterable[Selection],
        open_run: Callable[[str], Store], announcer: Announcer, clock: Clock,
    ) -> None:
        self.steps = 0
        self.feels_pulse = any(Kind.VITAL in need.kinds for rule in rules for need in rule.needs)
        self._expected = Expectations(expected)
        self._others: dict[str, Beside | None] = {rule.other_run: None for rule in rules if rule.other_run}
        self._open_run = open_run
        self._announcer = announcer
        self._clock = clock
        self._pulse = Pulse(store, clock)
        self._progress: dict[str, Progress] = {}

    @property
    def unmet(self) -> tuple[str, ...]:
        """Expected selections that nothing has matched, one sentence each."""
        return self._expected.unmet()

    @property
    def rate_jumps(self) -> tuple[RateJump, ...]:
        """Steps at which a learning rate jumped."""
        return rate_jumps_in(self._progress)

    @property
    def last_attempt(self) -> int:
        """The newest attempt so far."""
        return max((item.attempt for item in self._progress.values()), default=0)

    @property
    def progress(self) -> dict[str, Progress]:
        """Progress of each group of workers."""
        return dict(self._progress)

    def of_view(self, view: StepView) -> Iterator[Item]:
        """Yield the items of a step: those about the time before it, and the step."""
        self.steps += view.kinds != _MACHINE_ALONE
        self._expected.take(view)
        progress = self._progress.setdefault(view.group, Progress(view.attempt))
        if view.attempt > progress.attempt:
            yield NewAttempt(view.group)
        progress.take(view)
        if self.feels_pulse:
            yield from self._pulse.before(view)
        yield self._with_others(view) if self._others else view

    def vital_signs(self, *, over: bool) -> list[Item]:
        """Return vital views of a run that has no new steps.

        Args:
            over: The run has ended.

        Raises:
            StoreDenied: The store refuses to be read.
        """
        try:
            signs = list(self._pulse.at_end() if over else self._pulse.now())
        except StoreDenied:
            raise
        except StoreError as error:
            self._announcer.away("The heartbeats cannot be read", error)
            return []
        self._announcer.back("The heartbeats cannot be read")
        for sign in signs:
            self._progress.setdefault(sign.group, Progress(sign.attempt))
        return list(signs)

    def to_json(self) -> dict[str, Any]:
        """Return its part of the saved state."""
        return {"progress": {group: item.to_json() for group, item in self._progress.items()},
                "pulse": self._pulse.to_json(), "steps": self.steps}

    def load(self, state: Mapping[str, Any]) -> None:
        """Load what `to_json` returned."""
        self.steps = state["steps"]
        self._pulse.load(state["pulse"])
        self._progress = {group: progress_from_json(saved) for group, saved in state["progress"].items()}

    def _with_others(self, view: StepView) -> StepView:
        found: dict[str, StepView] = {}
        for place in self._others:
            try:
                other = self._others[place] = self._others[place] or Beside(self._open_run(place), self._clock)
                same = other.of(view)
            except BarographError as error:
                self._announcer.problem(
                    f"The run {place}, which this one is to be compared with, cannot be read: {error}")
                continue
            if same is not None:
                found[place] = same
        return view.with_beside(found)
