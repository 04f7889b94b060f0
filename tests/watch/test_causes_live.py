"""The cause that is named while a training runs is the one that the summary names."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from rich.console import Console

from barograph.model.cause import Cause, Suspicion
from barograph.model.clock import ManualClock
from barograph.model.finding import Severity, Symptom
from barograph.model.key import Key, Kind
from barograph.model.selection import Selection
from barograph.queries.summary import summary_of
from barograph.rules.base import Memory, Rule, Unjudged, parameter
from barograph.runs.reading.view import StepView
from barograph.runs.state.control import read_stop
from barograph.store.base import Store
from barograph.watch.actions import Stop
from barograph.watch.loop import Watcher
from barograph.watch.terminal import TerminalNotifier
from watched import Training

LOSS = Key(Kind.LOSS, "total")


@dataclass(frozen=True, kw_only=True)
class Collapse(Rule):
    """A103: The consequence, which opens at a loss above 2."""

    code: ClassVar[str] = "A103"
    name: ClassVar[str] = "activation-collapse"
    severity: ClassVar[Severity] = Severity.COSTLY
    needs = (Selection(kinds=frozenset({Kind.LOSS})),)

    threshold: float = parameter(2.0, "Highest loss.")
    cause: str = parameter(Cause.REPRESENTATION_COLLAPSE.value, "Cause.")
    weight: float = parameter(0.5, "Weight of the cause.")

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom | Unjudged]:
        loss = view.scalar(LOSS)
        if loss is not None and loss > self.threshold:
            yield Symptom(f"{self.name} at {loss:g}.", f"Fix {self.name}.", (),
                          causes=(Suspicion(self.cause, self.weight, f"{self.name} was seen"),))


@dataclass(frozen=True, kw_only=True)
class LargeUpdate(Collapse):
    """W101: The cause, which opens at a loss above 3."""

    code: ClassVar[str] = "W101"
    name: ClassVar[str] = "weight-update-ratio"
    severity: ClassVar[Severity] = Severity.DOUBTFUL

    threshold: float = parameter(3.0, "Highest loss.")
    cause: str = parameter(Cause.LEARNING_RATE_TOO_HIGH.value, "Cause.")
    weight: float = parameter(0.9, "Weight of the cause.")


def watched(store: Store, clock: ManualClock) -> tuple[Watcher, io.StringIO]:
    written = io.StringIO()
    notifier = TerminalNotifier(Console(file=written, width=200))
    watcher = Watcher(store, [Collapse(), LargeUpdate()], notifiers=[notifier], actions=[Stop(clock=clock)],
                      clock=clock)
    notifier.found = lambda: watcher.found
    return watcher, written


def test_of_findings_that_open_together_the_cause_is_shown_and_not_its_consequence(
    store: Store, training: Training, clock: ManualClock
) -> None:
    training.steps(1.0, 4.0)
    watcher, written = watched(store, clock)

    watcher.poll()

    shown = written.getvalue().splitlines()
    assert [line for line in shown if line.startswith(("costly", "doubtful"))] == [
        "costly    The learning rate is too high (since step 1, W101)"]
    assert summary_of(store, watcher.judged).problems[0].title == "The learning rate is too high"


def test_a_cause_that_is_found_later_replaces_what_was_shown(
    store: Store, training: Training, clock: ManualClock
) -> None:
    watcher, written = watched(store, clock)
    training.steps(1.0, 2.5)
    watcher.poll()
    first = written.getvalue()
    training.steps(4.0, first=2)

    watcher.poll()

    assert "since step 1, A103" in first.splitlines()[0]
    later = written.getvalue().removeprefix(first).splitlines()
    assert later[0] == "costly    The learning rate is too high (since step 2, W101)"
    assert later[2].startswith("          replaces: ")


def test_a_stop_names_the_cause_also_where_only_its_consequence_is_costly(
    store: Store, training: Training, clock: ManualClock
) -> None:
    training.steps(1.0, 4.0)
    watcher, written = watched(store, clock)

    watcher.poll()

    stop = read_stop(store, attempt=0)
    assert stop is not None
    assert stop.reason == "W101 weight-update-ratio: weight-update-ratio at 4."
    assert "asked the training to stop, because of W101 weight-update-ratio" in written.getvalue()
