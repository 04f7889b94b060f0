"""A place with many runs answers while it is indexed, one with few runs once it is."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from barograph.errors import CatalogUnavailable, StoreUnavailable
from barograph.experiments.catalog import Catalog
from barograph.experiments.feeding import Fed
from barograph.model.clock import ManualClock
from barograph.web.app import application
from barograph.web.in_flight import SHORT_SECS, InFlight
from barograph.web.indexing import Indexes
from barograph.web.places import Places, Root
from web_client import Client, recorded

_LONGEST_SECS = 600.0


class Slow:
    """Indexing of a thousand runs that goes on until it is released, or fails."""

    def __init__(self) -> None:
        self.may_end = threading.Event()
        self.failure: Exception | None = None
        self.times = 0

    def feed(
        self, catalog: Catalog, *, progress: Callable[[int, int], object], give_way: Callable[[], object],
        before_records: Callable[[], object]
    ) -> Fed:
        self.times += 1
        if self.failure is not None:
            raise self.failure
        progress(250, 1000)
        assert self.may_end.wait(_LONGEST_SECS)
        return Fed(of_runs={"runs/broken": ["run.json is damaged."]})


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    slow = Slow()
    monkeypatch.setattr(Catalog, "feed", lambda catalog, **options: slow.feed(catalog, **options))
    yield slow
    slow.may_end.set()


@pytest.fixture
def place(tmp_path: Path) -> Root:
    return Places([str(tmp_path)]).roots[0]


def test_a_catalog_of_many_runs_answers_before_it_is_brought_up_to_date(
    place: Root, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Catalog, "indexed_runs", 1000)
    paused, times = threading.Event(), list[int]()

    def pause(secs: float) -> None:
        times.append(slow.times)
        assert paused.wait(_LONGEST_SECS)

    indexes = Indexes(ManualClock(), pause=pause)
    assert indexes.catalog(place).indexed_runs == 1000
    until(lambda: bool(times))
    assert (times, slow.times) == ([0], 0)
    paused.set()
    until(lambda: slow.times == 1)


def until(holds: Callable[[], bool]) -> None:
    ended = threading.Event()
    for _ in range(60_000):
        if holds():
            return
        ended.wait(0.01)
    raise AssertionError("it never happened")


def test_many_runs_do_not_keep_a_request_waiting(slow: Slow, place: Root) -> None:
    indexes = Indexes(ManualClock())
    indexes.catalog(place)
    indexes.catalog(place)

    found = indexes.of(place)
    assert (found.done, found.total, found.is_first, slow.times) == (250, 1000, True, 1)
    slow.may_end.set()
    until(lambda: not indexes.of(place).is_first)
    assert (indexes.of(place).total, indexes.of(place).problems) == (0, ("run.json is damaged. (runs/broken)",))


def test_the_answer_says_how_far_indexing_is(slow: Slow, place: Root) -> None:
    client = Client(application([place.place], hosts=["127.0.0.1"]))

    assert client.get("/api/search").json["indexing"]["total"] == 1000
    assert client.get("/api/now").json["indexing"][0]["done"] == 250


def test_a_place_that_cannot_be_read_fails_at_first_and_later_says_why(slow: Slow, place: Root) -> None:
    clock = ManualClock()
    indexes = Indexes(clock)
    slow.failure = StoreUnavailable("The bucket does not answer.")
    with pytest.raises(StoreUnavailable):
        indexes.catalog(place)

    clock.advance(3.0)
    slow.failure = None
    slow.may_end.set()
    indexes.catalog(place)
    until(lambda: not indexes.of(place).is_first)
    clock.advance(3.0)
    slow.failure = StoreUnavailable("The bucket does not answer.")
    indexes.catalog(place)
    until(lambda: indexes.of(place).failure != "")
    assert indexes.of(place).failure == "The bucket does not answer."


def test_a_run_that_is_not_indexed_yet_is_asked_for_again(slow: Slow, tmp_path: Path) -> None:
    recorded(tmp_path / "first", [1.0])
    client = Client(application([str(tmp_path)], hosts=["127.0.0.1"]))
    indexing = client.get("/api/marks?run=0/first")
    slow.may_end.set()
    until(lambda: client.get("/api/marks?run=0/first").status == 404)  # this catalog never gets the run

    assert (indexing.status, "Try again" in indexing.json["error"]) == (503, True)


def test_a_run_that_has_just_begun_is_found_although_the_catalog_was_read_a_moment_ago(tmp_path: Path) -> None:
    recorded(tmp_path / "first", [1.0])
    client = Client(application([str(tmp_path)], hosts=["127.0.0.1"], clock=ManualClock()))
    assert client.get("/api/grouping?run=0/first").status == 200
    recorded(tmp_path / "second", [1.0])

    assert client.get("/api/grouping?run=0/first&run=0/second").status == 200


def test_a_defect_in_indexing_is_reported_and_the_log_has_the_details_once(
    slow: Slow, place: Root, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    indexes = Indexes(clock)
    slow.failure = ZeroDivisionError("a defect")

    for _ in range(2):
        with pytest.raises(CatalogUnavailable) as failed:
            indexes.catalog(place)
        clock.advance(10.0)

    assert str(failed.value) == "The studio could not index the runs: ZeroDivisionError. Its output has the details."
    assert slow.times == 2
    (logged,) = caplog.records
    assert logged.exc_info is not None
    assert str(logged.exc_info[1]) == "a defect"


def test_indexing_lets_requests_go_first_unless_they_wait_for_it_or_last(
    place: Root, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, may_look = ManualClock(), threading.Event()
    in_flight = InFlight(clock)
    gave_way: list[bool] = []
    asked: list[float] = []

    def wait(secs: float) -> bool:
        asked.append(secs)
        return InFlight.wait(in_flight, 0.0)

    def feed(
        catalog: Catalog, *, progress: Callable[[int, int], object], give_way: Callable[[], object],
        before_records: Callable[[], object]
    ) -> Fed:
        give_way()
        gave_way.append(bool(asked))
        progress(0, 1000)  # nobody waits for so many
        assert may_look.wait(_LONGEST_SECS)
        give_way()
        gave_way.append(bool(asked))
        return Fed()

    monkeypatch.setattr(Catalog, "feed", feed)
    monkeypatch.setattr(in_flight, "wait", wait)
    with in_flight.one():
        indexes = Indexes(clock, in_flight=in_flight)
        indexes.catalog(place)
        may_look.set()
        until(lambda: len(gave_way) == 2)
        assert gave_way == [False, True]
        assert not wait(0.0)
        clock.advance(SHORT_SECS)
        assert wait(0.0), "it lasts, such as a download"
    assert InFlight(clock).wait(0.0)


def test_a_request_is_in_flight_until_it_is_answered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known: list[InFlight] = []
    init = Indexes.__init__

    def noted(self: Indexes, *arguments: Any, in_flight: InFlight, **options: Any) -> None:
        known.append(in_flight)
        init(self, *arguments, in_flight=in_flight, **options)

    monkeypatch.setattr(Indexes, "__init__", noted)
    quiet: list[bool] = []
    app = application([str(tmp_path)], hosts=["127.0.0.1"], clock=ManualClock())

    def feed(catalog: Catalog, **options: Any) -> Fed:
        quiet.append(known[0].wait(0.0))
        return Fed()

    monkeypatch.setattr(Catalog, "feed", feed)

    assert Client(app).get("/api/search").status == 200

    assert quiet == [False]
    assert known[0].wait(0.0)
