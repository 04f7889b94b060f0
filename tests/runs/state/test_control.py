"""What is asked of a training, each thing once, and what comes of it."""

from __future__ import annotations

import secrets
from dataclasses import replace

import pytest

from barograph.errors import StoreUnavailable
from barograph.runs.state.control import (
    Done,
    Request,
    Requests,
    agreed_step,
    answer,
    read_answers,
    read_requests,
    read_stop,
    request,
    request_stop,
)
from barograph.store.base import Store
from barograph.store.urls import store_from_url

ASKED = Request("lower-lr", "L101-9-0123456789ab", "L101 loss-not-decreasing: It rose.", 0, 7.0, "p0", "",
                {"factor": 0.5, "floor": 0.0})
DONE = Done("lower-lr", "L101-9-0123456789ab", 0, "p0", 12, 8.5, "lowered the learning rate from 0.1 to 0.05")


@pytest.fixture
def store() -> Store:
    return store_from_url(f"memory://control-{secrets.token_hex(8)}")


def test_a_finding_asks_once(store: Store) -> None:
    assert request(store, ASKED)
    assert not request(store, replace(ASKED, reason="again"))
    assert read_requests(store, attempt=0) == [ASKED]
    assert read_requests(store, attempt=1) == []


def test_an_answer_stands_beside_its_request_and_is_written_once(store: Store) -> None:
    request(store, ASKED)
    assert answer(store, DONE)
    assert not answer(store, replace(DONE, result="again"))
    answer(store, replace(DONE, worker="p1"))

    (asked,) = read_requests(store, attempt=0)
    assert [item.worker for item in asked.done] == ["p0", "p1"]
    assert asked.last_done_step == 12
    known = read_answers(store, attempt=0)
    assert list(known.values()) == [DONE, replace(DONE, worker="p1")]
    assert read_answers(store, attempt=0, known=known) == {}


def test_a_worker_hears_each_thing_once(store: Store) -> None:
    ear = Requests(0, "p0")
    assert ear.look(store) == (None, [])
    request(store, ASKED)
    request_stop(store, reason="NaN", finding_id="N101-3-0123456789ab", attempt=0, checkpoint=True)

    stop, asked = ear.look(store)
    assert stop is not None
    assert (stop.reason, stop.checkpoint) == ("NaN", True)
    assert asked == [ASKED]
    assert ear.look(store) == (None, [])


@pytest.mark.parametrize(("worker", "heard"), [("p0", 1), ("p1", 0), ("r0", 0)])
def test_only_who_is_meant_hears_it(store: Store, worker: str, heard: int) -> None:
    request(store, ASKED)

    assert len(Requests(0, worker).look(store)[1]) == heard


def test_ranks_are_meant_together_and_another_attempt_is_not(store: Store) -> None:
    request(store, replace(ASKED, worker="r"))

    assert [len(Requests(0, worker).look(store)[1]) for worker in ("r0", "r1", "p0")] == [1, 1, 0]
    assert Requests(1, "r0").look(store) == (None, [])


def test_what_was_answered_is_not_done_again_by_a_worker_that_was_started_again(store: Store) -> None:
    request(store, ASKED)
    answer(store, DONE)

    assert Requests(0, "p0").look(store) == (None, [])


def test_a_store_that_fails_makes_nothing_known(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    ear = Requests(0, "p0")
    request(store, ASKED)
    get, fail = store.get, [True]

    def failing(name: str) -> memoryview:
        if fail:
            raise StoreUnavailable("away")
        return get(name)

    monkeypatch.setattr(store, "get", failing)
    with pytest.raises(StoreUnavailable):
        ear.look(store)
    fail.clear()

    assert ear.look(store) == (None, [ASKED])


def test_a_damaged_request_or_answer_does_nothing(store: Store) -> None:
    request(store, ASKED)
    request_stop(store, reason="NaN", finding_id="A", attempt=0)
    answer(store, DONE)
    for item in store.list("control"):
        store.put(item.name, bytes(store.get(item.name)).replace(b'"attempt": 0', b'"attempt": 00'))

    assert read_stop(store, attempt=0) is None
    assert read_requests(store, attempt=0) == []
    assert read_answers(store, attempt=0) == {}
    assert Requests(0, "p0").look(store) == (None, [])


def test_workers_agree_on_a_step(store: Store) -> None:
    assert [agreed_step(store, ASKED, proposed=step) for step in (40, 55)] == [40, 40]
    assert agreed_step(store, replace(ASKED, finding_id="other"), proposed=55) == 55
