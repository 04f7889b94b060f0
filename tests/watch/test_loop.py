"""The loop: live and replay find the same, a kill at any moment loses and doubles nothing, nothing takes it down."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from barograph.errors import BadRule, DamagedChunk, NotARun, StoreDenied, StoreError, StoreFull, StoreUnavailable
from barograph.judging.state import STATE
from barograph.model.clock import ManualClock
from barograph.model.finding import Finding, FindingState
from barograph.model.manifest import EndState
from barograph.rules.base import Rule
from barograph.runs.format.metadata import sealed, unsealed
from barograph.runs.state.control import read_stop
from barograph.runs.state.findings import read_findings
from barograph.store.base import Store
from barograph.watch.actions import Stop
from barograph.watch.loop import Watcher
from barograph.watch.notices import Event, Notice
from watched import FailingStore

Training = Any  # of conftest.py

SICK_THEN_WELL = (0.5, 2.0, 3.0, 0.5, 0.5, 0.5, 0.5, 4.0, 0.1)


class Received:
    """A notifier that remembers."""

    def __init__(self) -> None:
        self.notices: list[Notice] = []

    def notify(self, notice: Notice) -> None:
        self.notices.append(notice)

    @property
    def events(self) -> list[str]:
        return [f"{item.event.value} {item.finding.since_step if item.finding else item.text}" for item in self.notices]


class Killed(BaseException):
    """The process is gone."""


def objects(store: Store, folder: str) -> dict[str, bytes]:
    return {item.name: bytes(store.get(item.name)) for item in store.list(folder)}


def clear(store: Store, *folders: str) -> None:
    for folder in folders:
        for item in store.list(folder):
            store.delete(item.name)


def test_a_finding_opens_and_closes_live(
    store: Store, training: Training, clock: ManualClock, high: type[Rule]
) -> None:
    received = Received()
    watcher = Watcher(store, [high()], notifiers=[received], clock=clock)

    training.steps(0.5, 2.0)
    watcher.poll()
    assert received.events == ["opened 1"]

    training.steps(2.0, 0.5, 0.5, 0.5, first=2)
    watcher.poll()
    assert received.events == ["opened 1", "closed 1"]

    (finding,) = watcher.findings
    assert (finding.state, finding.last_step, finding.closed_step) == (FindingState.CLOSED, 2, 5)
    assert read_findings(store).findings == watcher.findings


def test_replay_finds_what_live_found(store: Store, training: Training, clock: ManualClock, high: type[Rule]) -> None:
    live = Watcher(store, [high()], clock=clock)
    for number, loss in enumerate(SICK_THEN_WELL):
        training.steps(loss, first=number)
        live.poll()
    training.end()
    assert live.poll().ended
    events = objects(store, "findings")
    clear(store, "findings", "watch")

    replay = Watcher(store, [high()], clock=clock)

    assert replay.poll().ended
    assert objects(store, "findings") == events
    assert replay.findings == live.findings
    assert len(replay.findings) == 2


def test_a_watcher_started_again_goes_on_where_it_was(
    store: Store, training: Training, clock: ManualClock, high: type[Rule]
) -> None:
    training.steps(0.5, 2.0)
    Watcher(store, [high(patience=2)], clock=clock).poll()
    clock.advance(60)
    training.steps(2.0, first=2)
    received = Received()

    watcher = Watcher(store, [high(patience=2)], notifiers=[received], clock=clock)

    # Saved after a finding or a while: without either, the steps are judged again, to the same end.
    assert watcher.poll().steps in (1, 3)
    assert received.events == ["opened 1"]
    assert watcher.steps == 3


def test_a_restart_after_a_finding_judges_no_step_twice(
    store: Store, training: Training, clock: ManualClock, high: type[Rule]
) -> None:
    training.steps(0.5, 2.0)
    Watcher(store, [high()], clock=clock).poll()
    training.steps(2.0, 0.5, 0.5, 0.5, first=2)
    received = Received()

    watcher = Watcher(store, [high()], notifiers=[received], clock=clock)

    assert watcher.poll().steps == 4
    assert received.events == ["closed 1"]
    assert [(item.since_step, item.last_step) for item in watcher.findings] == [(1, 2)]


def watch_live(
    stores: list[Store], training: Training, clock: ManualClock, rule: Rule, losses: tuple[float, ...]
) -> Watcher:
    """Record a loss a second, with a poll after each; a watcher that is killed is started again on the next store."""
    watcher = Watcher(stores.pop(0), [rule], clock=clock)
    for number, loss in enumerate(losses):
        training.steps(loss, first=number)
        try:
            watcher.poll()
        except Killed:
            watcher = Watcher(stores.pop(0), [rule], clock=clock)
    training.end()
    try:
        watcher.poll()
    except Killed:
        watcher = Watcher(stores.pop(0), [rule], clock=clock)
    watcher.poll()
    return watcher


def test_killed_before_any_write_and_started_again_it_leaves_the_same_findings(
    new_store: Callable[[], Store], new_training: type[Training], high: type[Rule]
) -> None:
    rule = high(patience=2, recovery=2)
    losses = (0.5, 2.0, 3.0, 0.5, 0.5, 0.5, 2.0, 2.0, 0.1)
    store, clock = new_store(), ManualClock()
    whole = FailingStore(store, lambda verb, name: None)
    watch_live([whole], new_training(store, clock), clock, rule, losses)
    expected = objects(store, "findings")
    assert len(expected) == 3
    assert whole.writes >= 6

    for fatal in range(1, whole.writes + 1):
        store, clock = new_store(), ManualClock()
        dying = FailingStore(store, lambda verb, name: None)
        dying._fails = lambda verb, name, store=dying, at=fatal: Killed() if store.writes == at else None  # type: ignore[misc]
        watcher = watch_live([dying, store], new_training(store, clock), clock, rule, losses)

        assert objects(store, "findings") == expected
        assert [item.opened_step for item in watcher.findings] == [2, 7]


def test_other_rules_start_from_the_first_step(
    store: Store, training: Training, clock: ManualClock, high: type[Rule]
) -> None:
    training.steps(0.5, 2.0)
    Watcher(store, [high()], clock=clock).poll()

    stricter = Watcher(store, [high(threshold=0.1)], clock=clock)

    assert stricter.poll().steps == 2
    assert [item.since_step for item in stricter.findings] == [0]


def test_a_look_that_records_nothing_leaves_nothing(
    store: Store, training: Training, clock: ManualClock, high: type[Rule]
) -> None:
    training.steps(0.5, 2.0)
    before = objects(store, "")

    watcher = Watcher(store, [high()], clock=clock, record=False)
    watcher.poll()

    assert len(watcher.findings) == 1
    assert objects(store, "") == before


def test_stop_is_asked_while_the_run_goes_on(
    store: Store, training: Training, clock: ManualClock, high: type[Rule]
) -> None:
    training.steps(0.5, 2.0)
    received = Received()
    watcher = Watcher(store, [high()], notifiers=[received], actions=[Stop(clock=clock)], clock=clock)

    watcher.poll()

    stop = read_stop(store, attempt=0)
    assert stop is not None
    assert (stop.finding_id, stop.reason) == (watcher.findings[0].id, "X901 high: The loss is 2.")
    assert [item.text for item in received.notices if item.event is Event.ACTION] == [
        "asked the training to stop, because of X901 high"
    ]


def test_a_stop_is_asked_of_what_was_open_when_the_watching_began(
    store: Store, training: Training, clock: ManualClock, high: type[Rule]
) -> None:
    training.steps(0.5, 2.0)
    Watcher(store, [high()], clock=clock).poll()
    assert read_stop(store, attempt=0) is None

    watcher = Watcher(store, [high()], actions=[Stop(clock=clock)], clock=clock)
    watcher.poll()

    stop = read_stop(store, attempt=0)
    assert stop is not None
    assert stop.finding_id == watcher.findings[0].id


def test_a_run_that_was_started_again_is_not_stopped_for_what_was_known_then(
    store: Store, training: Training, new_training: type[Training], clock: ManualClock, high: type[Rule]
) -> None:
    training.steps(0.5, 2.0)
    Watcher(store, [high()], clock=clock).poll()
    training.end(EndState.FAILED)
    new_training(store, clock).steps(2.0, first=1)
    Watcher(store, [high()], clock=clock).close()
    received = Received()
    watcher = Watcher(store, [high()], notifiers=[received], actions=[Stop(clock=clock)], clock=clock)

    watcher.poll()
    again = Watcher(store, [high()], notifiers=[received], actions=[Stop(clock=clock)], clock=clock)
    again.poll()

    assert [item.attempt for item in again.findings if item.state is FindingState.OPEN] == [0]
    assert [text for text in received.events if text.startswith("action")] == []


@pytest.mark.parametrize("losses", [(0.5, 2.0, 0.5, 0.5, 0.5), (0.5, 2.0)])
def test_stop_is_not_asked_of_what_is_over(
    store: Store, training: Training, clock: ManualClock, high: type[Rule], losses: tuple[float, ...]
) -> None:
    training.steps(*losses)
    if len(losses) == 2:
        training.end()

    watcher = Watcher(store, [high()], actions=[Stop(clock=clock)], clock=clock)
    watcher.poll()

    assert len(watcher.findings) == 1
    assert read_stop(store, attempt=0) is None


def test_a_run_that_was_started_again_is_judged_afresh(
    store: Store, training: Training, new_training: type[Training], clock: ManualClock, high: type[Rule]
) -> None:
    watcher = Watcher(store, [high(patience=2)], clock=clock)
    training.steps(0.5, 2.0)
    watcher.poll()
    training.end(EndState.FAILED)
    again = new_training(store, clock)
    again.steps(2.0, first=1)
    again.steps(2.0, first=2)
    again.end()

    while not watcher.poll().ended:
        clock.advance(1)

    assert again.attempt == 1
    (finding,) = watcher.findings
    assert (finding.attempt, finding.since_step, finding.opened_step) == (1, 1, 2)


def test_an_impatient_watcher_judges_every_attempt_there_is(
    store: Store, training: Training, new_training: type[Training], clock: ManualClock, high: type[Rule]
) -> None:
    training.steps(0.5, 2.0)
    new_training(store, clock).steps(2.0, first=1)

    poll = Watcher(store, [high()], clock=clock, patient=False).poll()

    assert (poll.steps, poll.more) == (3, False)


def test_a_rule_that_raises_takes_no_other_down(
    store: Store, training: Training, clock: ManualClock, high: type[Rule], raises: type[Rule]
) -> None:
    received = Received()
    training.steps(0.5, 0.5, 0.5, 2.0)
    watcher = Watcher(store, [raises(), high()], notifiers=[received], clock=clock)

    watcher.poll()

    assert [item.code for item in watcher.findings] == ["X901"]
    assert received.events[0].startswith("problem The rule X902 raises is not used any more")
    again = Watcher(store, [raises(), high()], clock=clock)
    assert again.problems == watcher.problems
    assert [item.code for item in again.not_evaluated()] == ["X902"]


def test_a_notifier_or_an_action_that_raises_is_reported_and_the_others_go_on(
    store: Store, training: Training, clock: ManualClock, high: type[Rule]
) -> None:
    class Broken:
        def notify(self, notice: Notice) -> None:
            raise RuntimeError("no line")

        def act(self, finding: Finding, store: Store, lead: Finding | None = None) -> str:
            raise RuntimeError("no hand")

    received = Received()
    training.steps(0.5, 2.0)
    watcher = Watcher(store, [high()], notifiers=[Broken(), received], actions=[Broken(), Stop()], clock=clock)

    watcher.poll()

    assert watcher.problems == ("Broken failed: RuntimeError: no line", "Broken failed: RuntimeError: no hand")
    assert received.events[0] == "opened 1"
    assert read_stop(store, attempt=0) is not None


@pytest.mark.parametrize(
    ("verb", "folder"), [("list", ""), ("create", "findings/"), ("put", "watch/"), ("create", "control/")]
)
def test_a_store_that_is_away_is_told_once_and_nothing_is_lost(
    store: Store, training: Training, clock: ManualClock, high: type[Rule], verb: str, folder: str
) -> None:
    away = False

    def fails(asked: str, name: str) -> StoreError | None:
        return StoreUnavailable("away") if away and asked == verb and name.startswith(folder) else None

    received = Received()
    training.steps(0.5, 2.0)
    watcher = Watcher(FailingStore(store, fails), [high()], notifiers=[received], actions=[Stop()], clock=clock)
    away = True
    watcher.poll()
    watcher.poll()
    away = False
    clock.advance(60)
    watcher.poll()

    problems = [item.text for item in received.notices if item.event is Event.PROBLEM]
    assert len(problems) == 2
    assert "away" in problems[0]
    assert problems[1].endswith("no more: the store is back.")
    assert [item.since_step for item in read_findings(store).findings] == [1]
    assert read_stop(store, attempt=0) is not None
    assert received.events.count("opened 1") == 1


def test_what_a_full_disk_kept_from_the_run_is_named_in_the_end(
    store: Store, training: Training, clock: ManualClock, high: type[Rule]
) -> None:
    def fails(verb: str, name: str) -> StoreError | None:
        return StoreFull("No room is left.") if verb in ("put", "create") else None

    training.steps(0.5, 2.0)
    training.end()
    watcher = Watcher(FailingStore(store, fails), [high()], clock=clock)
    watcher.poll()
    watcher.close()

    assert watcher.problems == ("Some findings could not be written into the run and will be lost. "
                                "Watch the run again when its store is writable.",)


@pytest.mark.parametrize("state", [
    "[]", "{}", "not JSON", '{"judges": 7, "cursor": null}',
    '{"cursor": null, "judges": [3], "progress": {}, "pulse": {}, "problems": [], "damage": [], "steps": 0}',
])
def test_a_state_that_no_watcher_wrote_is_as_good_as_none(
    store: Store, training: Training, clock: ManualClock, high: type[Rule], state: str
) -> None:
    training.steps(0.5, 2.0)
    store.put(STATE, sealed({"version": 3, "state": state}))

    watcher = Watcher(store, [high()], clock=clock)
    watcher.poll()

    assert [item.since_step for item in watcher.findings] == [1]


def test_a_state_whose_inside_no_watcher_wrote_is_named_with_what_to_do(
    store: Store, training: Training, clock: ManualClock, high: type[Rule]
) -> None:
    training.steps(0.5, 2.0)
    first = Watcher(store, [high()], clock=clock)
    first.poll()
    first.close()
    state = json.loads(unsealed(store.get(STATE), STATE)["state"])
    store.put(STATE, sealed({"version": 3, "state": json.dumps({**state, "progress": {"p0": 7}})}))

    with pytest.raises(DamagedChunk, match=r"cannot be read: TypeError.*Delete it.*watch/state\.json"):
        Watcher(store, [high()], clock=clock)


def test_a_run_that_may_not_be_written_is_watched_all_the_same(
    store: Store, training: Training, clock: ManualClock, high: type[Rule]
) -> None:
    def fails(verb: str, name: str) -> StoreError | None:
        return StoreDenied("read-only") if verb in ("put", "create") else None

    training.steps(0.5, 2.0)
    watcher = Watcher(FailingStore(store, fails), [high()], clock=clock)

    watcher.poll()

    assert len(watcher.findings) == 1
    assert watcher.problems == ("Findings: the store refuses it; retrying. read-only",)


def test_a_state_that_may_not_be_written_is_told_once_and_written_when_it_may(
    store: Store, training: Training, clock: ManualClock, high: type[Rule]
) -> None:
    denied = True

    def fails(verb: str, name: str) -> StoreError | None:
        return StoreDenied("read-only") if denied and verb == "put" else None

    training.steps(0.5, 0.5)
    received = Received()
    watcher = Watcher(FailingStore(store, fails), [high()], notifiers=[received], clock=clock)
    for _ in range(2):
        clock.advance(60)
        watcher.poll()
    assert store.list("watch") == []
    denied = False
    clock.advance(60)
    watcher.poll()

    assert received.events == [
        "problem Nothing is recorded in the run, which may not be written; retrying. read-only",
        "problem Nothing is recorded in the run, which may not be written no more: the store allows it again.",
    ]
    assert len(store.list("watch")) == 1


@pytest.mark.parametrize("folder", ["control/", "findings/"])
def test_what_a_store_refuses_is_tried_again_and_told_once(
    store: Store, training: Training, clock: ManualClock, high: type[Rule], folder: str
) -> None:
    refusals = 0

    def fails(verb: str, name: str) -> StoreError | None:
        nonlocal refusals
        if verb == "create" and name.startswith(folder) and refusals < 2:
            refusals += 1
            # As stores do that number their answers.
            return StoreDenied(f"the token has expired (request {refusals})")
        return None

    training.steps(0.5, 2.0)
    received = Received()
    watcher = Watcher(FailingStore(store, fails), [high()], notifiers=[received], actions=[Stop()], clock=clock)
    for _ in range(3):
        watcher.poll()

    assert len([text for text in received.events if "the store refuses it; retrying." in text]) == 1
    assert len([text for text in received.events if text.endswith("the store allows it again.")]) == 1
    assert read_stop(store, attempt=0) is not None
    assert [item.since_step for item in read_findings(store).findings] == [1]


def test_of_many_findings_that_are_refused_one_is_tried_at_a_time(
    store: Store, training: Training, clock: ManualClock, high: type[Rule]
) -> None:
    tries = 0

    def fails(verb: str, name: str) -> StoreError | None:
        nonlocal tries
        tries += name.startswith("findings/") and verb == "create"
        return StoreDenied("read-only") if verb in ("put", "create") else None

    training.steps(*(2.0, 0.5, 0.5, 0.5) * 5)
    watcher = Watcher(FailingStore(store, fails), [high()], clock=clock)
    watcher.poll()
    watcher.poll()

    assert len(watcher.findings) == 5
    assert tries == 2


def test_a_damaged_state_is_as_good_as_none(
    store: Store, training: Training, clock: ManualClock, high: type[Rule]
) -> None:
    training.steps(0.5, 2.0)
    Watcher(store, [high()], clock=clock).poll()
    state = bytes(store.get("watch/state.json"))
    store.put("watch/state.json", state[: len(state) // 2])

    watcher = Watcher(store, [high()], clock=clock)

    assert watcher.poll().steps == 2
    assert len(watcher.findings) == 1
    assert json.loads(bytes(store.get("watch/state.json")))


def test_a_damaged_chunk_is_told_once(store: Store, training: Training, clock: ManualClock, high: type[Rule]) -> None:
    training.steps(0.5, 2.0)
    (chunk,) = store.list("records")
    store.put(chunk.name, b"not parquet")
    received = Received()
    watcher = Watcher(store, [high()], notifiers=[received], clock=clock)

    watcher.poll()
    watcher.poll()

    assert len(watcher.problems) == 1
    assert chunk.name in watcher.problems[0]


def test_where_there_is_no_run_there_is_an_error(store: Store, high: type[Rule]) -> None:
    with pytest.raises(NotARun):
        Watcher(store, [high()]).poll()


def test_one_code_stands_for_one_rule(store: Store, high: type[Rule]) -> None:
    with pytest.raises(BadRule, match="Two of the rules have one code; they are X901, X901"):
        Watcher(store, [high(), high(threshold=2.0)])


def test_a_rule_that_was_fed_nothing_is_not_evaluated(
    store: Store, training: Training, clock: ManualClock, high: type[Rule]
) -> None:
    watcher = Watcher(store, [high()], clock=clock)
    assert [item.code for item in watcher.not_evaluated()] == ["X901"]

    training.steps(0.5)
    watcher.poll()

    assert watcher.not_evaluated() == ()
