"""The feed hands out each complete step once, in order, whatever happens meanwhile."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from barograph.errors import NotARun, StoreUnavailable
from barograph.model.key import Key, Kind
from barograph.model.manifest import Ending, EndState, Heartbeat
from barograph.model.records import StepRecords
from barograph.model.step import Mode
from barograph.runs.format.events import read_table
from barograph.runs.format.metadata import ending_bytes
from barograph.runs.reading.feed import Feed
from barograph.runs.reading.view import StepView
from barograph.runs.state.claim import begin_attempt

MakeRecords = Callable[..., StepRecords]
LOSS = Key(Kind.LOSS, "loss")


def numbers(views: Any) -> list[int]:
    return [view.step.number for view in views]


def drain(feed: Feed) -> list[StepView]:
    views: list[StepView] = []
    more = True
    while more:
        result = feed.poll()
        views.extend(result.views)
        more = result.more
    return views


def test_steps_come_as_they_are_published(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer()
    feed = workshop.feed()
    assert feed.poll().views == ()
    workshop.publish(writer, make_records(0), make_records(1, loss=0.25))
    first = feed.poll()
    assert numbers(first.views) == [0, 1]
    assert first.views[1].scalar(LOSS) == 0.25
    assert feed.poll().views == ()
    workshop.publish(writer, make_records(2))
    assert numbers(feed.poll().views) == [2]


def test_a_place_without_a_run_says_so(workshop: Any) -> None:
    with pytest.raises(NotARun):
        workshop.feed().poll()


def test_a_run_that_ended_is_over_once_all_was_handed_out(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer()
    feed = workshop.feed()
    workshop.publish(writer, make_records(0))
    assert not feed.poll().ended
    writer.put(make_records(1))
    writer.close(EndState.FINISHED)
    last = feed.poll()
    assert (numbers(last.views), last.ended, last.drained) == ([1], True, True)


def test_a_run_that_is_over_comes_whole(workshop: Any, make_records: MakeRecords) -> None:
    workshop.finished(*(make_records(tick) for tick in range(20)))
    whole = numbers(drain(workshop.feed()))
    assert whole == list(range(20))


def test_a_watcher_killed_at_any_moment_misses_nothing_and_sees_nothing_twice(
    workshop: Any, make_records: MakeRecords
) -> None:
    chance = random.Random(20261120)
    workshop.claim()
    writers = [workshop.writer(workshop.worker(rank=rank, world_size=2)) for rank in range(2)]
    ticks = [0, 0]
    seen: list[tuple[int, tuple[str, ...]]] = []
    cursor = None
    feed = workshop.feed()
    while min(ticks) < 40:
        rank = chance.randrange(2)
        if ticks[rank] < 40:
            writers[rank].put(make_records(ticks[rank]))
            ticks[rank] += 1
        if chance.random() < 0.5:
            workshop.publish(writers[rank])
        if chance.random() < 0.3:
            result = feed.poll()
            seen.extend((view.step.number, view.workers) for view in result.views)
            cursor = json.loads(json.dumps(result.cursor))
        if chance.random() < 0.3:
            feed = workshop.feed(cursor)
    for writer in writers:
        writer.close(EndState.FINISHED)
    result = feed.poll()
    seen.extend((view.step.number, view.workers) for view in result.views)
    assert seen == [(number, ("r0", "r1")) for number in range(40)]
    assert result.ended


def test_live_and_replay_see_the_same(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer()
    live: list[StepView] = []
    feed = workshop.feed()
    for tick in range(50):
        writer.log("accuracy", tick / 2, tick, Mode.TRAIN, 0.0)
        writer.put(make_records(tick, mode=Mode.EVAL if tick % 10 == 9 else Mode.TRAIN))
        writer.log("late", tick / 4, tick, Mode.TRAIN, 0.0)
        workshop.publish(writer)
        live.extend(feed.poll().views)
    writer.close(EndState.FINISHED)
    live.extend(feed.poll().views)
    replay = drain(workshop.feed())
    assert [(view.step, view.scalars(Kind.SCALAR), view.scalar(LOSS)) for view in live] == [
        (view.step, view.scalars(Kind.SCALAR), view.scalar(LOSS)) for view in replay]
    assert len(workshop.names("records")) < 50  # meanwhile files were made one


def test_a_step_waits_for_every_rank(workshop: Any, make_records: MakeRecords) -> None:
    workshop.claim()
    first, second = [workshop.writer(workshop.worker(rank=rank, world_size=2)) for rank in range(2)]
    feed = workshop.feed()
    workshop.publish(first, make_records(0), make_records(1))
    assert feed.poll().views == ()
    workshop.publish(second, make_records(0))
    views = feed.poll().views
    assert [(view.step.number, view.workers) for view in views] == [(0, ("r0", "r1"))]


def test_a_rank_that_has_not_declared_itself_is_waited_for_and_not_for_ever(
    workshop: Any, make_records: MakeRecords
) -> None:
    workshop.claim()
    writer = workshop.writer(workshop.worker(rank=0, world_size=3))
    feed = workshop.feed()
    workshop.publish(writer, make_records(0))
    assert feed.poll().views == ()
    seen: list[int] = []
    for _ in range(60):
        workshop.clock.advance(1)
        seen.extend(numbers(feed.poll().views))
    assert seen == [0]


def test_processes_without_rank_wait_for_nobody(workshop: Any, make_records: MakeRecords) -> None:
    workshop.claim()
    first, second = workshop.writer(workshop.worker()), workshop.writer(workshop.worker())
    feed = workshop.feed()
    workshop.publish(first, make_records(0))
    workshop.publish(second, make_records(5))
    assert [(view.group, view.step.number) for view in feed.poll().views] == [("p0", 0), ("p1", 5)]


def test_an_evaluation_that_one_rank_makes_alone_comes_in_its_place(workshop: Any, make_records: MakeRecords) -> None:
    workshop.claim()
    first, second = [workshop.writer(workshop.worker(rank=rank, world_size=2)) for rank in range(2)]
    feed = workshop.feed()
    workshop.publish(second, make_records(0, 0), make_records(1, 1), make_records(2, 2))
    workshop.publish(first, make_records(0, 0), make_records(1, 1), make_records(2, 2, mode=Mode.EVAL),
                     make_records(3, 2))
    assert [(view.step.mode, view.step.number, view.workers) for view in feed.poll().views] == [
        (Mode.TRAIN, 0, ("r0", "r1")), (Mode.TRAIN, 1, ("r0", "r1")),
        (Mode.EVAL, 2, ("r0",)), (Mode.TRAIN, 2, ("r0", "r1")),
    ]


def test_two_optimizers_keep_the_order_in_which_they_stepped(workshop: Any, make_records: MakeRecords) -> None:
    workshop.claim()
    writers = [workshop.writer(workshop.worker(rank=rank, world_size=2)) for rank in range(2)]
    steps = [("d", 0), ("d", 1), ("g", 0), ("d", 2), ("g", 1)]
    for writer in writers:
        for tick, (optimizer, number) in enumerate(steps):
            workshop.publish(writer, make_records(tick, number, optimizer=optimizer))
    views = workshop.feed().poll().views
    assert [(view.step.optimizer, view.step.number) for view in views] == steps
    assert all(view.workers == ("r0", "r1") for view in views)


def test_ranks_that_disagree_about_the_order_hold_nobody_up(workshop: Any, make_records: MakeRecords) -> None:
    workshop.claim()
    first, second = [workshop.writer(workshop.worker(rank=rank, world_size=2)) for rank in range(2)]
    workshop.publish(first, make_records(0, 0, optimizer="d"), make_records(1, 0, optimizer="g"))
    workshop.publish(second, make_records(0, 0, optimizer="g"), make_records(1, 0, optimizer="d"))
    for writer in (first, second):
        writer.close(EndState.FINISHED)
    result = workshop.feed().poll()
    assert result.ended
    assert sorted(worker for view in result.views for worker in view.workers) == ["r0", "r0", "r1", "r1"]


def test_a_rank_that_was_killed_is_not_waited_for(workshop: Any, make_records: MakeRecords) -> None:
    workshop.claim()
    first, second = [workshop.worker(rank=rank, world_size=2) for rank in range(2)]
    feed = workshop.feed()
    workshop.publish(workshop.writer(second), make_records(0))
    workshop.kill(second)
    workshop.publish(workshop.writer(first), make_records(0), make_records(1))
    assert [(view.step.number, view.workers) for view in feed.poll().views] == [(0, ("r0", "r1"))]
    workshop.clock.advance(3)
    assert [(view.step.number, view.workers) for view in feed.poll().views] == [(1, ("r0",))]


def test_a_rank_that_falls_silent_is_waited_for_a_while_and_comes_later(
    workshop: Any, make_records: MakeRecords
) -> None:
    workshop.claim()
    first, second = [workshop.writer(workshop.worker(rank=rank, world_size=2)) for rank in range(2)]
    feed = workshop.feed()
    workshop.publish(second, make_records(0))
    workshop.publish(first, make_records(0), make_records(1))
    assert numbers(feed.poll().views) == [0]
    waited = 0
    while not (views := feed.poll().views):
        workshop.clock.advance(1)
        first.turn()
        waited += 1
    assert (numbers(views), views[0].workers) == ([1], ("r0",))
    assert 25 <= waited <= 35
    workshop.publish(second, make_records(1))
    late = feed.poll()
    assert [(view.step.number, view.workers) for view in late.views] == [(1, ("r1",))]
    assert not late.ended


def test_a_reader_that_was_asleep_does_not_take_workers_for_dead(workshop: Any, make_records: MakeRecords) -> None:
    workshop.claim()
    first, second = [workshop.writer(workshop.worker(rank=rank, world_size=2)) for rank in range(2)]
    feed = workshop.feed()
    workshop.publish(second, make_records(0))
    workshop.publish(first, make_records(0), make_records(1))
    feed.poll()
    workshop.clock.advance(3600)
    assert feed.poll().views == ()


def test_a_process_that_was_killed_ends_the_run(workshop: Any, make_records: MakeRecords) -> None:
    worker = workshop.worker(attempt=workshop.claim())
    workshop.publish(workshop.writer(worker), make_records(0))
    feed = workshop.feed()
    workshop.kill(worker)
    assert numbers(feed.poll().views) == [0]
    workshop.clock.advance(3)
    result = feed.poll()
    assert result.drained
    assert not result.ended  # we ourselves began the attempt, and may start another worker


def test_what_another_process_still_publishes_for_one_that_was_killed_is_not_missed(
    workshop: Any, make_records: MakeRecords
) -> None:
    worker = workshop.worker(attempt=workshop.claim())
    writer = workshop.writer(worker)
    workshop.publish(writer, make_records(0))
    feed = workshop.feed()
    workshop.kill(worker)
    seen = []
    for tick in range(1, 6):
        result = feed.poll()
        seen.extend(numbers(result.views))
        assert not result.drained
        writer.put(make_records(tick))
        workshop.clock.advance(2)
        writer.turn()
    writer.abandon()
    seen.extend(numbers(feed.poll().views))
    workshop.clock.advance(3)
    assert (seen, feed.poll().drained) == ([0, 1, 2, 3, 4, 5], True)


def test_a_process_far_away_is_dead_once_its_heart_stands_still(workshop: Any, make_records: MakeRecords) -> None:
    worker = workshop.worker(attempt=workshop.claim())
    workshop.publish(workshop.writer(worker), make_records(0))
    workshop.move_away(worker)
    feed = workshop.feed()
    polls = 0
    while not feed.poll().drained:
        workshop.clock.advance(1)
        polls += 1
    assert 25 <= polls <= 35


def test_later_attempts_follow_earlier_ones(workshop: Any, make_records: MakeRecords) -> None:
    worker = workshop.worker(attempt=workshop.claim())
    workshop.publish(workshop.writer(worker), make_records(0, 0), make_records(1, 1))
    workshop.kill(worker)
    begin_attempt(workshop.store, 1, started_unix=0.0)
    feed = workshop.feed()
    assert [(view.attempt, view.step.number) for view in feed.poll().views] == [(0, 0), (0, 1)]
    workshop.clock.advance(3)
    workshop.publish(workshop.writer(workshop.worker(attempt=1)), make_records(0, 1), make_records(1, 2))
    result = feed.poll()
    assert [(view.attempt, view.step.number) for view in result.views] == [(1, 1), (1, 2)]
    again = workshop.feed(json.loads(json.dumps(result.cursor)))
    assert again.poll().views == ()


def test_what_is_published_for_a_killed_worker_after_the_next_attempt_began_comes_before_it(
    workshop: Any, make_records: MakeRecords
) -> None:
    worker = workshop.worker(attempt=workshop.claim())
    writer = workshop.writer(worker)
    workshop.publish(writer, make_records(0))
    workshop.kill(worker)
    feed = workshop.feed()
    live = list(feed.poll().views)
    again = workshop.writer(workshop.worker(attempt=workshop.claim()))
    live.extend(feed.poll().views)
    workshop.publish(again, make_records(0, 2))
    workshop.publish(writer, make_records(1))
    live.extend(feed.poll().views)
    workshop.clock.advance(3)
    last = feed.poll()
    live.extend(last.views)
    assert [(view.attempt, view.step.number) for view in live] == [(0, 0), (0, 1), (1, 2)]
    assert last.damage == ()
    replay = workshop.feed()
    views = list(replay.poll().views)
    workshop.clock.advance(3)
    views.extend(replay.poll().views)
    assert [(view.attempt, view.step) for view in views] == [(view.attempt, view.step) for view in live]


def test_ranks_of_an_attempt_that_is_over_are_lined_up_as_long_as_they_publish(
    workshop: Any, make_records: MakeRecords
) -> None:
    workshop.claim()
    workers = [workshop.worker(rank=rank, world_size=2) for rank in range(2)]
    first, second = [workshop.writer(worker) for worker in workers]
    workshop.publish(first, make_records(0))
    feed = workshop.feed()
    for worker in workers:
        workshop.kill(worker)
    begin_attempt(workshop.store, 1, started_unix=0.0)
    assert feed.poll().views == ()
    workshop.publish(second, make_records(0))
    assert [(view.step.number, view.workers) for view in feed.poll().views] == [(0, ("r0", "r1"))]


def test_an_attempt_whose_workers_give_signs_for_ever_is_left_all_the_same(
    workshop: Any, make_records: MakeRecords
) -> None:
    worker = workshop.worker(attempt=workshop.claim())
    writer = workshop.writer(worker)
    workshop.publish(writer, make_records(0))
    begin_attempt(workshop.store, 1, started_unix=0.0)
    workshop.publish(workshop.writer(workshop.worker(attempt=1)), make_records(0, 1))
    feed = workshop.feed()
    polls, seen = 0, []
    while not seen or seen[-1].attempt == 0:
        workshop.clock.advance(1)
        writer.turn()
        seen.extend(feed.poll().views)
        polls += 1
    assert 45 <= polls <= 55  # twice the 10 s in which a writer gives up, and 30 s
    workshop.publish(writer, make_records(1))
    workshop.publish(writer, make_records(2))
    told = (*feed.poll().damage, *feed.poll().damage)
    assert len(told) == 1
    assert told[0].startswith("Chunk 1 of worker p0 in attempt 0 arrived after")


@pytest.mark.parametrize(
    ("settings", "secs"),
    [({"close_timeout_secs": 60.0}, 150), ({}, 50), ({"close_timeout_secs": 1e9}, 50),
     ({"close_timeout_secs": math.nan}, 50), ({"close_timeout_secs": "long"}, 50)],
)
def test_how_long_last_words_may_take_is_what_the_settings_say_within_reason(
    workshop: Any, make_records: MakeRecords, settings: Any, secs: int
) -> None:
    workshop.manifest = replace(workshop.manifest, settings=settings)
    writer = workshop.writer()
    workshop.publish(writer, make_records(0))
    begin_attempt(workshop.store, 1, started_unix=0.0)
    workshop.publish(workshop.writer(workshop.worker(attempt=1)), make_records(0, 1))
    feed = workshop.feed()
    feed.poll()
    polls, views = 0, ()
    while not views:
        workshop.clock.advance(1)
        writer.turn()
        views = feed.poll().views
        polls += 1
    assert polls == secs


def test_a_replay_does_not_wait_where_the_next_attempt_has_lived_for_long(
    workshop: Any, make_records: MakeRecords
) -> None:
    worker = workshop.worker(attempt=workshop.claim())
    workshop.publish(workshop.writer(worker), make_records(0))
    workshop.kill(worker)
    writer = workshop.writer(workshop.worker(attempt=workshop.claim()))
    for _ in range(60):
        workshop.clock.advance(1)
        writer.turn()
    workshop.publish(writer, make_records(0, 1))
    assert [(view.attempt, view.step.number) for view in workshop.feed().poll().views] == [(0, 0), (1, 1)]


def test_workers_that_were_killed_in_many_attempts_are_waited_for_together(
    workshop: Any, make_records: MakeRecords
) -> None:
    for number in range(5):
        worker = workshop.worker(attempt=workshop.claim())
        workshop.publish(workshop.writer(worker), make_records(0, number))
        workshop.kill(worker)
    feed = workshop.feed()
    assert numbers(feed.poll().views) == [0]
    workshop.clock.advance(3)
    last = feed.poll()
    assert (numbers(last.views), last.drained) == ([1, 2, 3, 4], True)


def test_signs_of_a_later_attempt_are_read_once_a_poll_however_many_workers_are_waited_for(
    workshop: Any, make_records: MakeRecords
) -> None:
    workshop.claim()
    workers = [workshop.worker(rank=rank, world_size=4) for rank in range(4)]
    for worker in workers:
        workshop.publish(workshop.writer(worker), make_records(0))
        workshop.kill(worker)
    workshop.writer(workshop.worker(attempt=workshop.claim())).turn()
    feed = workshop.feed()
    feed.poll()
    workshop.store.calls.clear()
    feed.poll()
    read = [name for verb, name in workshop.store.calls if verb == "get" and name.startswith("heartbeats/")]
    assert sorted(read) == [
        "heartbeats/p0-0001.json", "heartbeats/p0-0001.json",  # for how often it has beaten, and whether it still does
        *(f"heartbeats/r{rank}-0000.json" for rank in range(4)),
    ]


def test_an_impatient_feed_takes_what_is_there(workshop: Any, make_records: MakeRecords) -> None:
    worker = workshop.worker(attempt=workshop.claim())
    workshop.publish(workshop.writer(worker), make_records(0))
    workshop.kill(worker)
    workshop.publish(workshop.writer(workshop.worker(attempt=workshop.claim())), make_records(0, 1))
    views = Feed(workshop.store, clock=workshop.clock, patient=False).poll().views
    assert [(view.attempt, view.step.number) for view in views] == [(0, 0), (1, 1)]


def test_a_store_that_is_away_loses_nothing(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer()
    feed = workshop.feed()
    workshop.publish(writer, make_records(0))
    for verbs in ({"list"}, {"get"}):
        workshop.store.error, workshop.store.verbs = StoreUnavailable("away"), verbs
        with pytest.raises(StoreUnavailable):
            feed.poll()
    workshop.store.error = None
    assert numbers(feed.poll().views) == [0]


def test_a_chunk_that_is_lost_is_named_and_the_rest_comes(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer()
    for tick in range(4):
        workshop.publish(writer, make_records(tick))
    workshop.store.inner.delete(workshop.names("records")[1])
    feed = workshop.feed()
    views, damage = [], []
    for _ in range(3):
        result = feed.poll()
        views.extend(result.views)
        damage.extend(result.damage)
        workshop.clock.advance(2)
    assert numbers(views) == [0, 2, 3]
    assert damage == ["Chunk 1 of worker p0 in attempt 0 cannot be read."]


def test_a_chunk_that_a_listing_shows_late_is_waited_for_without_hurry(
    workshop: Any, make_records: MakeRecords
) -> None:
    writer = workshop.writer()
    for tick in range(4):
        workshop.publish(writer, make_records(tick))
    name = workshop.names("records")[1]
    data = bytes(workshop.store.get(name))
    workshop.store.inner.delete(name)
    feed = workshop.feed()
    polls = [feed.poll() for _ in range(4)]
    assert [(numbers(poll.views), poll.more, poll.drained, poll.damage) for poll in polls] == [
        ([0], True, False, ()), ([], False, False, ()), ([], False, False, ()), ([], False, False, ())]
    workshop.clock.advance(2.5)
    workshop.store.inner.put(name, data)
    assert numbers(feed.poll().views) == [1, 2, 3]


def test_a_last_chunk_that_a_listing_shows_late_is_waited_for(workshop: Any, make_records: MakeRecords) -> None:
    worker = workshop.worker(attempt=workshop.claim())
    workshop.publish(workshop.writer(worker), make_records(0))
    ending = Ending(EndState.FINISHED, "", Heartbeat(9, 0.0))
    workshop.store.put("endings/p0-0000.json", ending_bytes(ending, last_chunk=1))
    feed = workshop.feed()
    polls = [feed.poll() for _ in range(3)]
    assert [(numbers(poll.views), poll.more, poll.drained) for poll in polls] == [
        ([0], True, False), ([], False, False), ([], False, False)]
    workshop.clock.advance(3)
    last = feed.poll()
    assert (last.ended, last.damage) == (True, ("Chunk 1 of worker p0 in attempt 0 cannot be read.",))


def test_many_chunks_that_are_lost_are_waited_for_together(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer()
    for tick in range(9):
        workshop.publish(writer, make_records(tick))
    for name in workshop.names("records")[1::2]:
        workshop.store.inner.delete(name)
    feed = workshop.feed()
    assert numbers(drain(feed)) == [0]
    workshop.clock.advance(3)
    assert numbers(drain(feed)) == [2, 4, 6, 8]


def test_an_impatient_feed_looks_for_a_missing_chunk_once_more_and_goes_on(
    workshop: Any, make_records: MakeRecords
) -> None:
    writer = workshop.writer()
    for tick in range(3):
        workshop.publish(writer, make_records(tick))
    workshop.store.inner.delete(workshop.names("records")[1])
    feed = Feed(workshop.store, clock=workshop.clock, patient=False)
    assert numbers(drain(feed)) == [0, 2]


def test_the_last_chunk_that_is_lost_does_not_keep_the_run_open(workshop: Any, make_records: MakeRecords) -> None:
    writer = workshop.writer()
    workshop.publish(writer, make_records(0), make_records(1))
    writer.put(make_records(2))
    writer.close(EndState.FINISHED)
    name = workshop.names("records")[-1]
    workshop.store.inner.put(name, b"damaged")
    feed = workshop.feed()
    results = []
    for _ in range(3):
        results.append(feed.poll())
        workshop.clock.advance(2)
    assert results[-1].ended
    assert any("damaged" in text for result in results for text in result.damage)


def test_files_made_one_between_the_listing_and_the_reading_are_found(
    workshop: Any, make_records: MakeRecords
) -> None:
    writer = workshop.writer()
    for tick in range(31):
        workshop.publish(writer, make_records(tick))
    feed = workshop.feed()
    writer.put(make_records(31))

    def compact(verb: str, name: str) -> None:
        if verb == "get" and name.startswith("records"):
            workshop.store.before = lambda verb, name: None
            workshop.publish(writer)
            workshop.publish(writer, make_records(32))

    workshop.store.before = compact
    assert numbers(drain(feed)) == list(range(33))
    assert len(workshop.names("records")) == 2


def test_a_listing_that_catches_neither_the_old_files_nor_the_new_loses_nothing(
    workshop: Any, make_records: MakeRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = workshop.writer()
    for tick in range(34):
        workshop.publish(writer, make_records(tick))
    listing = workshop.store.inner.list()
    torn = [item for item in listing if "00000000-00000031" not in item.name]
    assert len(torn) == len(listing) - 1
    answers = [torn]
    monkeypatch.setattr(workshop.store, "list", lambda folder="": answers.pop() if answers else listing)
    feed = workshop.feed()
    views, damage = [], []
    for _ in range(3):
        result = feed.poll()
        views.extend(result.views)
        damage.extend(result.damage)
    assert (numbers(views), damage) == (list(range(34)), [])


def test_a_long_run_comes_in_parts(workshop: Any, make_records: MakeRecords, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barograph.runs.reading.feed.BATCH_BYTES", 1)
    writer = workshop.writer()
    for tick in range(5):
        workshop.publish(writer, make_records(tick))
    feed = workshop.feed()
    first = feed.poll()
    assert (numbers(first.views), first.more) == ([0], True)
    assert numbers(drain(feed)) == [1, 2, 3, 4]


def test_what_fills_the_memory_counts_and_not_what_lies_on_the_disk(
    workshop: Any, make_records: MakeRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = workshop.writer()
    for tick in range(5):
        workshop.publish(writer, make_records(tick))
    chunk = workshop.store.inner.list("records")[0]
    in_memory = read_table(workshop.store.inner.get(chunk.name), chunk.name).nbytes
    assert in_memory != chunk.size_bytes
    monkeypatch.setattr("barograph.runs.reading.feed.BATCH_BYTES", in_memory + 1)
    assert len(workshop.feed().poll().views) == 2


def test_steps_that_wait_for_another_worker_are_bounded(
    workshop: Any, make_records: MakeRecords, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("barograph.runs.reading.stream.FULL_EVENTS", 3)
    workshop.claim()
    first, second = [workshop.writer(workshop.worker(rank=rank, world_size=2)) for rank in range(2)]
    feed = workshop.feed()
    for tick in range(10):
        workshop.publish(first, make_records(tick))
    waiting = feed.poll()
    assert (waiting.views, waiting.more) == ((), False)
    assert len([call for call in workshop.store.calls if call[0] == "get" and call[1].startswith("records")]) == 3
    for tick in range(10):
        workshop.publish(second, make_records(tick))
    assert numbers(drain(feed)) == list(range(10))


def test_a_damaged_paper_of_one_worker_is_named_and_the_others_come(
    workshop: Any, make_records: MakeRecords
) -> None:
    workshop.claim()
    first, second = workshop.worker(), workshop.worker()
    for worker in (first, second):
        workshop.publish(workshop.writer(worker), make_records(0))
    workshop.store.put("workers/p0-0000.json", b"{")
    feed = workshop.feed()
    result = feed.poll()
    assert [view.group for view in result.views] == ["p1"]
    assert len(result.damage) == 1
    assert "workers/p0" in result.damage[0]
    assert feed.poll().damage == ()
