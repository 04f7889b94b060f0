"""Findings and requests to stop, as they lie on the store."""

from __future__ import annotations

import math
from dataclasses import replace

from barograph.model.clock import ManualClock
from barograph.model.finding import Evidence, Finding, FindingState, Severity
from barograph.model.key import Key, Kind
from barograph.model.step import Mode
from barograph.runs.state.control import StopRequest, read_stop, request_stop
from barograph.runs.state.findings import finding_id, read_findings, write_event
from barograph.store.base import Store

LOSS = Key(Kind.LOSS, "total")
IDENTITY = {"code": "N101", "worker": "p0", "attempt": 0, "optimizer": "", "mode": Mode.TRAIN, "subject": "",
            "since_step": 3}
OPENED = Finding(
    id=finding_id(**IDENTITY), code="N101", rule="non-finite", severity=Severity.BREAKING,  # type: ignore[arg-type]
    state=FindingState.OPEN, message="The loss is NaN.", remedy="Lower the learning rate.",
    evidence=(Evidence(LOSS, 3, "nonfinite", math.inf, math.nan, "ünïcode"), Evidence(None, 3, "share", 0.5, 0.1)),
    subject="", worker="p0", optimizer="", mode=Mode.TRAIN, since_step=3, opened_step=4, last_step=4,
    closed_step=None, opened_unix=1.5, attempt=0,
)
CLOSED = replace(OPENED, state=FindingState.CLOSED, last_step=9, closed_step=12)


def test_a_finding_comes_back_whole(store: Store) -> None:
    write_event(store, OPENED)

    (found,) = read_findings(store).findings

    assert math.isnan(found.evidence[0].threshold)
    assert repr(found) == repr(OPENED)


def test_the_same_event_twice_is_one(store: Store) -> None:
    assert write_event(store, OPENED)
    assert not write_event(store, replace(OPENED, message="other"))

    assert [item.message for item in read_findings(store).findings] == ["The loss is NaN."]


def test_a_finding_that_closed_is_read_as_closed(store: Store) -> None:
    write_event(store, OPENED)
    write_event(store, CLOSED)

    (found,) = read_findings(store).findings

    assert (found.state, found.closed_step) == (FindingState.CLOSED, 12)


def test_findings_come_in_the_order_in_which_they_began(store: Store) -> None:
    write_event(store, replace(OPENED, id="N101-100-000000000000", since_step=100))
    write_event(store, replace(OPENED, id="N101-20-000000000000", since_step=20))

    assert [item.since_step for item in read_findings(store).findings] == [20, 100]


def test_a_damaged_and_a_foreign_event_are_named_and_the_rest_is_read(store: Store) -> None:
    write_event(store, OPENED)
    write_event(store, replace(OPENED, id="N101-20-000000000000"))
    name = "findings/N101-20-000000000000.opened.json"
    store.put(name, bytes(store.get(name)).replace(b"NaN", b"XaN"))
    store.put("findings/notes.txt", b"mine")

    log = read_findings(store)

    assert [item.id for item in log.findings] == [OPENED.id]
    assert log.damage == (
        f"The metadata file is damaged: its checksum does not match ({name}).",
        "Not an event of a finding (findings/notes.txt).",
    )


def test_every_part_of_what_a_finding_is_makes_another_id() -> None:
    others = [{"code": "N102"}, {"worker": "p1"}, {"attempt": 1}, {"optimizer": "G"}, {"mode": Mode.EVAL},
              {"subject": "fc"}, {"since_step": 4}]

    ids = {finding_id(**{**IDENTITY, **other}) for other in others}  # type: ignore[arg-type]

    assert len(ids | {OPENED.id}) == len(others) + 1


def test_a_request_to_stop_is_seen_by_the_attempt_it_is_for(store: Store) -> None:
    clock = ManualClock(unix=7.0)

    assert request_stop(store, reason="NaN", finding_id="N101-3-0123456789ab", attempt=1, clock=clock)

    assert read_stop(store, attempt=1) == StopRequest("N101-3-0123456789ab", "NaN", 1, 7.0)
    assert read_stop(store, attempt=0) is None
    assert read_stop(store, attempt=2) is None


def test_the_first_of_two_requests_to_stop_is_the_reason(store: Store) -> None:
    clock = ManualClock(unix=7.0)
    request_stop(store, reason="first", finding_id="Z", attempt=0, clock=clock)
    clock.advance(1)

    assert request_stop(store, reason="second", finding_id="A", attempt=0, clock=clock)
    assert not request_stop(store, reason="again", finding_id="Z", attempt=0, clock=clock)

    stop = read_stop(store, attempt=0)
    assert stop is not None
    assert stop.reason == "first"


def test_a_damaged_request_stops_nothing(store: Store) -> None:
    request_stop(store, reason="NaN", finding_id="A", attempt=0)
    (item,) = store.list("control")
    store.put(item.name, bytes(store.get(item.name)).replace(b"NaN", b"XaN"))

    assert read_stop(store, attempt=0) is None
