"""The loop and its queue of notifications: sent while the watching goes on, kept in the run, nobody waits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from barograph.model.clock import ManualClock
from barograph.model.key import Kind
from barograph.model.notify import Notify
from barograph.model.selection import Schedule, Selection
from barograph.queries.summary import summary_of
from barograph.rules.base import Rule
from barograph.store.base import Store
from barograph.watch.closing import closing_text
from barograph.watch.loop import Watcher
from barograph.watch.message import Message
from barograph.watch.message_notifier import NotDelivered
from barograph.watch.notifier_queue import NotifierQueue
from barograph.watch.recipient import Recipient

CODES = frozenset({"X901"})


class Carried:
    def __init__(self, why: str = "") -> None:
        self.why = why
        self.sent: list[str] = []

    def send(self, messages: Sequence[Message]) -> None:
        if self.why:
            raise NotDelivered(self.why)
        self.sent += [f"{message.event.value} {message.run}" for message in messages]

    def abort(self) -> None:
        pass


def queue_to(notifier: Any, clock: ManualClock, **options: Any) -> NotifierQueue:
    told = Recipient(Notify("x"), "the webhook x", notifier, CODES, clock=clock)
    return NotifierQueue("runs/a", {"x": told}, clock=clock, background=False, **options)


def test_findings_reach_the_post_and_are_not_told_again_after_a_restart(
    store: Store, training: Any, clock: ManualClock, high: type[Rule]
) -> None:
    notifier = Carried()
    training.steps(0.5, 2.0)
    for first in (True, False):
        mine = queue_to(notifier, clock)
        # With other parameters it starts at the first step again, and finds the same.
        watcher = Watcher(store, [high(threshold=1.0 if first else 1.5)], queue=mine, clock=clock)
        watcher.poll()
        mine.turn()
        watcher.close()

    assert notifier.sent == ["opened runs/a"]


def test_what_is_owed_is_told_by_the_next_watcher(
    store: Store, training: Any, clock: ManualClock, high: type[Rule]
) -> None:
    training.steps(0.5, 2.0)
    failing = Watcher(store, [high()], queue=queue_to(Carried("503"), clock), clock=clock)
    failing.poll()
    failing.close()
    # One that notifies nobody stands in between, and must not forget it.
    between = Watcher(store, [high()], clock=clock)
    training.steps(2.0, first=2)
    between.poll()
    between.close()
    notifier = Carried()
    mine = queue_to(notifier, clock)
    Watcher(store, [high()], queue=mine, clock=clock).poll()
    mine.turn()

    assert notifier.sent == ["opened runs/a"]


def test_one_who_cannot_be_told_is_a_problem_of_the_run_without_a_secret(
    store: Store, training: Any, clock: ManualClock, high: type[Rule]
) -> None:
    training.steps(0.5, 2.0)
    watcher = Watcher(store, [high()], queue=queue_to(Carried("HTTP 503"), clock), clock=clock)
    watcher.poll()
    watcher.close()

    assert watcher.problems == (
        "Cannot notify the webhook x: HTTP 503; retrying.",
        "Cannot notify the webhook x of X901 high: HTTP 503. It stays in the run, and the next watcher that notifies "
        "sends it.")
    assert "Cannot notify the webhook x" in closing_text(summary_of(store, watcher.judged))


def test_the_state_says_nothing_of_where_anybody_is_told(
    store: Store, training: Any, clock: ManualClock, high: type[Rule]
) -> None:
    training.steps(0.5, 2.0)
    told = Recipient(Notify("https://example.org/hush"), "the webhook x", Carried(), CODES, clock=clock)
    watcher = Watcher(
        store, [high()], queue=NotifierQueue("runs/a", {"x": told}, clock=clock, background=False), clock=clock
    )
    watcher.poll()
    watcher.close()
    everything = b"".join(bytes(store.get(item.name)) for item in store.list())

    assert b"hush" not in everything
    assert json.loads(json.loads(bytes(store.get("watch/state.json")))["state"])["post"]["x"]["told"] != []


def test_a_collection_that_matches_nothing_is_named_in_the_summary(
    store: Store, training: Any, clock: ManualClock, high: type[Rule]
) -> None:
    biases = Selection(name="biases", kinds=frozenset({Kind.WEIGHT}), include=("*.bais",))
    weights = Selection(name="weights", kinds=frozenset({Kind.WEIGHT}), include=("fc.*",))
    inputs = Selection(name="inputs", kinds=frozenset({Kind.INPUT}), layers=frozenset({"Liner"}))
    trees = Selection(name="trees", kinds=frozenset({Kind.TREE}))
    seldom = Selection(name="seldom", kinds=frozenset({Kind.INPUT}), schedule=Schedule(every=30))
    training.steps(*[0.5] * 40)
    watcher = Watcher(store, [high()], expected=(biases, weights, inputs, trees, seldom), clock=clock)
    watcher.poll()

    assert watcher.unmet == (
        'The collection "biases" matches nothing that was recorded: no weight with include *.bais. `barograph keys` '
        "lists the paths there are.",
        'The collection "inputs" matches nothing that was recorded: no input with layers Liner. `barograph keys` '
        "lists the paths there are.",
        'The collection "trees" recorded nothing: this training has no tree.')
    assert watcher.unmet[0] in summary_of(store, watcher.judged).warnings
