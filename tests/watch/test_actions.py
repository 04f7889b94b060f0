"""What is done about findings: which, how often, and what would have been."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from barograph.errors import UnknownName
from barograph.judging.state import STATE
from barograph.model.actions import ActionName
from barograph.model.clock import ManualClock
from barograph.model.finding import Finding, FindingState, Severity
from barograph.model.manifest import Coverage, EndState, Heartbeat
from barograph.model.settings import Settings, settings_from_mapping
from barograph.model.step import Mode
from barograph.queries.summary import summary_of
from barograph.rules.base import Rule, with_severity
from barograph.runs.state.control import Done, answer, read_requests, read_stop
from barograph.store.base import Store
from barograph.watch.actions import SaveStep, Stop, When, actions_from_settings, asked_and_not_allowed
from barograph.watch.closing import closing_text
from barograph.watch.loop import Watcher
from barograph.watch.notices import Event, Notice

FINDING = Finding(
    id="L101-40-000000000000", code="L101", rule="loss-not-decreasing", severity=Severity.COSTLY,
    state=FindingState.OPEN, message="It rose.", remedy="Lower it.", evidence=(), subject="", worker="p0",
    optimizer="", mode=Mode.TRAIN, since_step=40, opened_step=41, last_step=41, closed_step=None, opened_unix=0.0,
)


def finding(step: int = 41, **changes: Any) -> Finding:
    return replace(FINDING, id=f"L101-{step}-000000000000", opened_step=step, **changes)


def settings(**data: Any) -> Settings:
    return settings_from_mapping(data)


def done(store: Store, asked_by: Finding, action: str, step: int) -> None:
    answer(store, Done(action, asked_by.id, 0, "p0", step, 9.0, "did it"))


class Received:
    def __init__(self) -> None:
        self.actions: list[str] = []

    def notify(self, notice: Notice) -> None:
        if notice.event is Event.ACTION:
            self.actions.append(notice.text)


# Which


def test_what_is_costly_is_acted_on_and_what_a_rule_says_itself_comes_first() -> None:
    (stop,) = actions_from_settings(settings(on_finding="stop", rule_settings={
        "L101": {"actions": []}, "G101": {"actions": ["stop"]}}))
    assert isinstance(stop, Stop)
    when = stop.when

    assert when.applies(finding(code="N101"))
    assert not when.applies(finding(code="N101", severity=Severity.DOUBTFUL))
    assert not when.applies(finding())
    assert when.applies(finding(code="G101", severity=Severity.NOTE))


def test_a_rule_may_have_an_action_where_nothing_else_has() -> None:
    (stop,) = actions_from_settings(settings(rule_settings={"L101": {"actions": ["stop"]}}))
    assert isinstance(stop, Stop)

    assert stop.when.applies(finding(severity=Severity.NOTE))
    assert not stop.when.applies(finding(code="N101", severity=Severity.BREAKING))


def test_there_is_nothing_to_do_unless_it_is_asked_for() -> None:
    assert actions_from_settings(Settings()) == []


def test_what_is_asked_for_and_not_allowed_is_known() -> None:
    asked = settings(on_finding="lower-lr", rule_settings={"L101": {"actions": ["skip-step", "stop"]}})

    assert asked_and_not_allowed(asked) == [ActionName.LOWER_LR, ActionName.SKIP_STEP]
    assert asked_and_not_allowed(replace(asked, allow=(ActionName.LOWER_LR,))) == [ActionName.SKIP_STEP]


# How often


def test_learning_rates_are_lowered_once_for_a_finding_and_not_for_what_came_before(store: Store) -> None:
    (lower,) = actions_from_settings(settings(on_finding="lower-lr"))
    assert lower.act(finding(41), store) == (
        "asked the training to multiply the learning rate by 0.5, because of L101 loss-not-decreasing")

    assert lower.act(finding(41), store) == ""
    assert lower.act(finding(45), store) == ""  # nobody has answered yet
    done(store, finding(41), "lower-lr", 50)
    assert lower.act(finding(48), store) == ""  # opened before it was lowered
    assert lower.act(finding(60), store) != ""
    assert [asked.options for asked in read_requests(store, attempt=0)] == [{"factor": 0.5, "floor": 0.0}] * 2


def test_learning_rates_are_lowered_so_often_and_no_more(store: Store) -> None:
    (lower,) = actions_from_settings(settings(on_finding="lower-lr", action_settings={"lower-lr": {"at_most": 2}}))
    asked = []
    for step in (41, 60, 80, 100):
        asked.append(lower.act(finding(step), store) != "")
        if asked[-1]:
            done(store, finding(step), "lower-lr", step + 5)

    assert asked == [True, True, False, False]


def test_another_process_and_another_optimizer_are_lowered_on_their_own(store: Store) -> None:
    (lower,) = actions_from_settings(settings(on_finding="lower-lr"))

    for number, changes in enumerate(({}, {"worker": "p1"}, {"optimizer": "critic"})):
        assert lower.act(replace(finding(**changes), id=f"L101-4-{number}"), store) != ""
    assert [(item.worker, item.optimizer) for item in read_requests(store, attempt=0)] == [
        ("p0", ""), ("p1", ""), ("p0", "critic")]


def test_steps_are_skipped_for_each_finding_so_often_and_no_more(store: Store) -> None:
    (skip,) = actions_from_settings(settings(on_finding="skip-step", action_settings={
        "skip-step": {"steps": 3, "at_most": 2}}))

    assert [skip.act(finding(step), store) for step in (41, 41, 45, 60)] == [
        "asked the training to skip the next 3 steps, because of L101 loss-not-decreasing", "",
        "asked the training to skip the next 3 steps, because of L101 loss-not-decreasing", ""]


def test_the_step_of_a_finding_is_saved_beside_whatever_else_is_done(store: Store) -> None:
    how = settings(on_finding="stop", recorder={"capsule_on": ["loss-not-decreasing"], "at_most": 2})
    save = next(item for item in actions_from_settings(how) if isinstance(item, SaveStep))
    stop = next(item for item in actions_from_settings(how) if isinstance(item, Stop))

    assert save.act(finding(code="G101"), store) == ""
    assert [save.act(finding(step, severity=Severity.NOTE), store) for step in (41, 41, 45, 60)] == [
        "asked the training to save step 40, or 41, or the next one, as a capsule, because of L101 "
        "loss-not-decreasing", "",
        "asked the training to save step 40, or 45, or the next one, as a capsule, because of L101 "
        "loss-not-decreasing", ""]
    assert [(item.action, item.options) for item in read_requests(store, attempt=0)] == [
        ("capsule", {"step": 41.0, "since": 40.0}), ("capsule", {"step": 45.0, "since": 40.0})]
    assert stop.act(finding(), store) != ""
    assert asked_and_not_allowed(how) == []


def test_a_rule_that_is_none_saves_nothing() -> None:
    with pytest.raises(UnknownName, match="loss-not-decreasing"):
        actions_from_settings(settings(recorder={"capsule_on": ["loss-not-decreasin"]}))


def test_a_stop_asks_for_a_checkpoint_where_that_is_wanted(store: Store) -> None:
    (stop,) = actions_from_settings(settings(on_finding="checkpoint-then-stop"))

    assert stop.act(finding(), store) == (
        "asked the training to save a checkpoint and stop, because of L101 loss-not-decreasing")
    asked = read_stop(store, attempt=0)
    assert asked is not None
    assert asked.checkpoint


# In the loop


def watcher(
    store: Store, clock: ManualClock, rule: type[Rule], received: Received, on_finding: str, **more: Any
) -> Watcher:
    actions = actions_from_settings(settings(on_finding=on_finding))
    return Watcher(store, [rule()], notifiers=[received], actions=actions, clock=clock, **more)


@pytest.mark.parametrize(("on_finding", "text"), [
    ("stop", "would have stopped the training at step 1, because of X901 high"),
    ("checkpoint-then-stop",
     "would have had a checkpoint saved and stopped the training at step 1, because of X901 high"),
    ("lower-lr", "would have asked at step 1 to multiply the learning rate by 0.5, because of X901 high"),
    ("skip-step", "would have asked at step 1 to skip the next step, because of X901 high"),
    ("capsule", "would have asked to save step 1, or the next one, as a capsule, because of X901 high"),
])
def test_of_a_run_that_is_over_it_is_said_what_would_have_been_done(
    store: Store, training: Any, clock: ManualClock, high: type[Rule], on_finding: str, text: str
) -> None:
    training.steps(0.5, 2.0, 2.0)
    training.end()
    received = Received()
    watcher(store, clock, high, received, on_finding).poll()

    assert received.actions == [text]
    assert [item.name for item in store.list("control")] == []


def test_only_the_first_finding_would_have_stopped_a_training(
    store: Store, training: Any, clock: ManualClock, high: type[Rule]
) -> None:
    training.steps(0.5, 2.0, 0.1, 0.1, 0.1, 0.1, 3.0)
    training.end()
    received = Received()
    watcher(store, clock, high, received, "stop").poll()

    assert received.actions == ["would have stopped the training at step 1, because of X901 high"]


def test_what_was_done_is_not_said_to_have_been_possible_when_somebody_looks_again(
    store: Store, training: Any, clock: ManualClock, high: type[Rule]
) -> None:
    training.steps(0.5, 2.0)
    watcher(store, clock, high, Received(), "stop").poll()
    training.end()
    received = Received()
    watcher(store, clock, high, received, "stop").poll()

    assert received.actions == []


def test_what_was_asked_by_a_watcher_that_was_killed_at_once_is_not_said_to_have_been_possible(
    store: Store, training: Any, clock: ManualClock, high: type[Rule]
) -> None:
    training.steps(0.5, 2.0)
    watcher(store, clock, high, Received(), "stop").poll()
    store.delete(STATE)  # it did not come to remember
    training.end()
    received = Received()
    watcher(store, clock, high, received, "stop").poll()
    again = Received()
    watcher(store, clock, high, again, "stop", dry=True, record=False).poll()

    assert [text for text in received.actions if "would" in text] == []
    assert again.actions == ["would have stopped the training at step 1, because of X901 high"]


def test_a_training_that_was_stopped_would_not_have_been_stopped_by_another_finding(
    store: Store, training: Any, clock: ManualClock, high: type[Rule]
) -> None:
    training.steps(0.5, 2.0)
    watcher(store, clock, high, Received(), "stop").poll()
    training.steps(0.1, 0.1, 0.1, 0.1, 3.0)  # what it did before it read the request
    training.end()
    received = Received()
    again = watcher(store, clock, high, received, "stop")
    again.poll()

    assert len(summary_of(store, again.judged).findings) == 2
    assert received.actions == []


def test_what_would_have_been_done_stands_in_the_summary(
    store: Store, training: Any, clock: ManualClock, high: type[Rule]
) -> None:
    training.steps(0.5, 2.0)
    training.end()
    looking = watcher(store, clock, high, Received(), "lower-lr", dry=True, record=False)
    looking.poll()
    summary = summary_of(store, looking.judged)

    text = "would have asked at step 1 to multiply the learning rate by 0.5, because of X901 high"
    assert f"  not done  {text}" in closing_text(summary).splitlines()
    assert summary.to_json()["would_have"] == [{"finding_id": summary.findings[0].id, "text": text}]
    assert summary.to_json()["actions"] == []


def test_a_dry_look_at_a_run_that_goes_on_asks_nothing(
    store: Store, training: Any, clock: ManualClock, high: type[Rule]
) -> None:
    training.steps(0.5, 2.0)
    received = Received()
    watcher(store, clock, high, received, "stop", dry=True, record=False).poll()

    assert received.actions == ["would have stopped the training at step 1, because of X901 high"]
    assert read_stop(store, attempt=0) is None


def test_what_the_training_answers_is_told_once_over_restarts_too(
    store: Store, training: Any, clock: ManualClock, high: type[Rule]
) -> None:
    training.steps(0.5, 2.0)
    received = Received()
    first = watcher(store, clock, high, received, "lower-lr")
    first.poll()
    (asked,) = read_requests(store, attempt=0)
    answer(store, Done("lower-lr", asked.finding_id, 0, "p0", 7, 9.0, "lowered the learning rate from 0.1 to 0.05"))
    clock.advance(1.0)
    first.poll()
    first.poll()
    first.close()
    clock.advance(1.0)
    watcher(store, clock, high, received, "lower-lr").poll()

    assert received.actions == [
        "asked the training to multiply the learning rate by 0.5, because of X901 high",
        "p0 lowered the learning rate from 0.1 to 0.05 after 7 steps, because of X901 high"]


def test_the_summary_says_who_asked_and_what_was_done(
    store: Store, training: Any, clock: ManualClock, high: type[Rule]
) -> None:
    training.steps(0.5, 2.0)
    looking = watcher(store, clock, high, Received(), "lower-lr")
    looking.poll()
    before = closing_text(summary_of(store, looking.judged))
    (asked,) = read_requests(store, attempt=0)
    answer(store, Done("lower-lr", asked.finding_id, 0, "p0", 7, 9.0, "lowered the learning rate from 0.1 to 0.05"))
    summary = summary_of(store, looking.judged)

    assert "done      lower-lr, requested by X901 high: no response yet" in before
    assert ("done      lower-lr, requested by X901 high: p0 lowered the learning rate from 0.1 to 0.05 after 7 steps"
            in closing_text(summary))
    assert summary.to_json()["actions"] == [{
        "action": "lower-lr", "finding_id": asked.finding_id, "reason": "X901 high: The loss is 2.",
        "requested_unix": asked.requested_unix, "worker": "p0", "step": 7, "done_unix": 9.0,
        "result": "lowered the learning rate from 0.1 to 0.05", "done": True}]


@pytest.mark.parametrize(("state", "ended"), [(EndState.FINISHED, "finished"), (EndState.FAILED, "failed")])
def test_of_a_training_that_ended_first_the_summary_says_so_instead_of_waiting_for_a_response(
    store: Store, training: Any, clock: ManualClock, high: type[Rule], state: EndState, ended: str
) -> None:
    training.heartbeat = Heartbeat(beat=1, time_unix=0.0, step=2, coverage=Coverage(steps=2))
    training.steps(0.5, 2.0)
    live = watcher(store, clock, high, Received(), "stop")
    live.poll()
    training.end(state)
    live.poll()

    summary = summary_of(store, live.judged)

    assert [item.result for item in summary.actions] == [
        f"the training {ended} after 2 steps, before it read the request"]
    assert f"  not done  stop, requested by X901 high: the training {ended}" in closing_text(summary)


def test_a_severity_of_the_users_own_stands_in_the_finding(
    store: Store, training: Any, clock: ManualClock, high: type[Rule]
) -> None:
    training.steps(0.5, 2.0)
    looking = Watcher(store, [with_severity(high(), Severity.NOTE)], actions=[Stop(clock=clock)], clock=clock)
    looking.poll()

    assert [item.severity for item in looking.findings] == [Severity.NOTE]
    assert read_stop(store, attempt=0) is None


def test_when_by_code_alone() -> None:
    make: Callable[..., When] = When

    assert not make(at_least=None).applies(finding(severity=Severity.BREAKING))
    assert make(at_least=None, codes=frozenset({"L101"})).applies(finding(severity=Severity.NOTE))


# Checkpoints at findings


def test_a_checkpoint_is_asked_for_and_not_again_before_it_is_saved(store: Store) -> None:
    (saves,) = actions_from_settings(settings(checkpoints={"every_steps": 100, "at_findings": True}))
    assert saves.act(finding(41), store) == (
        "asked the training to save a checkpoint, because of L101 loss-not-decreasing")
    assert saves.act(finding(42), store) == ""
    done(store, finding(41), "checkpoint", 44)
    assert saves.act(finding(45), store) != ""
    assert saves.act(finding(46, severity=Severity.DOUBTFUL), store) == ""
    assert [asked.action for asked in read_requests(store, attempt=0)] == ["checkpoint", "checkpoint"]
    assert saves.would(FINDING) == (
        "would have had a checkpoint saved at step 41, because of L101 loss-not-decreasing")


def test_without_that_setting_findings_save_nothing() -> None:
    assert actions_from_settings(settings(checkpoints="auto")) == []
