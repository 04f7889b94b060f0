"""Many runs watched as one: they come and go, one that fails takes no other down, and what is done costs nothing."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from barograph.errors import StoreUnavailable
from barograph.model.clock import ManualClock
from barograph.rules.base import Rule
from barograph.store.base import Store
from barograph.store.urls import store_from_url
from barograph.watch.loop import Poll, Watcher
from barograph.watch.service import DISCOVER_SECS, IDLE_SECS, Part, Service

Training = Any  # of conftest.py


class Root:
    """A directory with runs below it, and a list of the runs whose stores were opened."""

    def __init__(self, folder: Path, new_training: type[Training], clock: ManualClock, rule: type[Rule]) -> None:
        self.url = str(folder)
        self.store = store_from_url(self.url)
        self.opened: list[str] = []
        self.away: set[str] = set()
        self._new_training, self._clock, self._rule = new_training, clock, rule

    def run(self, name: str, **more: Any) -> Training:
        return self._new_training(store_from_url(f"{self.url}/{name}"), self._clock, **more)

    def service(self, part: Part | None = None) -> Service:
        return Service(self.store, self._store_of, self._watcher_of, part=part, clock=self._clock)

    def _store_of(self, name: str) -> Store:
        self.opened.append(name)
        if name in self.away:
            raise StoreUnavailable("The bucket is away.")
        return store_from_url(f"{self.url}/{name}")

    def _watcher_of(self, name: str, store: Store) -> Watcher:
        return Watcher(store, [self._rule()], clock=self._clock)


@pytest.fixture
def root(tmp_path: Path, new_training: type[Training], clock: ManualClock, high: type[Rule]) -> Root:
    return Root(tmp_path, new_training, clock, high)


def found(service: Service) -> dict[str, int]:
    return {verdict.name: len(verdict.findings) for verdict in service.verdicts()}


def test_runs_that_are_there_and_runs_that_come_are_watched(root: Root, clock: ManualClock) -> None:
    root.run("team/first").steps(0.5, 2.0)
    service = root.service()
    turn = service.poll()
    assert (turn.begun, turn.steps) == (("team/first",), 2)

    root.run("second").steps(0.5)
    assert service.poll().begun == ()
    clock.advance(DISCOVER_SECS)
    assert service.poll().begun == ("second",)
    assert found(service) == {"second": 0, "team/first": 1}
    assert service.going_on == 2


def test_a_run_that_has_ended_is_let_go_of_with_its_verdict(root: Root, clock: ManualClock) -> None:
    training = root.run("a")
    training.steps(2.0)
    service = root.service()
    service.poll()
    training.end()
    clock.advance(IDLE_SECS)
    assert service.poll().ended == ("a",)
    assert service.going_on == 0
    assert found(service) == {"a": 1}


def test_what_is_done_is_not_read_at_every_turn(root: Root, clock: ManualClock) -> None:
    training = root.run("a")
    training.steps(0.5)
    training.end()
    service = root.service()
    service.poll()
    root.opened.clear()
    for _ in range(100):
        service.poll()
        clock.advance(DISCOVER_SECS / 200)
    assert root.opened == []


def test_a_run_that_was_let_go_of_and_is_resumed_is_watched_again(
    root: Root, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    training = root.run("a")
    training.steps(0.5)
    # It was killed, and so it may be resumed: a run that has ended may not.
    monkeypatch.setattr("barograph.runs.state.vitals.is_alive", lambda *_: False)
    monkeypatch.setattr("barograph.runs.reading.feed.is_alive", lambda *_: False)
    monkeypatch.setattr("barograph.runs.state.claim.is_alive", lambda *_: False)
    service = root.service()
    ended: list[str] = []
    for _ in range(10):
        ended += service.poll().ended
        clock.advance(IDLE_SECS)
    assert ended == ["a"]

    root.run("a").steps(0.5, 2.0, first=1)
    begun: list[str] = []
    for _ in range(4):
        begun += service.poll().begun
        clock.advance(IDLE_SECS)
    assert begun == ["a"]
    assert found(service) == {"a": 1}


def test_a_run_that_cannot_be_read_is_named_once_and_the_others_go_on(root: Root, clock: ManualClock) -> None:
    root.run("a").steps(0.5)
    root.run("b").steps(2.0)
    root.away.add("a")
    service = root.service()
    turn = service.poll()
    assert turn.problems == ("a: The bucket is away.",)
    assert found(service) == {"b": 1}
    clock.advance(DISCOVER_SECS)
    assert service.poll().problems == ()
    root.away.clear()
    clock.advance(DISCOVER_SECS)
    assert service.poll().begun == ("a",)


def test_a_run_that_breaks_its_watcher_is_named_and_the_others_go_on(
    root: Root, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = {"a": "poll", "b": "close"}
    for name in ("a", "b", "c"):
        training = root.run(name)
        training.steps(2.0)
        training.end()

    def watcher_of(name: str, store: Store) -> Watcher:
        watcher = Watcher(store, [root._rule()], clock=clock)
        if name in broken:
            monkeypatch.setattr(watcher, broken[name], raises)
        return watcher

    def raises() -> None:
        raise KeyError("judges")

    service = Service(root.store, root._store_of, watcher_of, clock=clock)
    turn = service.poll()
    service.close()

    text = "Cannot watch this run: KeyError: 'judges'. One of its files is not valid."
    assert sorted(problem[:len(text) + 3] for problem in turn.problems) == [f"a: {text}", f"b: {text}"]
    assert turn.ended == ("c",)


def test_a_run_of_which_nothing_can_be_read_is_not_called_free_of_findings(root: Root, clock: ManualClock) -> None:
    training = root.run("a")
    training.steps(0.5, 2.0)
    training.end()
    (chunk,) = training.store.list("records")
    training.store.put(chunk.name, b"not parquet")
    service = root.service()
    for _ in range(5):
        service.poll()
        clock.advance(IDLE_SECS)

    (verdict,) = service.verdicts()
    assert (verdict.steps, verdict.findings) == (0, ())
    assert chunk.name in verdict.damage[0]
    assert set(verdict.damage) <= set(verdict.problems)


def test_a_service_that_was_killed_goes_on_where_it_was(root: Root, clock: ManualClock) -> None:
    training = root.run("a")
    training.steps(0.5, 2.0)
    first = root.service()
    first.poll()
    first.close()
    training.steps(3.0, first=2)
    second = root.service()
    assert second.poll().steps == 1
    assert found(second) == {"a": 1}


def test_parts_share_the_runs_out(root: Root) -> None:
    for name in "abcdefgh":
        root.run(name).steps(0.5)
    parts = [root.service(Part(number, 3)) for number in range(3)]
    for part in parts:
        part.poll()
    names = [verdict.name for part in parts for verdict in part.verdicts()]
    assert sorted(names) == list("abcdefgh")
    assert max(part.going_on for part in parts) < 8


def finished(root: Root, *names: str) -> None:
    for name in names:
        training = root.run(name)
        training.steps(0.5)
        training.end()


def begun_in(service: Service, clock: ManualClock, turns: int) -> list[str]:
    begun: list[str] = []
    for _ in range(turns):
        begun += service.poll().begun
        clock.advance(DISCOVER_SECS)
    return begun


def test_another_run_of_a_name_that_was_let_go_of_is_watched(root: Root, clock: ManualClock, tmp_path: Path) -> None:
    finished(root, "a")
    service = root.service()
    assert begun_in(service, clock, 3) == ["a"]
    shutil.rmtree(tmp_path / "a")
    root.run("a", run_id="another").steps(2.0)
    assert begun_in(service, clock, 3) == ["a"]


def test_runs_that_were_removed_or_fail_keep_none_from_being_looked_at_again(
    root: Root, clock: ManualClock, tmp_path: Path
) -> None:
    names = [f"run{number:02}" for number in range(45)]
    finished(root, *names)
    service = root.service()
    begun_in(service, clock, 3)
    assert service.going_on == 0
    for name in names[:20]:
        shutil.rmtree(tmp_path / name)
    root.away |= set(names[20:40])
    root.opened.clear()
    begun_in(service, clock, 4)
    assert set(names[40:]) <= set(root.opened)


def test_a_store_that_is_away_when_a_run_is_let_go_of_ends_nothing(root: Root, clock: ManualClock) -> None:
    training = root.run("a")
    training.steps(2.0)
    root.run("b").steps(0.5)
    service = root.service()
    service.poll()
    training.end()
    clock.advance(IDLE_SECS)
    root.away.add("a")
    assert service.poll().problems == ("a: The bucket is away.",)
    assert service.going_on == 2
    root.away.clear()
    clock.advance(DISCOVER_SECS)
    assert service.poll().ended == ("a",)
    assert found(service) == {"a": 1, "b": 0}


def test_what_can_be_read_at_once_is_not_waited_for(
    root: Root, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    root.run("a").steps(0.5)
    service = root.service()
    service.poll()
    polls: list[Poll] = [Poll(0, more=True), Poll(3)]
    monkeypatch.setattr(Watcher, "poll", lambda _: polls.pop(0))
    clock.advance(IDLE_SECS)
    assert service.poll().more
    assert service.poll().steps == 3


def test_above_many_runs_that_have_ended_few_are_held_at_a_time(root: Root, clock: ManualClock) -> None:
    for number in range(50):
        training = root.run(f"old/{number}")
        training.steps(2.0)
        training.end()
    service = root.service()
    begun, most = [], 0
    turn = service.poll()
    while True:
        begun += turn.begun
        most = max(most, service.going_on)
        if not turn.more:
            break
        turn = service.poll()
    assert len(begun) == len(found(service)) == 50
    assert most <= 16


def test_runs_that_go_on_are_all_watched_and_those_that_fail_keep_none_waiting(
    root: Root, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(40):
        root.run(f"live/{number}").steps(0.5)

    def fails(_: Watcher) -> Poll:
        raise StoreUnavailable("The bucket is away.")

    monkeypatch.setattr(Watcher, "poll", fails)
    service = root.service()
    turns = [service.poll() for _ in range(4)]
    assert sum(len(turn.begun) for turn in turns) == service.going_on == 40
    assert [turn.more for turn in turns] == [True, True, False, False]
