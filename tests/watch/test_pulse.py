"""Signs of life: what silence, drops and a bad end look like to a rule, live and after the fact."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import pytest

from barograph.model.clock import ManualClock
from barograph.model.finding import Evidence, FindingState, Severity, Symptom
from barograph.model.key import Key, Kind
from barograph.model.manifest import EndState
from barograph.model.records import StepRecords
from barograph.model.selection import Selection
from barograph.model.step import Step
from barograph.rules.base import Memory, Rule, parameter
from barograph.runs.reading.view import StepView
from barograph.store.base import Store
from barograph.watch.loop import Watcher
from barograph.watch.pulse import SILENCE

Training = Any  # of conftest.py


@dataclass(frozen=True, kw_only=True)
class Felt(Rule):
    """X910: Some sign of life is above its limit."""

    code: ClassVar[str] = "X910"
    name: ClassVar[str] = "felt"
    severity: ClassVar[Severity] = Severity.COSTLY
    needs = (Selection(kinds=frozenset({Kind.VITAL})),)

    threshold: float = parameter(1800.0, "Limit.")
    path: str = parameter("silence_secs", "Which sign.")
    recovery: int = parameter(1, "The sign that all is well again comes once.", at_least=1)

    def judge(self, view: StepView, memory: Memory) -> Iterable[Symptom]:
        for key, value in view.scalars(Kind.VITAL).items():
            if key.path.startswith(self.path) and value > self.threshold:
                yield Symptom(f"{key.path} is {value:g}.", "Look.",
                              (Evidence(key, view.step.number, "value", value, self.threshold),))


def records(training: Training, number: int, time_unix: float) -> None:
    training.writer.put(StepRecords(Step(number, number, time_unix=time_unix), scalars={Key(Kind.LOSS, "total"): 1.0}))


def publish(training: Training) -> None:
    for _ in range(3):
        training.writer.turn()
        training.clock.advance(1.0)


def polled(watcher: Watcher, times: int, clock: ManualClock, secs: float) -> None:
    for _ in range(times):
        watcher.poll()
        clock.advance(secs)


def test_live_a_training_that_hangs_is_found_at_its_last_step(
    store: Store, training: Training, clock: ManualClock
) -> None:
    records(training, 0, 1000.0)
    records(training, 1, 1001.0)
    publish(training)
    watcher = Watcher(store, [Felt()], clock=clock)
    polled(watcher, 150, clock, 12.0)
    assert watcher.findings == ()
    polled(watcher, 10, clock, 12.0)
    (found,) = watcher.findings
    assert (found.since_step, found.state) == (1, FindingState.OPEN)
    assert found.evidence[0].key == SILENCE


def test_after_the_fact_the_same_is_found_and_is_gone_with_the_next_step(
    store: Store, training: Training, clock: ManualClock
) -> None:
    records(training, 0, 1000.0)
    records(training, 1, 1001.0)
    records(training, 2, 4001.0)
    publish(training)
    training.end()
    watcher = Watcher(store, [Felt()], clock=clock)
    watcher.poll()
    (found,) = watcher.findings
    assert (found.since_step, found.closed_step, found.evidence[0].value) == (1, 2, 3000.0)


def test_live_and_replay_call_the_finding_the_same(store: Store, training: Training, clock: ManualClock) -> None:
    records(training, 0, 1000.0)
    publish(training)
    live = Watcher(store, [Felt()], clock=clock)
    polled(live, 200, clock, 12.0)
    records(training, 1, 4000.0)
    publish(training)
    training.end()
    live.poll()
    replay = Watcher(store, [Felt()], clock=clock, record=False)
    replay.poll()
    assert [item.id for item in live.findings] == [item.id for item in replay.findings]
    assert len(live.findings) == 1


def test_steps_that_the_budget_passed_over_are_signs_of_life(
    store: Store, training: Training, clock: ManualClock
) -> None:
    records(training, 0, 1000.0)
    publish(training)
    watcher = Watcher(store, [Felt()], clock=clock)
    for number in range(200):
        training.heartbeat = replace(training.heartbeat, step=number)
        training.writer.turn()
        polled(watcher, 1, clock, 12.0)
    assert watcher.findings == ()


def test_a_restarted_watcher_remembers_that_silence_was_told(
    store: Store, training: Training, clock: ManualClock
) -> None:
    records(training, 0, 1000.0)
    publish(training)
    first = Watcher(store, [Felt()], clock=clock)
    polled(first, 200, clock, 12.0)
    first.close()
    records(training, 1, 3600.0)
    publish(training)
    second = Watcher(store, [Felt()], clock=clock)
    second.poll()
    assert [item.state for item in second.findings] == [FindingState.CLOSED]


def test_waiting_for_the_first_step_is_told_apart(store: Store, training: Training, clock: ManualClock) -> None:
    watcher = Watcher(store, [Felt(path="waiting_secs")], clock=clock)
    training.writer.turn()
    polled(watcher, 170, clock, 12.0)
    (found,) = watcher.findings
    assert found.message.startswith("waiting_secs is 18")


def test_dropped_steps_are_counted(store: Store, clock: ManualClock, new_training: type[Training]) -> None:
    training = new_training(store, clock, queue_bytes=1000)
    for number in range(10):
        records(training, number, 1000.0)
    publish(training)
    watcher = Watcher(store, [Felt(path="dropped_steps", threshold=0.0)], clock=clock)
    polled(watcher, 2, clock, 12.0)
    assert [item.message for item in watcher.findings] == ["dropped_steps is 5."]


@pytest.mark.parametrize(("state", "messages"), [
    (EndState.FAILED, ["failed[RuntimeError: in place] is 1."]), (EndState.FINISHED, []), (EndState.STOPPED, []),
])
def test_how_the_run_ended_is_told_once(
    store: Store, training: Training, clock: ManualClock, state: EndState, messages: list[str]
) -> None:
    records(training, 3, 1000.0)
    publish(training)
    training.writer.close(state, "RuntimeError:  in\nplace")
    watcher = Watcher(store, [Felt(path="failed", threshold=0.0)], clock=clock)
    polled(watcher, 3, clock, 1.0)
    assert [item.message for item in watcher.findings] == messages
    assert all(item.since_step == 3 for item in watcher.findings)


def test_a_script_that_fails_before_its_first_step_is_told_as_well(
    store: Store, training: Training, clock: ManualClock
) -> None:
    training.writer.close(EndState.FAILED, "ValueError: no")
    watcher = Watcher(store, [Felt(path="failed", threshold=0.0)], clock=clock)
    polled(watcher, 2, clock, 1.0)
    assert [item.message for item in watcher.findings] == ["failed[ValueError: no] is 1."]


def test_where_no_rule_feels_the_pulse_no_heartbeat_is_read(
    store: Store, training: Training, clock: ManualClock, high: type[Rule], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barograph.watch.pulse.heartbeat_of", lambda *_: pytest.fail("a heartbeat was read"))
    training.steps(0.5)
    watcher = Watcher(store, [high()], clock=clock)
    polled(watcher, 20, clock, 12.0)
