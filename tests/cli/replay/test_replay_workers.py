"""Which processes make a step again that several workers made."""

from __future__ import annotations

from typing import Any

import pytest

from barograph.cli.replay.replay_workers import are_alone, workers_of
from barograph.model.capsule import CapsuleHead, Held
from barograph.runs.state.capsules import read_capsule, write_capsule
from barograph.store.urls import store_from_url


def held(folder: Any, rank: int | None, size: int, step: int = 7) -> Any:
    store = store_from_url(str(folder))
    head = CapsuleHead(0, f"r{rank or 0}", step, step, "", Held.NOT_FINITE, "", 0.0)
    name = write_capsule(store, head, {"machine": {"rank": rank, "world_size": size}}, {})
    return read_capsule(store, name.rpartition("/")[2])


@pytest.mark.parametrize(("rank", "size"), [(None, 1), (0, 1)])
def test_one_process_is_no_worker_among_others(tmp_path: Any, rank: int | None, size: int) -> None:
    workers = workers_of(held(tmp_path, rank, size))
    assert workers == ()
    assert not are_alone(workers)


def test_all_workers_whose_capsules_are_there_are_started_the_asked_one_first(tmp_path: Any) -> None:
    held(tmp_path, 0, 2)
    held(tmp_path, 0, 2, step=5)
    workers = workers_of(held(tmp_path, 1, 2))
    assert [worker.rank for worker in workers] == [1, 0]
    assert [worker.place.rpartition("-")[2] for worker in workers] == ["r1", "r0"]
    assert not are_alone(workers)
    assert [worker.variables["RANK"] for worker in workers] == ["1", "0"]
    assert {worker.variables["WORLD_SIZE"] for worker in workers} == {"2"}
    assert len({worker.variables["MASTER_PORT"] for worker in workers}) == 1


def test_where_one_is_missing_the_asked_one_is_alone(tmp_path: Any) -> None:
    held(tmp_path, 0, 3)
    workers = workers_of(held(tmp_path, 1, 3))
    assert [worker.rank for worker in workers] == [1]
    assert are_alone(workers)
