"""Checkpoints in a run: whole or not there, the last good one found, and never the only one removed."""

from __future__ import annotations

import secrets

import pytest

from barograph.model.tensor import RawTensor
from barograph.runs.state.checkpoints import (
    checkpoint_names,
    keep_newest,
    last_good,
    read_checkpoint,
    read_next,
    steps_of_checkpoints,
    steps_to_go_on_from,
    write_checkpoint,
    write_next,
)
from barograph.store.urls import store_from_url

PLACE = {"place": {"passes": [{}]}}


@pytest.fixture
def store():
    return store_from_url(f"memory://checkpoints-{secrets.token_hex(8)}")


def write(store, steps, attempt=0, content=PLACE, who="p", **more):
    return write_checkpoint(store, attempt=attempt, steps=steps, who=who, content=content,
                            tensors={"w": RawTensor("float32", (1,), b"\0\0\x80?")}, **more)


def write_parts(store, steps, ranks=(0, 1), of=2):
    return [write(store, steps, who=f"r{rank}", content={**PLACE, "machine": {"rank": rank, "world_size": of}})
            for rank in ranks]


def steps_of(store):
    return [int(name[17:25]) for name in checkpoint_names(store)]


def test_a_later_attempt_comes_after_an_earlier_one_that_went_further(store):
    write(store, 30)
    write(store, 12, attempt=1)
    found, told = last_good(store)
    assert (found.attempt, found.steps, told) == (1, 12, [])


def test_a_damaged_one_is_told_and_the_one_before_it_is_taken(store):
    write(store, 10)
    file = write(store, 20)
    store.put(file, bytes(store.get(file))[:-1] + b"\x01")
    found, (told,) = last_good(store)
    assert found.steps == 10
    assert told.startswith("The checkpoint checkpoints/0000-00000020-p.json is damaged; the previous one is used")


def test_tensors_that_are_gone_are_damage(store):
    write(store, 10)
    store.delete(write(store, 20))
    assert last_good(store)[0].steps == 10


@pytest.mark.parametrize(("content", "more", "says"), [
    (PLACE, {"finite": False}, "its weights are not finite"),
    ({"place": None}, {}, "it was saved in the middle of a step"),
    ({"place": {"why_not": "of the moon"}}, {}, "of the moon"),
    ({}, {}, "it was saved in the middle of a step"),
])
def test_one_that_nothing_can_go_on_from_is_passed_over(store, content, more, says):
    write(store, 20, content=content, **more)
    found, (told,) = last_good(store)
    assert found is None
    assert says in told
    assert read_checkpoint(store).steps == 20


def test_where_a_training_goes_on_is_told_by_papers_alone(store):
    assert steps_to_go_on_from(store) is None
    write(store, 10)
    write(store, 20, finite=False)
    write(store, 30, content={"place": {"why_not": "of the moon"}})
    write(store, 40)
    store.put(checkpoint_names(store)[-1], b"no paper")
    assert steps_to_go_on_from(store) == 10


def test_parts_of_several_workers_are_one_checkpoint_of_so_many_steps(store):
    write_parts(store, 10)
    write_parts(store, 20)
    assert steps_of_checkpoints(store) == [10, 20]
    assert steps_to_go_on_from(store) == 20


def test_the_newest_are_kept(store):
    for steps in (10, 20, 30, 40):
        write(store, steps)
        write_next(store, f"checkpoints/0000-{steps:08d}-p.json", {"loss": "0x1"})
    keep_newest(store, 2, [])
    assert steps_of(store) == [30, 40]
    assert len(store.list("checkpoints")) == 6


def test_the_last_good_one_is_never_removed(store):
    write(store, 10)
    for steps in (20, 30):
        write(store, steps, finite=False)
    keep_newest(store, 1, ["checkpoints/0000-00000010-p.json"])
    assert steps_of(store) == [10, 30]


def test_what_came_next_is_read_where_it_was_written_whole(store):
    name = "checkpoints/0000-00000010-p.json"
    assert read_next(store, name) == {}
    write_next(store, name, {"batch": "b", "loss": "0x1"})
    assert {"batch": "b", "loss": "0x1"}.items() <= dict(read_next(store, name)).items()
    store.put("checkpoints/0000-00000010-p.next.json", b"{}")
    assert read_next(store, name) == {}


def test_one_of_several_workers_is_whole_once_each_has_saved_its_part(store):
    write_parts(store, 10)
    write_parts(store, 20, ranks=(0,))
    found, (told,) = last_good(store)
    assert (found.steps, found.rank, found.world_size) == (10, 0, 2)
    assert "checkpoints/0000-00000020-r0.json is skipped: worker 1 of 2 has not saved its part." in told


def test_one_whose_first_worker_saved_none_is_none(store):
    write_parts(store, 10)
    write_parts(store, 20, ranks=(1,))
    found, told = last_good(store)
    assert (found.steps, told) == (10, [])


def test_a_damaged_part_of_another_worker_is_told(store):
    write_parts(store, 10)
    _, file = write_parts(store, 20)
    store.put(file, bytes(store.get(file))[:-1] + b"\x01")
    found, (told,) = last_good(store)
    assert found.steps == 10
    assert "the part of worker 1 is damaged" in told


def test_a_worker_removes_its_own_alone(store):
    for steps in (10, 20, 30):
        write_parts(store, steps, ranks=range(12), of=12)
    keep_newest(store, 1, [], who="r1")
    left = [name[12:-5] for name in checkpoint_names(store)]
    assert [name for name in left if name.endswith("-r1")] == ["0000-00000030-r1"]
    assert len(left) == 2 * 11 + 12


def test_the_last_whole_one_is_kept_where_another_worker_saves_none_any_more(store):
    for steps in (10, 20):
        write_parts(store, steps)
    for steps in (30, 40):
        write_parts(store, steps, ranks=(0,))
    keep_newest(store, 1, ["checkpoints/0000-00000040-r0.json"], who="r0", workers=2)
    assert [name[12:-5] for name in checkpoint_names(store)] == [
        "0000-00000010-r1", "0000-00000020-r0", "0000-00000020-r1", "0000-00000040-r0"]
    assert last_good(store)[0].steps == 20
