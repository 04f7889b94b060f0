"""Everything of one step, its batch, and its capsule with the last replay."""

from __future__ import annotations

import math
from typing import Any

from barograph.model.capsule import CapsuleHead, Held
from barograph.queries.step_record import saved_steps, step_record
from barograph.runs.state.capsules import keep_replay, read_capsule, write_capsule

HEAD = CapsuleHead(0, "p0", 1, 1, "", Held.NOT_FINITE, "The loss is NaN.", 0.0)
RESULT = {"grade": "bitwise", "bad_operation": {"name": "log"}, "guilty": {"rows": [3]}, "norm": None}


def test_numbers_and_tensors_of_the_step_alone(diary: Any) -> None:
    diary.step(0, {"loss:total": 9.0}, {"gradient:a": [9.0]})
    diary.step(1, {"loss:total": 2.0, "scalar:acc": 0.5, "learning_rate:group0": 0.1},
               {"gradient:a": [3.0, 4.0, 0.0, 0.0], "output:b": [math.nan, 1.0]})

    found = step_record(diary.ended(), 1)

    assert found.numbers == {"loss:total": 2.0, "scalar:acc": 0.5, "learning_rate:group0": 0.1}
    assert [(row.key, row.norm, row.zeros, row.nonfinite) for row in found.tensors] == [
        ("output:b", 1.0, 0.0, 1), ("gradient:a", 5.0, 0.5, 0)]
    assert (found.batches, found.saved) == ((), ())
    assert "no data trace" in found.no_batches


def test_a_step_that_was_not_published_has_nothing(diary: Any) -> None:
    diary.step(0, {"loss:total": 9.0})

    found = step_record(diary.ended(), 7)

    assert (found.numbers, found.tensors) == ({}, ())


def test_a_replay_is_shown_as_it_was_printed(diary: Any) -> None:
    diary.step(0, {"loss:total": 9.0})
    run = diary.ended()
    write_capsule(run.store, HEAD, {}, {})
    (before,) = saved_steps(run, 1)
    keep_replay(run.store, read_capsule(run.store, HEAD.name), {**RESULT, "grade": "not reproduced"})
    keep_replay(run.store, read_capsule(run.store, HEAD.name), RESULT)

    (saved,) = saved_steps(run, 1)

    assert (before.replay, before.problem) == (None, "")
    assert saved.replay == RESULT
    assert saved.command.endswith(f"/capsules/{HEAD.name}")
    assert saved.command.startswith("barograph replay ")
    assert saved_steps(run, 2) == ()


def test_a_damaged_replay_is_named_and_the_capsule_is_shown(diary: Any) -> None:
    diary.step(0, {"loss:total": 9.0})
    run = diary.ended()
    write_capsule(run.store, HEAD, {}, {})
    run.store.put(f"capsules/{HEAD.name}/replay.json", b"{}")

    (saved,) = step_record(run, 1).saved

    assert saved.replay is None
    assert "replay.json" in saved.problem
    assert saved.capsule.head == HEAD


def test_a_capsule_that_was_copied_keeps_its_replay_beside_it(diary: Any, new_store: Any) -> None:
    store = diary.store
    write_capsule(store, HEAD, {}, {})
    copied = new_store()
    for item in list(store.list("capsules")):
        copied.put(item.name.rpartition("/")[2], bytes(store.get(item.name)))

    keep_replay(copied, read_capsule(copied), RESULT)

    assert "replay.json" in {item.name for item in copied.list()}
