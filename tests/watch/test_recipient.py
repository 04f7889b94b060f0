"""One who is told: each thing once, when it is time, and nothing lost."""

from __future__ import annotations

import calendar
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from barograph.model.clock import ManualClock
from barograph.model.finding import Finding, FindingState, Severity
from barograph.model.notify import Notify, notify_from
from barograph.model.step import Mode
from barograph.watch import recipient as recipients
from barograph.watch.message import Message, message_from_json, message_of
from barograph.watch.message_notifier import NotDelivered
from barograph.watch.notices import Event, Notice
from barograph.watch.notifier_queue import NotifierQueue
from barograph.watch.recipient import Recipient

FINDING = Finding(
    id="G101-40-000000000000", code="G101", rule="vanishing-gradient", severity=Severity.COSTLY,
    state=FindingState.OPEN, message="It vanishes.", remedy="Use ReLU.", evidence=(), subject="", worker="p0",
    optimizer="", mode=Mode.TRAIN, since_step=40, opened_step=41, last_step=41, closed_step=None, opened_unix=0.0,
)
CODES = frozenset({"G101", "N101"})


class Carried:
    """A notifier that keeps what it is given, or fails as it is told to."""

    def __init__(self, *failures: NotDelivered | Exception) -> None:
        self.failures = list(failures)
        self.sent: list[list[str]] = []
        self.tries: list[list[str]] = []
        self.aborted = False

    def send(self, messages: Sequence[Message]) -> None:
        self.tries.append([message.id for message in messages])
        if self.failures:
            raise self.failures.pop(0)
        self.sent.append([message.id for message in messages])

    def abort(self) -> None:
        self.aborted = True


def opened(number: int = 40, **changes: Any) -> Message:
    finding = replace(FINDING, id=f"G101-{number}-000000000000", **changes)
    return message_of(Notice(Event.OPENED, finding=finding), "runs/a", 0.0)


def make(notifier: Any, clock: ManualClock, **table: Any) -> Recipient:
    return Recipient(notify_from({"to": "x", **table}), "the webhook x", notifier, CODES, clock=clock)


def at(clock: ManualClock, hour: int, minute: int = 0) -> None:
    """Set the time of the day, as this machine's clock on the wall has it."""
    now = time.struct_time((2026, 3, 4, hour, minute, 0, 0, 0, -1))
    clock.advance(time.mktime(now) - clock.unix() + (86400 if time.mktime(now) < clock.unix() else 0))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(unix=calendar.timegm((2026, 3, 1, 0, 0, 0)))


def test_each_message_is_sent_once_in_order(clock: ManualClock) -> None:
    notifier = Carried()
    told = make(notifier, clock)
    for number in (1, 2, 1):
        told.add(opened(number))
    told.turn()
    told.add(opened(2))

    assert told.turn() is None
    assert notifier.sent == [["G101-1-000000000000.opened"], ["G101-2-000000000000.opened"]]


def test_a_closing_is_another_event_than_the_opening(clock: ManualClock) -> None:
    notifier = Carried()
    told = make(notifier, clock)
    told.add(opened())
    told.add(message_of(Notice(Event.CLOSED, finding=replace(FINDING, state=FindingState.CLOSED)), "runs/a", 1.0))
    told.turn()

    assert notifier.sent == [["G101-40-000000000000.opened"], ["G101-40-000000000000.closed"]]


@pytest.mark.parametrize(("table", "count"), [
    ({}, 3), ({"at_least": "costly"}, 2), ({"at_least": "breaking"}, 0), ({"events": ["opened"]}, 2),
    ({"events": ["problem"]}, 1), ({"events": ["opened", "closed", "action", "problem"]}, 4),
])
def test_only_what_is_asked_for_is_told(clock: ManualClock, table: dict[str, Any], count: int) -> None:
    notifier = Carried()
    told = make(notifier, clock, **table)
    told.add(opened(1))
    told.add(opened(2, severity=Severity.NOTE))
    told.add(opened(3, code="L102"))
    told.add(message_of(Notice(Event.ACTION, "asked to stop", FINDING), "runs/a", 0.0))
    told.add(message_of(Notice(Event.PROBLEM, "The store is away."), "runs/a", 0.0))
    told.turn()

    assert len(notifier.sent) == count


def test_what_fails_is_tried_again_ever_more_slowly_with_the_same_id(clock: ManualClock) -> None:
    notifier = Carried(NotDelivered("503"), NotDelivered("503"), NotDelivered("timeout"))
    told = make(notifier, clock)
    told.add(opened())
    waits = []
    while (wait := told.turn()) is not None:
        waits.append(wait)
        clock.advance(wait)

    assert waits == [1.0, 2.0, 4.0]
    assert notifier.tries == [["G101-40-000000000000.opened"]] * 4
    assert told.problems() == [
        "Cannot notify the webhook x: 503; retrying.",
        "Cannot notify the webhook x: timeout; retrying.",
        "Notifications reach the webhook x again.",
    ]


def test_one_who_asks_to_be_left_alone_is(clock: ManualClock) -> None:
    told = make(Carried(NotDelivered("429", after_secs=90.0)), clock)
    told.add(opened())

    assert told.turn() == 90.0


def test_after_the_last_try_it_is_given_up_named_and_owed(clock: ManualClock) -> None:
    notifier = Carried(*[NotDelivered("503")] * 3)
    told = make(notifier, clock, retries=2)
    told.add(opened(1))
    for _ in range(3):
        clock.advance(told.turn() or 0.0)

    assert told.turn() is None
    assert told.problems()[1] == (
        "Cannot notify the webhook x of G101 vanishing-gradient after 3 tries: 503. It is sent with the next "
        "notification, or by the next watcher that notifies.")
    assert [entry["id"] for entry in told.to_json()["owed"]] == ["G101-1-000000000000.opened"]


def test_what_was_given_up_is_told_once_somebody_answers_again(clock: ManualClock) -> None:
    notifier = Carried(*[NotDelivered("503")] * 3)
    told = make(notifier, clock, retries=2)
    told.add(opened(1))
    for _ in range(3):
        clock.advance(told.turn() or 0.0)
    clock.advance(3600.0)
    told.add(opened(2))
    told.turn()

    assert notifier.sent == [["G101-2-000000000000.opened"], ["G101-1-000000000000.opened"]]
    assert told.problems()[-1] == "Notifications reach the webhook x again."
    assert told.to_json()["owed"] == []


def test_one_that_alone_is_never_taken_has_one_try_for_each_of_the_others(clock: ManualClock) -> None:
    class Picky(Carried):
        def send(self, messages: Sequence[Message]) -> None:
            self.tries.append([message.id for message in messages])
            if "G101-1-" in messages[0].id:
                raise NotDelivered("503")

    notifier = Picky()
    told = make(notifier, clock, retries=2)
    for number in (1, 2, 3):
        told.add(opened(number))
        while (wait := told.turn()) is not None:
            clock.advance(wait)

    assert [names[0].split("-")[1] for names in notifier.tries] == ["1", "1", "1", "2", "1", "3", "1"]


def test_what_will_never_be_taken_is_not_tried_again(clock: ManualClock) -> None:
    notifier = Carried(NotDelivered("HTTP 404 Not Found", again=False))
    told = make(notifier, clock)
    told.add(opened())
    told.turn()
    clock.advance(1000)

    assert told.turn() is None
    assert len(notifier.tries) == 1
    assert "; retrying" not in told.problems()[0]


def test_an_error_of_a_carriers_own_is_named_by_its_kind_alone(clock: ManualClock) -> None:
    told = make(Carried(RuntimeError("https://me:hunter2@host")), clock)
    told.add(opened())
    told.turn()

    assert told.problems() == ["Cannot notify the webhook x: RuntimeError; retrying."]


def test_a_digest_gathers_for_its_time_and_is_sent_at_once(clock: ManualClock) -> None:
    notifier = Carried()
    told = make(notifier, clock, digest="15m")
    told.add(opened(1))
    clock.advance(600)
    told.add(opened(2))

    assert told.turn() == 300.0
    clock.advance(300)
    told.turn()
    assert notifier.sent == [["G101-1-000000000000.opened", "G101-2-000000000000.opened"]]


def test_quiet_hours_hold_back_till_they_end_and_then_tell_all_at_once(clock: ManualClock) -> None:
    notifier = Carried()
    told = make(notifier, clock, quiet_hours="22:00-07:00")
    at(clock, 23)
    told.add(opened(1))
    told.add(opened(2))

    assert told.turn() == 8 * 3600
    at(clock, 7)
    told.turn()
    assert notifier.sent == [["G101-1-000000000000.opened", "G101-2-000000000000.opened"]]


def test_what_is_breaking_goes_through_quiet_hours_unless_nothing_is_to_wake(clock: ManualClock) -> None:
    at(clock, 23)
    for wake_for, sent in (("breaking", 1), ("costly", 2), ("none", 0)):
        notifier = Carried()
        told = make(notifier, clock, quiet_hours="22:00-07:00", wake_for=wake_for)
        told.add(opened(1))
        told.add(opened(2, severity=Severity.BREAKING))
        told.turn()
        assert len(notifier.sent) == sent


def test_what_was_told_and_what_is_owed_outlive_a_restart(clock: ManualClock) -> None:
    first = make(Carried(), clock)
    first.add(opened(1))
    first.turn()
    first.add(opened(2))
    state = first.to_json()

    notifier = Carried()
    second = make(notifier, clock)
    second.load(state)
    for number in (1, 2, 3):
        second.add(opened(number))
    second.turn()

    assert notifier.sent == [["G101-2-000000000000.opened"], ["G101-3-000000000000.opened"]]


def test_a_message_comes_back_from_json() -> None:
    for message in (opened(), message_of(Notice(Event.PROBLEM, "Away."), "runs/a", 3.0)):
        assert message_from_json(message.to_json()) == message


def test_a_queue_that_is_full_says_so_once(clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipients, "QUEUE", 2)
    told = make(Carried(), clock)
    for number in range(5):
        told.add(opened(number))

    assert told.problems() == ["Dropped notifications to the webhook x: 2 are already waiting."]


def test_the_end_sends_a_digest_at_once(clock: ManualClock) -> None:
    notifier = Carried()
    queue = NotifierQueue("runs/a", {"x": make(notifier, clock, digest="15m")}, clock=clock, background=False)
    queue.take(Notice(Event.OPENED, finding=FINDING))
    queue.close()

    assert notifier.sent == [["G101-40-000000000000.opened"]]
    assert queue.problems() == []


def test_the_end_says_what_quiet_hours_hold_back_and_keeps_it(clock: ManualClock) -> None:
    at(clock, 23)
    notifier = Carried()
    queue = NotifierQueue(
        "runs/a", {"x": make(notifier, clock, quiet_hours="22:00-07:00")}, clock=clock, background=False
    )
    queue.take(Notice(Event.OPENED, finding=FINDING))
    queue.close()

    assert notifier.sent == []
    assert queue.problems() == [
        "Did not notify the webhook x of G101 vanishing-gradient in quiet hours. It stays in the run, and the next "
        "watcher that notifies sends it."]
    assert queue.to_json()["x"]["owed"][0]["id"] == "G101-40-000000000000.opened"


def test_one_who_hangs_holds_up_neither_the_others_nor_the_end() -> None:
    hanging, ended = threading.Event(), threading.Event()

    class Hangs(Carried):
        def send(self, messages: Sequence[Message]) -> None:
            super().send(messages)
            hanging.wait(600)
            ended.set()

    slow, quick, done = Hangs(), Carried(), threading.Event()
    quick_send = quick.send
    quick.send = lambda messages: (quick_send(messages), done.set())  # type: ignore[method-assign, assignment, func-returns-value]
    queue = NotifierQueue("runs/a", {
        "slow": Recipient(Notify("x", timeout_secs=9), "the slow one", slow, CODES),
        "quick": Recipient(Notify("y"), "the quick one", quick, CODES),
    }, patience_secs=0.2)
    queue.take(Notice(Event.OPENED, finding=FINDING))
    assert done.wait(600)
    queue.close()
    assert not ended.is_set()
    hanging.set()

    assert slow.aborted
    assert quick.sent == [["G101-40-000000000000.opened"]]
    assert queue.problems() == [
        "Cannot notify the slow one of G101 vanishing-gradient: no response within 9 s. It stays in the run, and the "
        "next watcher that notifies sends it."]


def test_what_other_watchers_told_is_kept(clock: ManualClock) -> None:
    queue = NotifierQueue("runs/a", {"x": make(Carried(), clock)}, clock=clock, background=False)
    queue.load({"other": {"told": ["a"], "owed": []}})

    assert queue.to_json()["other"] == {"told": ["a"], "owed": []}
    assert not queue.changed()
    queue.take(Notice(Event.OPENED, finding=FINDING))
    assert queue.changed()
    assert not queue.changed()
